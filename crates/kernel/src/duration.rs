//! Durations in options, policies and configuration: `250us`, `1.5ms`, `2s`.
//!
//! Parsing and formatting are exact, without floating point.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::error::Error;
use core::fmt;

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // they say what they are
pub enum Unit {
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
}

/// The units that are accepted, for error messages.
pub const UNITS: &str = "ns, us, µs, ms, s, min, h";

/// The spelling of each unit, and its length in nanoseconds.
const TABLE: [(Unit, &str, u64); 6] = [
    (Unit::Nanosecond, "ns", 1),
    (Unit::Microsecond, "us", 1_000),
    (Unit::Millisecond, "ms", 1_000_000),
    (Unit::Second, "s", 1_000_000_000),
    (Unit::Minute, "min", 60_000_000_000),
    (Unit::Hour, "h", 3_600_000_000_000),
];

impl Unit {
    /// Returns the length of the unit in nanoseconds.
    #[must_use]
    pub const fn ns(self) -> u64 {
        TABLE[self as usize].2
    }

    /// Returns the canonical spelling, which [`Unit::parse`] accepts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Parses a unit. Accepts both code points of the micro sign.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let name = if matches!(text, "\u{b5}s" | "\u{3bc}s") { "us" } else { text };
        TABLE.into_iter().find(|unit| unit.1 == name).map(|unit| unit.0)
    }
}

/// A text such as `1.5ms`, split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// `1.5`.
    pub number: &'a str,
    /// `ms`. Empty if the text ends with the number.
    pub unit: &'a str,
}

/// Splits a text where its number ends. No unit starts with a character that can be part of a
/// number.
#[must_use]
pub fn split(text: &str) -> Parts<'_> {
    let numeric = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
    let end = text.find(|c| !numeric(c)).unwrap_or(text.len());
    Parts { number: &text[..end], unit: text[end..].trim_start() }
}

/// The error for text that is not a duration. The message quotes the text and shows what to write
/// instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The text.
    pub text: String,
    /// What is wrong with the text.
    pub why: Why,
}

/// The reason why a text is not a valid duration. Each message is phrased as a predicate and
/// includes the fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The part before the unit is not a plain decimal number.
    NotANumber,
    /// The unit is missing.
    NoUnit,
    /// The unit is unknown.
    UnknownUnit,
    /// The duration is negative.
    Negative,
    /// The duration is not a whole number of nanoseconds.
    TooFine,
    /// The duration is longer than `u64::MAX` nanoseconds.
    TooLong,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber => {
                f.write_str("is not a duration; write a decimal number and a unit, like 1.5ms")
            }
            Self::NoUnit => write!(f, "has no unit; add one of {UNITS}, as in 1.5ms"),
            Self::UnknownUnit => write!(f, "has an unknown unit; use one of {UNITS}"),
            Self::Negative => f.write_str("is negative; durations are zero or more"),
            Self::TooFine => f.write_str("is finer than a nanosecond; use fewer decimals"),
            Self::TooLong => f.write_str("is too long; durations are below 584 years"),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.text, self.why)
    }
}

impl Error for ParseError {}

/// Parses a duration such as `250us` or `1.5ms`, in nanoseconds.
///
/// A unit is required (`ns`, `us`, `µs`, `ms`, `s`, `min`, `h`). The result is exact.
///
/// # Errors
///
/// [`ParseError`] if the text is not a number with a known unit, is negative, is not a whole number
/// of nanoseconds, or exceeds `u64::MAX` nanoseconds.
///
/// ```
/// assert_eq!(curtail_kernel::duration::parse("1.5ms"), Ok(1_500_000));
/// ```
pub fn parse(text: &str) -> Result<u64, ParseError> {
    read(text).map_err(|why| ParseError { text: text.to_owned(), why })
}

fn read(text: &str) -> Result<u64, Why> {
    let Parts { number, unit } = split(text.trim());
    if number.strip_prefix('-').is_some_and(is_decimal) {
        return Err(Why::Negative);
    }
    if !is_decimal(number) {
        return Err(Why::NotANumber);
    }
    if unit.is_empty() {
        return Err(Why::NoUnit);
    }
    let unit = Unit::parse(unit).ok_or(Why::UnknownUnit)?.ns();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| Why::TooLong)? };
    let fraction = fraction_ns(fraction, unit).ok_or(Why::TooFine)?;
    let whole = whole.checked_mul(unit);
    whole.and_then(|ns| ns.checked_add(fraction)).ok_or(Why::TooLong)
}

/// Whether the text consists of digits and at most one decimal point, which may be anywhere.
fn is_decimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty())
}

/// Returns the length of a fraction of a unit, in nanoseconds. `fraction` contains the digits after
/// the decimal point. `None` if the length is not a whole number.
fn fraction_ns(fraction: &str, unit_ns: u64) -> Option<u64> {
    // Even in hours, a fourteenth decimal place is finer than a nanosecond.
    const MOST_DECIMALS: usize = 13;
    let digits = fraction.trim_end_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    if digits.len() > MOST_DECIMALS {
        return None;
    }
    let numerator = digits.parse::<u128>().ok()? * u128::from(unit_ns);
    let denominator = 10u128.pow(u32::try_from(digits.len()).ok()?);
    (numerator % denominator == 0).then(|| u64::try_from(numerator / denominator).ok()).flatten()
}

/// A duration that displays itself exactly, in the largest of the units ns, us, ms and s that is
/// not longer than the duration.
///
/// ```
/// assert_eq!(curtail_kernel::duration::format(1_500_000).to_string(), "1.5ms");
/// assert_eq!(curtail_kernel::duration::format(90_000_000_000).to_string(), "90s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formatted {
    ns: u64,
}

/// Formats `ns` nanoseconds so that [`parse`] returns the same value.
#[must_use]
pub const fn format(ns: u64) -> Formatted {
    Formatted { ns }
}

impl fmt::Display for Formatted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [Unit::Second, Unit::Millisecond, Unit::Microsecond];
        let unit = units.into_iter().find(|unit| unit.ns() <= self.ns).unwrap_or(Unit::Nanosecond);
        let (whole, rest) = (self.ns / unit.ns(), self.ns % unit.ns());
        let mut text = whole.to_string();
        if rest > 0 {
            // These units are powers of ten, so the number of decimals is the number of zeros.
            let decimals = unit.ns().ilog10() as usize;
            text.push_str(format!(".{rest:0decimals$}").trim_end_matches('0'));
        }
        text.push_str(unit.name());
        f.pad(&text)
    }
}
