//! Numbers with an optional unit of time, in their usual notation: `1.5ms`, `250us`, `3`.

use std::fmt;

use std::str::FromStr;

use curtail_kernel::duration::{Parts, UNITS, Unit, split};

/// A time as it was written: with a unit, or as a multiple of the experiment's unit.
///
/// Parse it with [`str::parse`]. The number is finite, and may be negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// The number.
    pub number: f64,
    /// Its unit, if it has one.
    pub unit: Option<Unit>,
}

impl Time {
    /// Returns the time in nanoseconds if it has a unit, otherwise the bare number. The results can
    /// only be compared if either both times have units or neither does.
    pub(crate) fn nominal(self) -> f64 {
        self.ns(1.0)
    }

    /// Converts to nanoseconds. `unit_ns` is the length of the experiment's unit.
    pub fn ns(self, unit_ns: f64) -> f64 {
        self.number * self.unit.map_or(unit_ns, |unit| unit.ns() as f64)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.unit.map_or("", Unit::name);
        match self.number.abs() {
            1e-9..1e15 | 0.0 => write!(f, "{}{unit}", self.number),
            _ => write!(f, "{:e}{unit}", self.number),
        }
    }
}

impl FromStr for Time {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        parse(text)
    }
}

/// The reason why a text is not a number with an optional unit. The message states the fix.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("write a decimal number, with a unit or without")]
    Number,
    #[error("its unit is unknown; use one of {UNITS}")]
    Unit,
}

/// Parses a finite decimal number with an optional unit. The caller checks the sign.
pub(crate) fn parse(text: &str) -> Result<Time, Malformed> {
    let Parts { number: digits, unit } = split(text.trim());
    let number: f64 = digits.parse().map_err(|_| Malformed::Number)?;
    if !number.is_finite() {
        return Err(Malformed::Number);
    }
    let unit = match unit {
        "" => None,
        name => Some(Unit::parse(name).ok_or(Malformed::Unit)?),
    };
    Ok(Time { number, unit })
}
