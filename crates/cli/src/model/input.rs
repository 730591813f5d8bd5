//! Input that the models share: times and rates with or without units, service times, the load, and
//! files of rows. In a file, fields are separated by commas or white space, `#` starts a comment, and
//! a header line is skipped.

use std::path::Path;
use std::str::FromStr;

use curtail_config::excerpt;
use curtail_dist::{Form, Spec, Time, read_text};
use curtail_kernel::duration::{UNITS, Unit};
use curtail_queueing::ModelError;
use curtail_queueing::models::{Hyper, Service as Moments};
use curtail_report::number::figure;
use curtail_sim::UNIT_NS;

use crate::args::number;
use crate::exit::{Stop, bad};

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
            (Scale::Multiples, Some(unit)) => Err(bad!(
                "{flag} {number}/{} has a unit and the times have none; drop it, or write the \
                 times with units, such as 5ms",
                unit.name()
            )),
            (Scale::Milliseconds, per) => {
                let per_ns = number / per.unwrap_or(Unit::Second).ns() as f64;
                Ok(per_ns * UNIT_NS as f64)
            }
        }
    }
}

/// Parses a utilization, which must be below 1 for the queue to be stable.
pub(super) fn utilization(text: &str) -> Result<f64, String> {
    let write =
        "write a fraction above 0 and below 1, such as 0.8; at 1 the queue grows without end";
    number(text, |u| u > 0.0 && u < 1.0, write)
}

