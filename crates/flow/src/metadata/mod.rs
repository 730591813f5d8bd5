//! The metadata of calls and responses, and its format in headers.
//!
//! Source: document 002 §5.2.4, *Metadata propagation* and Table 5.3; W3C Baggage; the gRPC wire
//! protocol.
//!
//! - **A call** carries one member in the header `baggage`, `curtail=1:…` ([`CallMeta`]): the
//!   workflow, the time and work already spent on the request, the estimated totals, the caller,
//!   and the rate at which the caller wants to send requests. Members of other vendors are
//!   preserved. The deadline travels in `grpc-timeout` ([`format_timeout`]) as the remaining
//!   duration, because clocks differ. The duration therefore decreases at every hop.
//! - **A response** carries `curtail-rate`, the announcement, and `curtail-spent`, the time and
//!   work spent on the call ([`read_response`]).
//!
//! All of these headers are untrusted input. A value that is malformed, too long or implausible is
//! ignored, and no value causes a panic.
//!
//! Cost: at most 240 bytes per call, one allocation to read a workflow's name, and one to write the
//! headers.

mod baggage;
mod key;
mod response;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use curtail_kernel::flow::{Announcement, Spent};

pub use baggage::{CallMeta, WorkflowName};
pub use curtail_http::grpc::{TIMEOUT as GRPC_TIMEOUT, format_timeout, parse_timeout};
pub(crate) use curtail_http::grpc::{read_timeout, shorten_timeout};
pub use key::MemberKey;
pub use response::{format_rate, format_spent, parse_rate, parse_spent};

/// The header whose members are propagated end to end. Our member is one of them.
pub const BAGGAGE: HeaderName = HeaderName::from_static("baggage");
/// The response header with the announced rate.
pub const RATE: HeaderName = HeaderName::from_static("curtail-rate");
/// The response header with the time and work spent on the call.
pub const SPENT: HeaderName = HeaderName::from_static("curtail-spent");

/// The maximum duration in metadata, in ns: 13 days. Longer durations are not plausible.
const NS_MAX: u64 = 1 << 50;
/// The maximum rate in metadata, in thousandths of a request per second.
const MILLI_MAX: u64 = 1 << 50;

/// Converts a rate to thousandths, at most [`MILLI_MAX`]. NaN becomes 0.
fn milli(rate: f64) -> u64 {
    // The cast saturates, and maps NaN to 0.
    ((rate * 1e3).round() as u64).min(MILLI_MAX)
}

/// Parses a number of one to 16 hexadecimal digits that must not exceed a maximum.
fn parse_hex(digits: &str, most: u64) -> Option<u64> {
    // `from_str_radix` alone would accept a sign.
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let value = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex && digits.len() <= 16)?;
    (value <= most).then_some(value)
}

/// Reads our member from the headers of a call. If there is a key, returns the member only if it
/// was signed with that key.
#[must_use]
pub fn read_call(headers: &HeaderMap, key: Option<&MemberKey>) -> Option<CallMeta> {
    baggage::find(headers.get_all(BAGGAGE).iter().map(HeaderValue::as_bytes), key)
}

/// Writes our member to the headers of a call, in place of an earlier one, and signs it if there is
/// a key. If `meta` is `None`, removes our member. Headers that do not contain it are left
/// unchanged.
pub fn write_call(headers: &mut HeaderMap, meta: Option<&CallMeta>, key: Option<&MemberKey>) {
    let mut lines = headers.get_all(BAGGAGE).iter().map(HeaderValue::as_bytes);
    if meta.is_none() && !lines.any(baggage::has_ours) {
        return;
    }
    let member = meta.map(|meta| meta.to_member(key));
    let lines = headers.get_all(BAGGAGE).iter().map(HeaderValue::as_bytes);
    let joined = baggage::join(lines, member);
    // Members of other vendors come from header values, so they are valid in a header value.
    match joined.and_then(|value| HeaderValue::try_from(value).ok()) {
        Some(value) => drop(headers.insert(BAGGAGE, value)),
        None => drop(headers.remove(BAGGAGE)),
    }
}

/// The metadata of a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResponseMeta {
    /// The rate for the caller.
    pub announcement: Option<Announcement>,
    /// The time and work spent on the call.
    pub spent: Option<Spent>,
}

/// Reads the headers of a response.
#[must_use]
pub fn read_response(headers: &HeaderMap) -> ResponseMeta {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let announcement = text(&RATE).and_then(parse_rate);
    ResponseMeta { announcement, spent: text(&SPENT).and_then(parse_spent) }
}

