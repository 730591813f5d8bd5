//! Parses `Retry-After` in responses that refuse work (RFC 9110 §10.2.3).
//!
//! The field counts only if the status is 503, because the field is then about the server. If the
//! status is 429, the field is about the client, which sent too many requests (RFC 6585 §4). If a
//! 429 also kept copies away from the server, one client could make the server unavailable to all
//! others. The client gets the field in both cases.

use std::time::Duration;

const SERVICE_UNAVAILABLE: u16 = 503;

/// Returns for how long a server wants no requests, given the status of its response and the value
/// of `Retry-After`. `None` if the value is missing or a date.
#[must_use]
pub fn retry_after(status: u16, value: Option<&[u8]>) -> Option<Duration> {
    if status != SERVICE_UNAVAILABLE {
        return None;
    }
    seconds(value?)
}

/// `delay-seconds`: a number that is too large counts as the largest.
fn seconds(value: &[u8]) -> Option<Duration> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(Duration::from_secs(digits.iter().fold(0, add)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_and_dates_are_not() {
        for (value, read) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("1 2", None),
            ("Fri, 31 Dec 1999 23:59:59 GMT", None),
        ] {
            assert_eq!(seconds(value.as_bytes()), read.map(Duration::from_secs), "{value:?}");
        }
    }
}
