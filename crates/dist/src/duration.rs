//! Durations in options and configuration: `250us`, `1.5ms`, `2s`.
//!
//! Both directions are exact: no floating point is involved.

use std::fmt;

use crate::quantity::{self, UNITS, Unit};

/// Why a text is not a duration. The message names the text and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The part before the unit is not a plain decimal number.
    #[error("`{0}` is not a duration; write a decimal number and a unit, for instance 1.5ms")]
    NotANumber(String),
    /// The unit is missing.
    #[error("`{0}` has no unit; add one of {units}", units = UNITS)]
    NoUnit(String),
    /// The unit is not one that is known.
    #[error("`{0}` has an unknown unit; use one of {units}", units = UNITS)]
    UnknownUnit(String),
    /// The duration is negative.
    #[error("`{0}` is negative; durations are zero or more")]
    Negative(String),
    /// The duration is not a whole number of nanoseconds.
    #[error("`{0}` is finer than a nanosecond; drop some decimals")]
    TooFine(String),
    /// The duration is longer than `u64::MAX` nanoseconds.
    #[error("`{0}` is too long; durations are below 584 years")]
    TooLong(String),
}

/// Reads a duration such as `250us` or `1.5ms`, in nanoseconds.
///
/// A unit is required (`ns`, `us`, `µs`, `ms`, `s`, `min`). The result is exact.
///
/// # Errors
///
/// [`ParseError`] if the text is not a number with a known unit, is negative, is not a whole
/// number of nanoseconds, or exceeds `u64::MAX` nanoseconds.
///
/// ```
/// assert_eq!(curtail_dist::duration::parse("1.5ms"), Ok(1_500_000));
/// ```
pub fn parse(text: &str) -> Result<u64, ParseError> {
    let (number, unit) = quantity::split(text.trim());
    let shown = || text.to_owned();
    if let Some(rest) = number.strip_prefix('-')
        && is_decimal(rest)
    {
        return Err(ParseError::Negative(shown()));
    }
    if !is_decimal(number) {
        return Err(ParseError::NotANumber(shown()));
    }
    if unit.is_empty() {
        return Err(ParseError::NoUnit(shown()));
    }
    let unit = Unit::parse(unit).ok_or_else(|| ParseError::UnknownUnit(shown()))?.ns();

    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| ParseError::TooLong(shown()))?
    };
    let fraction = fraction_ns(fraction, unit).ok_or_else(|| ParseError::TooFine(shown()))?;
    whole
        .checked_mul(unit)
        .and_then(|ns| ns.checked_add(fraction))
        .ok_or_else(|| ParseError::TooLong(shown()))
}

/// Digits with at most one point between or beside them.
fn is_decimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty())
}

/// The nanoseconds in the decimals `fraction` of a unit; `None` if they are not whole.
fn fraction_ns(fraction: &str, unit_ns: u64) -> Option<u64> {
    // Beyond eleven decimals even a minute is cut finer than a nanosecond.
    const MOST_DECIMALS: usize = 11;
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

/// A duration that displays itself exactly, in the largest of ns, us, ms and s that fits into it.
///
/// ```
/// assert_eq!(curtail_dist::duration::format(1_500_000).to_string(), "1.5ms");
/// assert_eq!(curtail_dist::duration::format(90_000_000_000).to_string(), "90s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formatted {
    ns: u64,
}

/// Formats `ns` nanoseconds so that [`parse`] reads back the same value.
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
            // The units here are powers of ten: their zeros are the decimals.
            let decimals = unit.ns().ilog10() as usize;
            text.push_str(format!(".{rest:0decimals$}").trim_end_matches('0'));
        }
        text.push_str(unit.name());
        f.pad(&text)
    }
}