/// Writes the headers of a response. If a value is `None`, removes its header.
pub fn write_response(headers: &mut HeaderMap, meta: &ResponseMeta) {
    let announcement = meta.announcement.as_ref().map(format_rate);
    let values = [(RATE, announcement), (SPENT, meta.spent.map(format_spent))];
    for (name, value) in values {
        match value.and_then(|value| HeaderValue::try_from(value).ok()) {
            Some(value) => drop(headers.insert(name, value)),
            None => drop(headers.remove(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use curtail_kernel::flow::Via;
    use proptest::prelude::*;

    use super::*;

    /// Values that are well-formed or almost well-formed.
    fn nearly() -> impl Strategy<Value = String> {
        let number = prop_oneof![
            15 => "[0-9a-f]{1,12}",
            3 => "[0-9]{1,9}[numSMHx]",
            1 => "inf",
            1 => "[ -~]{0,20}",
        ];
        let fields = proptest::collection::vec(number, 1..9).prop_map(|fields| fields.join(":"));
        let start = prop_oneof![Just("curtail=1:a%20b:"), Just("curtail=1:"), Just("")];
        let end = prop_oneof![Just(String::new()), ":([0-9a-f]{4}){0,18}[+]?", "[;,:= ][ -~]{0,8}"];
        (start, fields, end).prop_map(|(start, fields, end)| format!("{start}{fields}{end}"))
    }

    proptest! {
        #[test]
        fn every_value_that_is_read_round_trips(text in nearly()) {
            if let Some(timeout) = parse_timeout(text.as_bytes()) {
                // The value is rounded down and written in the finest unit that fits, so the unit
                // can change.
                let written = format_timeout(timeout);
                let again = parse_timeout(written.as_bytes()).expect("well-formed");
                prop_assert!(written.len() <= 9 && again <= timeout.max(Duration::from_nanos(1)));
                prop_assert_eq!(format_timeout(again), written);
            }
            if let Some(announced) = parse_rate(&text) {
                let written = format_rate(&announced);
                let again = parse_rate(&written).expect("well-formed");
                prop_assert!(written.len() <= 100 && again.rate >= 0.0 && again.local >= 0.0);
                prop_assert_eq!(format_rate(&again), written);
            }
            if let Some(spent) = parse_spent(&text) {
                let written = format_spent(spent);
                prop_assert!(written.len() <= 27);
                prop_assert_eq!(parse_spent(&written), Some(spent));
            }
            if let Some(call) = baggage::find([text.as_bytes()].into_iter(), None) {
                let written = call.to_member(None);
                prop_assert!(written.len() <= 200 && call.wanted >= 0.0);
                prop_assert_eq!(baggage::find([written.as_bytes()].into_iter(), None), Some(call));
            }
        }

        #[test]
        fn headers_of_others_stay(lines in proptest::collection::vec("[ -~]{0,40}", 0..4)) {
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append(BAGGAGE, HeaderValue::from_str(line).expect("visible"));
            }
            let others = |headers: &HeaderMap| {
                let lines = headers.get_all(BAGGAGE).iter().map(HeaderValue::as_bytes);
                baggage::join(lines, None)
            };
            let before = others(&headers);
            let call = CallMeta::of(WorkflowName::new("a").expect("short"));
            write_call(&mut headers, Some(&call), None);
            prop_assert_eq!(read_call(&headers, None), Some(call));
            prop_assert_eq!(others(&headers), before);
        }

        #[test]
        fn no_bytes_from_outside_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
            let mut headers = HeaderMap::new();
            for name in [BAGGAGE, GRPC_TIMEOUT, RATE, SPENT] {
                headers.insert(name, value.clone());
            }
            let _ = (read_call(&headers, None), read_response(&headers), read_timeout(&headers));
            write_call(&mut headers, None, None);
            prop_assert!(read_call(&headers, None).is_none());
        }

        #[test]
        fn mutated_members_are_read_or_ignored(at in 0_usize..80, byte in 0x21_u8..0x7f) {
            let mut member = b"curtail=1:check%20out:1f:2e:3d:4c:deadbeef:5b".to_vec();
            if let Some(place) = member.get_mut(at) {
                *place = byte;
            }
            if let Some(meta) = baggage::find([&member[..]].into_iter(), None) {
                let again = meta.to_member(None);
                prop_assert_eq!(baggage::find([again.as_bytes()].into_iter(), None), Some(meta));
            }
        }
    }

    #[test]
    fn headers_round_trip_and_ours_can_be_taken_out() {
        let mut headers = HeaderMap::new();
        headers.append(BAGGAGE, HeaderValue::from_static("tenant=9;p=1 , curtail=old"));
        headers.append(BAGGAGE, HeaderValue::from_static("user=7"));
        let meta = CallMeta::of(WorkflowName::new("buy, now").expect("short"));
        write_call(&mut headers, Some(&meta), None);
        assert_eq!(read_call(&headers, None), Some(meta));
        assert_eq!(headers[BAGGAGE], "curtail=1:buy%2C%20now:0:0:0:0:0:0,tenant=9;p=1,user=7");
        write_call(&mut headers, None, None);
        assert_eq!(headers[BAGGAGE], "tenant=9;p=1,user=7");

        let announcement =
            Announcement { rate: 12.5, local: f64::INFINITY, via: Via::only(0xbeef) };
        let spent = Spent { service_ns: 5, work_ns: 500 };
        let meta = ResponseMeta { announcement: Some(announcement), spent: Some(spent) };
        for meta in [meta, ResponseMeta::default()] {
            write_response(&mut headers, &meta);
            assert_eq!(read_response(&headers), meta);
        }
    }
}
