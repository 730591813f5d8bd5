//! Numbers with an optional unit of time, as people write them: `1.5ms`, `250us`, `3`.

use std::fmt;

/// A unit of time that a value may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
    Minute,
}

/// What to write, for error messages.
pub(crate) const UNITS: &str = "ns, us, µs, ms, s, min";

impl Unit {
    /// Nanoseconds in one of this unit.
    pub(crate) const fn ns(self) -> u64 {
        match self {
            Self::Nanosecond => 1,
            Self::Microsecond => 1_000,
            Self::Millisecond => 1_000_000,
            Self::Second => 1_000_000_000,
            Self::Minute => 60_000_000_000,
        }
    }

    /// The canonical spelling, which [`Unit::parse`] reads back.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nanosecond => "ns",
            Self::Microsecond => "us",
            Self::Millisecond => "ms",
            Self::Second => "s",
            Self::Minute => "min",
        }
    }

    /// Reads a unit. The micro sign has two code points that look alike; both are read.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "ns" => Self::Nanosecond,
            "us" | "\u{b5}s" | "\u{3bc}s" => Self::Microsecond,
            "ms" => Self::Millisecond,
            "s" => Self::Second,
            "min" => Self::Minute,
            _ => return None,
        })
    }
}

/// Splits `1.5ms` into `1.5` and `ms`. No unit starts with a character that a number may hold.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let numeric = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
    let end = text.find(|c| !numeric(c)).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

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
