//! The deadline of a call as `grpc-timeout`, which is the remaining duration, written as at most
//! eight digits and a unit.
//!
//! Source: the gRPC wire protocol, *Timeout*. Calls that do not use gRPC also carry this header.
//!
//! Cost: one pass over nine bytes.

use std::time::Duration;

use http::HeaderMap;
use http::header::HeaderValue;

use super::TIMEOUT;

/// The units and their lengths in ns, finest first.
const UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

/// The largest number with eight digits.
const VALUE_MAX: u128 = 99_999_999;

/// Parses a header value. `None` if it is malformed.
#[must_use]
pub fn parse_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    let &(_, ns) = UNITS.iter().find(|(known, _)| known == unit)?;
    let whole = Duration::from_nanos(ns);
    // An eight-digit number of hours does not fit into 64 bits when converted to ns. The number
    // itself fits into 32 bits.
    Some(whole * value as u32)
}

/// Formats a timeout in the finest unit that fits, rounded down. If no time is left, the result is
/// the shortest timeout.
#[must_use]
pub fn format_timeout(timeout: Duration) -> String {
    let ns = timeout.as_nanos().max(1);
    let fits = |&&(_, unit): &&(u8, u64)| ns / u128::from(unit) <= VALUE_MAX;
    let (unit, length) = *UNITS.iter().find(fits).unwrap_or(&UNITS[5]);
    format!("{}{}", (ns / u128::from(length)).min(VALUE_MAX), char::from(unit))
}

/// Returns the remaining time of a call, from its headers.
#[must_use]
pub fn read_timeout(headers: &HeaderMap) -> Option<Duration> {
    headers.get(TIMEOUT).and_then(|value| parse_timeout(value.as_bytes()))
}

/// Writes the remaining time of a call, unless its headers contain a shorter one.
pub fn shorten_timeout(headers: &mut HeaderMap, timeout: Duration) {
    if read_timeout(headers).is_none_or(|own| own > timeout)
        && let Ok(value) = HeaderValue::try_from(format_timeout(timeout))
    {
        headers.insert(TIMEOUT, value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_units_are_read_and_nothing_else() {
        let read = |value: &str| parse_timeout(value.as_bytes());
        let one = ["1n", "1u", "1m", "1S", "1M", "1H"].map(|value| read(value).expect("a unit"));
        assert_eq!(one, UNITS.map(|(_, ns)| Duration::from_nanos(ns)));
        assert_eq!(read("99999999H"), Some(Duration::from_secs(3_600 * 99_999_999)));
        for bad in ["", "m", "5", "5s", "-5m", "+5m", "1.5S", "999999999n", " 5m", "5m ", "\u{e9}m"]
        {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_finest_unit_that_fits_is_written() {
        let write = |ns| format_timeout(Duration::from_nanos(ns));
        assert_eq!(write(99_999_999), "99999999n");
        assert_eq!(write(100_000_000), "100000u");
        assert_eq!(write(0), "1n", "it must be positive");
        assert_eq!(format_timeout(Duration::MAX), "99999999H");
    }

    #[test]
    fn a_shorter_timeout_of_the_call_itself_stays() {
        let mut headers = HeaderMap::new();
        for (ms, expected) in [(50, 50), (20, 20), (30, 20)] {
            shorten_timeout(&mut headers, Duration::from_millis(ms));
            assert_eq!(read_timeout(&headers), Some(Duration::from_millis(expected)));
        }
    }

    proptest! {
        #[test]
        fn a_written_timeout_is_read_and_is_never_longer(ns in 1_u64..) {
            let timeout = Duration::from_nanos(ns);
            let read = parse_timeout(format_timeout(timeout).as_bytes()).expect("well-formed");
            prop_assert!(read <= timeout);
            prop_assert!((timeout - read).as_nanos() * 100_000 <= timeout.as_nanos());
        }
    }
}
