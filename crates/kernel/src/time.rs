//! Time as the kernel sees it: an integer passed in with every event.

use alloc::format;
use alloc::string::String;
use core::fmt;

/// A span without an end, in nanoseconds: a time-out that is switched off.
pub const NEVER_NS: u64 = u64::MAX;

/// A point in time: nanoseconds since an epoch of the caller's choice.
///
/// The simulator's epoch is the start of the run, the runtime's the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Later than every other time.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time `ns` nanoseconds later; [`NEVER_NS`] later is [`Self::NEVER`].
    #[must_use]
    pub fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to here, zero where `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

/// The units that a duration may carry, and their nanoseconds. Longer suffixes come first.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("min", 60e9), ("s", 1e9), ("h", 3600e9)];

/// Parses a duration such as `250us`, `5ms` or `1.5s` into nanoseconds.
///
/// # Errors
/// A text for people that names the value and the mend.
pub fn parse_duration_ns(text: &str) -> Result<u64, String> {
    let wrong = |why: &str| format!("duration {text:?} {why}; write it like 250us, 5ms or 1.5s");
    let unit = UNITS.iter().find(|(suffix, _)| text.ends_with(suffix));
    let Some((suffix, scale)) = unit else { return Err(wrong("has no unit")) };
    let number = &text[..text.len() - suffix.len()];
    let plain = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    if number.is_empty() || !number.chars().all(plain) {
        return Err(wrong("is not a number with a unit"));
    }
    let value: f64 =
        number.replace('_', "").parse().map_err(|_| wrong("is not a number with a unit"))?;
    let ns = value * scale;
    // Beyond 2^53 ns (104 days) a double no longer counts single nanoseconds: nothing that a
    // service waits for is that long.
    if ns > 9_007_199_254_740_992.0 {
        return Err(wrong("is longer than 104 days"));
    }
    if ns > 0.0 && ns < 1.0 {
        return Err(wrong("is shorter than a nanosecond"));
    }
    Ok((ns + 0.5) as u64)
}

/// Writes nanoseconds in the largest unit that needs no fraction: `5ms`, `1500us`, `7ns`.
#[must_use]
pub fn format_duration(ns: u64) -> String {
    const WHOLE: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    for (size, unit) in WHOLE {
        if ns >= size && ns.is_multiple_of(size) {
            return format!("{}{unit}", ns / size);
        }
    }
    format!("{ns}ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_print() {
        for (text, ns) in [("5ms", 5_000_000), ("250us", 250_000), ("1.5s", 1_500_000_000)] {
            assert_eq!(parse_duration_ns(text), Ok(ns));
            assert_eq!(parse_duration_ns(&format_duration(ns)), Ok(ns));
        }
        assert_eq!(parse_duration_ns("2min"), Ok(120_000_000_000));
        for bad in ["", "5", "ms", "-1ms", "1e3ms", "NaNs", "infs", "0.1ns", "1000000h", "1.2.3s"] {
            let said = parse_duration_ns(bad).expect_err(bad);
            assert!(said.contains("write it like"), "{bad}: {said}");
        }
    }
}
