//! Numbers with an optional unit of time, as people write them: `1.5ms`, `250us`, `3`.

use std::fmt;

use curtail_kernel::duration::{Unit, split};

/// A time as it was written: with a unit, or in multiples of the experiment's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Time {
    pub(crate) number: f64,
    pub(crate) unit: Option<Unit>,
}

impl Time {
    /// Nanoseconds if the value has a unit, else the bare number: only values of one kind compare.
    pub(crate) fn nominal(self) -> f64 {
        self.ns(1.0)
    }

    /// Nanoseconds, where `unit_ns` is the length of the experiment's unit.
    pub(crate) fn ns(self, unit_ns: f64) -> f64 {
        self.number * self.unit.map_or(unit_ns, |unit| unit.ns() as f64)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, self.unit.map_or("", Unit::name))
    }
}

/// Why a text is not a number with an optional unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Number,
    Unit,
}

/// Reads a finite decimal number with an optional unit; the sign is left to the caller to judge.
pub(crate) fn parse(text: &str) -> Result<Time, Malformed> {
    let (digits, unit) = split(text.trim());
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
