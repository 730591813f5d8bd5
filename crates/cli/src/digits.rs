//! Formats latencies with a suitable number of digits.

use crate::plot::format::three;

/// Placeholder for a missing value.
pub(crate) const NONE: &str = "–";

/// Formats a value, or returns the placeholder.
pub(crate) fn or_none<T>(value: Option<T>, shown: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), shown)
}

/// The unit of a table's times, in words. `unit` is the document's unit.
pub(crate) fn unit_words(unit: &str) -> &'static str {
    if unit == "1" { "multiples of the unit of time" } else { "milliseconds" }
}

/// Formats a count and its noun, in the plural unless the count is 1.
pub(crate) fn counted(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Numbers at or above this are printed in scientific notation.
const HUGE: f64 = 1e9;
/// Numbers below this are printed as 0. For times in milliseconds this is one nanosecond, the
/// finest resolution that is measured. For multiples of a unit it covers the rounding error of a
/// difference between equal numbers.
const ZERO: f64 = 1e-6;

/// Formats nanoseconds as milliseconds with three digits.
pub(crate) fn ms(ns: f64) -> String {
    three(if ns.abs() < 1.0 { 0.0 } else { ns / 1e6 })
}

/// The number of decimals that distinguishes latencies: two for values from 0.1 to 1,000, fewer for
/// larger values, and enough for three significant digits for smaller values.
fn decimals(value: f64) -> usize {
    match value.abs() {
        10_000.0.. => 0,
        1_000.0.. => 1,
        0.1.. => 2,
        small if small >= ZERO => (2.0 - small.log10().floor()) as usize,
        _ => 2,
    }
}

/// Formats a latency in any unit.
pub(crate) fn latency(value: f64) -> String {
    like(value, value)
}

/// Formats a latency and the half-width of its confidence interval, if there is one.
pub(crate) fn with_interval(value: f64, half: Option<f64>) -> String {
    let half = half.map_or(String::new(), |half| format!(" ±{}", like(half, value)));
    latency(value) + &half
}

/// Formats `value` with the number of decimals that `other` would have.
fn like(value: f64, other: f64) -> String {
    match value.abs() {
        ..ZERO => "0".to_owned(),
        HUGE.. => format!("{value:.3e}"),
        _ => format!("{value:.*}", decimals(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_fit_the_magnitude() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (0.000_000_878, "0"),
            (2.053e-16, "0"),
            (0.000_001_5, "0.00000150"),
            (0.001_234, "0.00123"),
            (0.05, "0.0500"),
            (0.5, "0.50"),
            (999.994, "999.99"),
            (6_597.64, "6597.6"),
            (25_158.03, "25158"),
            (2.171e12, "2.171e12"),
        ] {
            assert_eq!(latency(value), text);
        }
        assert_eq!(with_interval(14_579.4, Some(119.78)), "14579 ±120");
        assert_eq!(with_interval(0.012, Some(0.000_3)), "0.0120 ±0.0003");
        assert_eq!(with_interval(1.0, None), "1.00");
        assert_eq!(with_interval(1.0, Some(1e-17)), "1.00 ±0");
        assert_eq!(
            (ms(0.878), ms(1.5), ms(2.5e6)),
            ("0".into(), "0.00000150".into(), "2.50".into())
        );
    }
}