/// Parses a squared coefficient of variation.
pub(super) fn scv(text: &str) -> Result<f64, String> {
    let write = "write variance/mean², a number of 0 or more, such as 0.5";
    number(text, |scv| scv.is_finite() && scv >= 0.0, write)
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

/// A parsed service time, with its moments.
pub(super) struct Service {
    pub(super) text: String,
    pub(super) form: Form,
    pub(super) scale: Scale,
    /// The mean is in milliseconds, or in multiples of the user's unit.
    pub(super) moments: Moments,
    pub(super) skewness: f64,
}

impl Service {
    /// Parses the value of `flag`.
    pub(super) fn parse(flag: &str, text: &str) -> Result<Self, Stop> {
        let bad = |why: &dyn std::fmt::Display| bad!("{flag} {text}: {why}");
        let spec: Spec = text.parse().map_err(|error| bad(&error))?;
        let law = spec.resolve(UNIT_NS as f64).map_err(|error| bad(&error))?;
        Ok(Self {
            text: text.to_owned(),
            form: spec.form(),
            scale: Scale::of(law.has_units() == Some(true)),
            moments: Moments { mean: law.mean() / UNIT_NS as f64, scv: law.scv() },
            skewness: law.skewness(),
        })
    }

    /// Parses the value of `flag`, and rejects a mean of 0 or infinity.
    pub(super) fn of_server(flag: &str, text: &str) -> Result<Self, Stop> {
        let service = Self::parse(flag, text)?;
        let why = match service.moments.mean {
            0.0 => "its mean is 0, so nothing ever waits; give a service that takes time",
            mean if mean.is_finite() => return Ok(service),
            _ => {
                "its mean is infinite, so the queue grows without end; limit it, as in \
                 pareto:ALPHA:MIN:MAX"
            }
        };
        Err(bad!("{flag} {text}: {why}"))
    }

    /// Parses the gaps between arrivals. They must have units if this service has units.
    pub(super) fn gaps(&self, text: &str) -> Result<Self, Stop> {
        let gaps = Self::parse("--gaps", text)?;
        let mean = gaps.moments.mean;
        let why = match gaps.scale == self.scale {
            true if mean.is_finite() && mean > 0.0 => return Ok(gaps),
            true => format!("its mean is {mean}; give gaps with a finite mean above 0"),
            false => format!("the service is {}; give both units or none", self.text),
        };
        Err(bad!("--gaps {text}: {why}"))
    }

    /// The skewness, unless the first two moments determine it.
    fn third(&self) -> Option<f64> {
        let is_known = matches!(self.form, Form::Exponential | Form::Hyper);
        (!is_known).then_some(self.skewness)
    }

    /// Fits a hyper-exponential to these moments, but with the given mean.
    pub(super) fn hyper(&self, mean: f64) -> Result<Hyper, ModelError> {
        // Rounding may put the SCV of an exponential slightly below 1.
        Hyper::fitted(mean, self.moments.scv.max(1.0), self.third())
    }

    /// Why no hyper-exponential has these moments, and the fix; `None` if one does.
    pub(super) fn no_hyper(&self) -> Option<String> {
        let Moments { scv, .. } = self.moments;
        match self.third() {
            Some(_) if scv.is_nan() || scv < 1.0 => Some(format!(
                "its squared coefficient of variation is {}, and a hyper-exponential has 1 or more",
                figure(scv)
            )),
            Some(third) if !third.is_finite() => Some(
                "its third moment is infinite, and a hyper-exponential has finite moments; limit \
                 it, as in pareto:ALPHA:MIN:MAX"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Rejects a service that is not exponential. `why` names the model that needs exponential
    /// service.
    pub(super) fn exponential(self, flag: &str, why: &str) -> Result<Self, Stop> {
        if self.form == Form::Exponential {
            return Ok(self);
        }
        Err(bad!("{flag} {} is not exponential; {why}", self.text))
    }
}

/// The load: an arrival rate or a utilization.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Load {
    /// Arrival rate: queries per unit of time, such as 0.8, or a rate with a unit, such as 100/s;
    /// per second if times have units
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    arrival_rate: Option<Rate>,
    /// Utilization instead of a rate: the fraction of time that a server is busy, such as 0.8
    #[arg(long, value_name = "U", value_parser = utilization, allow_hyphen_values = true)]
    utilization: Option<f64>,
}

impl Load {
    /// Returns a station's arrival rate, in the unit that the models use.
    pub(super) fn rate(&self, service: &Service, servers: u32) -> Result<f64, Stop> {
        match (self.arrival_rate, self.utilization) {
            (Some(rate), _) => rate.of_model(service.scale, "--arrival-rate"),
            (None, utilization) => {
                let utilization = utilization.unwrap_or_default();
                Ok(utilization * f64::from(servers) / service.moments.mean)
            }
        }
    }
}

/// A row's value and its line.
pub(super) struct Row<T> {
    /// Line number, counting from 1.
    pub(super) line: usize,
    pub(super) value: T,
}

/// Reads the rows of a file. `row` parses one row, and its error contains the fix. `form` is the
/// format of a row, for messages.
pub(super) fn read<T>(
    path: &Path,
    form: &str,
    mut row: impl FnMut(&[&str]) -> Result<T, String>,
) -> Result<Vec<Row<T>>, Stop> {
    let text = read_text(path).map_err(Stop::bad)?;
    let mut rows = Vec::new();
    let mut names = None;
    for (i, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let fields = fields(content);
        let is_first = names.is_none() && rows.is_empty();
        if is_first && !fields.iter().any(|field| starts_a_number(field)) {
            names = Some(content);
            continue;
        }
        let value = row(&fields).map_err(|why| at(path, i + 1, why))?;
        rows.push(Row { line: i + 1, value });
    }
    if let (true, Some(names)) = (rows.is_empty(), names) {
        let why = format_args!(
            "its only line, `{}`, was read as column names; write lines of {form}, separated by \
             commas or white space",
            excerpt(names)
        );
        return Err(bad!("{}: {why}", path.display()));
    }
    if rows.is_empty() {
        return Err(bad!("{} is empty; write lines of {form}", path.display()));
    }
    Ok(rows)
}

/// Splits at commas if there are any, so that fields may contain spaces or be empty.
fn fields(content: &str) -> Vec<&str> {
    if content.contains(',') {
        content.split(',').map(str::trim).collect()
    } else {
        content.split_whitespace().collect()
    }
}

fn starts_a_number(field: &str) -> bool {
    field.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))
}

/// Returns an error about a line of a file.
pub(super) fn at(path: &Path, line: usize, why: impl std::fmt::Display) -> Stop {
    bad!("{}:{line}: {why}", path.display())
}

/// Replaces the number in an error about a `thing` of a file ("sample 3 is …"), which is counted from 0,
/// with the number of its line.
pub(super) fn this(path: &Path, line: usize, thing: &str, error: &impl ToString) -> Stop {
    let error = error.to_string();
    let numbered = error.strip_prefix(thing).and_then(|rest| rest.strip_prefix(' '));
    match numbered.and_then(|rest| rest.split_once(' ')) {
        Some((number, rest)) if number.parse::<usize>().is_ok() => {
            at(path, line, format_args!("this {thing} {rest}"))
        }
        _ => at(path, line, error),
    }
}

/// The message for a row that does not have the format `form`.
pub(super) fn malformed(fields: &[&str], form: &str, example: &str) -> String {
    format!("`{}` is not {form}; write it as `{example}`", excerpt(&fields.join(" ")))
}
