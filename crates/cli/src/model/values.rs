//! Parses times and rates on the command line and in files, with or without units, and prints them.

use std::str::FromStr;

use curtail_dist::Time;
use curtail_kernel::duration::{UNITS, Unit};
use curtail_sim::UNIT_NS;

use super::refused;
use crate::exit::Stop;

/// The unit of times and rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Times have units. Times are printed in milliseconds, and rates per second.
    Milliseconds,
    /// Times have no units. All times and rates refer to a time unit of the user's choice.
    Multiples,
}

/// If times have units, models take rates per millisecond.
const MS_PER_S: f64 = 1e3;

impl Scale {
    pub(super) fn of(have_units: bool) -> Self {
        if have_units { Self::Milliseconds } else { Self::Multiples }
    }

    /// The unit of times in JSON, as `curtail sim` names it.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Multiples => "1",
        }
    }

    /// The unit of rates in JSON.
    pub(super) fn rate_unit(self) -> &'static str {
        match self {
            Self::Milliseconds => "1/s",
            Self::Multiples => "1",
        }
    }

    /// Converts a model's rate to the unit in which rates are printed.
    pub(super) fn rate(self, of_model: f64) -> f64 {
        match self {
            Self::Milliseconds => of_model * MS_PER_S,
            Self::Multiples => of_model,
        }
    }
}

/// Formats a converted rate.
pub(super) fn rate_words(rate: f64, rate_unit: &str) -> String {
    let per = rate_unit.strip_prefix('1').unwrap_or_default();
    format!("{}{per}", figure(rate))
}

/// Formats a time with its unit, if it has one.
pub(super) fn time_words(time: f64, unit: &str) -> String {
    if unit == "1" { figure(time) } else { format!("{} {unit}", figure(time)) }
}

/// Formats a number with four significant digits.
pub(super) fn figure(value: f64) -> String {
    let size = value.abs();
    // Rounding error in the difference between two equal numbers.
    if size < 1e-12 {
        return "0".to_owned();
    }
    if !(1e-3..1e7).contains(&size) {
        return format!("{value:.3e}");
    }
    let decimals = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A rate in the form in which it was given, such as `0.8` or `100/s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    number: f64,
    per: Option<Unit>,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, per) = match text.split_once('/') {
            Some((number, per)) => (number, Some(per.trim())),
            None => (text, None),
        };
        let number: f64 = number.trim().parse().unwrap_or(f64::NAN);
        if !(number.is_finite() && number > 0.0) {
            return Err("write a rate above 0, such as 0.8 or 100/s".to_owned());
        }
        let unit = |name| {
            Unit::parse(name)
                .ok_or_else(|| format!("write its unit as one of {UNITS}, such as 100/s"))
        };
        Ok(Self { number, per: per.map(unit).transpose()? })
    }
}

impl Rate {
    pub(super) fn has_unit(self) -> bool {
        self.per.is_some()
    }

    /// Converts the rate for a model. If times have units, a rate without a unit is per second, as
    /// in `curtail load`. Errors name `flag`.
    pub(super) fn of_model(self, scale: Scale, flag: &str) -> Result<f64, Stop> {
        let Self { number, per } = self;
        match (scale, per) {
            (Scale::Multiples, None) => Ok(number),
            (Scale::Multiples, Some(unit)) => Err(refused(format_args!(
                "{flag} {number}/{} has a unit and the times have none; drop it, or write the \
                 times with units, such as 5ms",
                unit.name()
            ))),
            (Scale::Milliseconds, per) => {
                let per_ns = number / per.unwrap_or(Unit::Second).ns() as f64;
                Ok(per_ns * UNIT_NS as f64)
            }
        }
    }
}

/// Parses a utilization, which must be below 1 for the queue to be stable.
pub(super) fn utilization(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|u: &f64| *u > 0.0 && *u < 1.0);
    read.ok_or_else(|| {
        "write a fraction above 0 and below 1, such as 0.8; at 1 the queue grows without end"
            .to_owned()
    })
}

/// Parses a squared coefficient of variation.
pub(super) fn scv(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|scv: &f64| scv.is_finite() && *scv >= 0.0);
    read.ok_or_else(|| "write variance/mean², a number of 0 or more, such as 0.5".to_owned())
}

/// Parses a time with or without a unit.
pub(super) fn time(text: &str) -> Result<Time, String> {
    text.parse().map_err(|error: curtail_dist::Malformed| error.to_string())
}

/// Reads times from one source. It is an error if only some of them have units.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OneUnit {
    have_units: Option<bool>,
}

impl OneUnit {
    /// Parses a time, and converts it to milliseconds, or to multiples of the user's unit.
    pub(super) fn read(&mut self, text: &str) -> Result<f64, String> {
        let time = time(text).map_err(|mend| format!("`{text}` is not a time: {mend}"))?;
        self.take(time).map_err(|why| format!("`{text}`: {why}"))
    }

    pub(super) fn take(&mut self, time: Time) -> Result<f64, &'static str> {
        let has = time.unit.is_some();
        if *self.have_units.get_or_insert(has) != has {
            return Err("some times have units and some have none; give all a unit or none");
        }
        Ok(time.ns(UNIT_NS as f64) / UNIT_NS as f64)
    }

    pub(super) fn scale(self) -> Scale {
        Scale::of(self.have_units == Some(true))
    }
}
