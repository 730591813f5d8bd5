//! The expected cost of a request's work.

use std::num::NonZeroU64;

use curtail_kernel::hedge::USUAL_COST;

/// Maximum length of a number, in bytes. A double has fewer digits than that.
const BYTES_MAX: usize = 32;

/// A cost, in a unit that all requests of a service share. The age of a request with unknown cost
/// is measured as if the cost were 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost(NonZeroU64);

impl Cost {
    /// Returns `None` for numbers that are not above zero or not finite. Other costs are clamped to
    /// the range from a millionth to about 1.8 · 10^13.
    pub(crate) fn new(cost: f64) -> Option<Self> {
        if !(cost.is_finite() && cost > 0.0) {
            return None;
        }
        // The cast saturates.
        NonZeroU64::new(((cost * USUAL_COST).round() as u64).max(1)).map(Self)
    }

    /// Parses the values of a cost header. Returns `None` unless there is exactly one and it is a
    /// valid cost.
    pub(crate) fn read<'h>(values: impl IntoIterator<Item = &'h [u8]>) -> Option<Self> {
        let mut values = values.into_iter();
        let (Some(only), None) = (values.next(), values.next()) else { return None };
        let text = only.trim_ascii();
        if text.len() > BYTES_MAX {
            return None;
        }
        Self::new(std::str::from_utf8(text).ok()?.parse().ok()?)
    }

    /// Returns the cost in the kernel's unit, millionths.
    pub(crate) fn hint(self) -> NonZeroU64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Option<u64> {
        Cost::read(values.iter().map(|value| value.as_bytes())).map(|cost| cost.hint().get())
    }

    #[test]
    fn a_cost_is_a_number_above_zero_in_any_unit() {
        for (text, hint) in [
            ("1", 1_000_000),
            ("0.0025", 2_500),
            (" 3e2 ", 300_000_000),
            ("1e-300", 1),
            ("1e300", u64::MAX),
        ] {
            assert_eq!(read(&[text]), Some(hint), "{text}");
        }
    }

    #[test]
    fn an_invalid_number_is_no_hint() {
        let long = "1".repeat(33);
        for text in ["", " ", "0", "-0", "-1", "inf", "NaN", "three", "1,5", "1 2", "\u{e9}", &long]
        {
            assert_eq!(read(&[text]), None, "{text}");
        }
        assert_eq!(Cost::read([&b"\xff"[..]]), None);
        // Two values would be ambiguous.
        assert_eq!((read(&[]), read(&["1", "2"])), (None, None));
    }
}
