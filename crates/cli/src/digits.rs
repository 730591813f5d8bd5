//! How many digits a latency is told with.

use crate::plot::format::three;

/// What stands where there is no figure.
pub(crate) const NONE: &str = "–";

/// A figure, where there is one.
pub(crate) fn or_none<T>(value: Option<T>, shown: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), shown)
}

/// What the times of a table are in, by the unit of the document.
pub(crate) fn unit_words(unit: &str) -> &'static str {
    if unit == "1" { "multiples of the unit of time" } else { "milliseconds" }
}

/// A count and its noun, which gets an s unless the count is 1.
pub(crate) fn counted(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// From here on a number is told by its magnitude.
const HUGE: f64 = 1e9;
/// Below this it is 0: in milliseconds a nanosecond, the finest time that is measured, and in multiples of a
/// unit what differences of equal numbers leave.
const ZERO: f64 = 1e-6;

/// A time in nanoseconds, in milliseconds and to three digits.
pub(crate) fn ms(ns: f64) -> String {
    three(if ns.abs() < 1.0 { 0.0 } else { ns / 1e6 })
}

/// As many decimals as tell latencies apart: two from 0.1 to 1,000, less above, three digits below.
fn decimals(value: f64) -> usize {
    match value.abs() {
        10_000.0.. => 0,
        1_000.0.. => 1,
        0.1.. => 2,
        small if small >= ZERO => (2.0 - small.log10().floor()) as usize,
        _ => 2,
    }
}

/// A latency, in whatever unit.
pub(crate) fn latency(value: f64) -> String {
    like(value, value)
}

/// A latency and half of its confidence interval, where that is known.
pub(crate) fn with_interval(value: f64, half: Option<f64>) -> String {
    let half = half.map_or(String::new(), |half| format!(" ±{}", like(half, value)));
    latency(value) + &half
}

/// A number with as many decimals as another.
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
        for (value, told) in [
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
            assert_eq!(latency(value), told);
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
