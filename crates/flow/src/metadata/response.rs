//! The metadata of responses: `curtail-rate: rate:local:via`, and `curtail-spent: service:work`.
//!
//! Source: document 002 §5.2.4, *Rate aggregation*, which polls processes in every interval. In
//! this implementation, responses contain the announcements. Announcements therefore require no
//! separate messages, and a process that is called frequently also announces its rate frequently.
//! Rates are written in thousandths as hexadecimal numbers, or as `inf`. Each service that a rate
//! depends on is written as four digits, and a `+` marks an incomplete set.
//!
//! Cost: one pass over at most 100 bytes.

use std::fmt::Write as _;

use curtail_kernel::flow::{Announcement, Spent, Via};

use super::{MILLI_MAX, NS_MAX, milli, parse_hex};

const NO_LIMIT: &str = "inf";

fn rate(text: &str) -> Option<f64> {
    if text == NO_LIMIT {
        return Some(f64::INFINITY);
    }
    parse_hex(text, MILLI_MAX).map(|milli| milli as f64 / 1e3)
}

fn push_rate(text: &mut String, rate: f64) {
    match milli(rate) {
        MILLI_MAX => text.push_str(NO_LIMIT),
        milli => drop(write!(text, "{milli:x}")),
    }
}

/// Formats an announcement as a header value.
#[must_use]
pub fn format_rate(announcement: &Announcement) -> String {
    let mut text = String::with_capacity(100);
    push_rate(&mut text, announcement.rate);
    text.push(':');
    push_rate(&mut text, announcement.local);
    text.push(':');
    for service in announcement.via.services() {
        let _ = write!(text, "{service:04x}");
    }
    if announcement.via.is_cut() {
        text.push('+');
    }
    text
}

/// Parses an announcement. `None` if it is malformed.
#[must_use]
pub fn parse_rate(value: &str) -> Option<Announcement> {
    let mut fields = value.split(':');
    let (of_all, local, services) = (fields.next()?, fields.next()?, fields.next()?);
    let (services, mut via) = match services.strip_suffix('+') {
        Some(services) => (services, Via::cut()),
        None => (services, Via::default()),
    };
    let services = services.as_bytes();
    if services.len() % 4 != 0 || services.len() > 256 {
        return None;
    }
    for service in services.chunks(4) {
        via.insert(parse_hex(str::from_utf8(service).ok()?, u64::from(u16::MAX))? as u16);
    }
    Some(Announcement { rate: rate(of_all)?, local: rate(local)?, via })
}

/// Formats the time and work spent on a call as a header value.
#[must_use]
pub fn format_spent(spent: Spent) -> String {
    format!("{:x}:{:x}", spent.service_ns.min(NS_MAX), spent.work_ns.min(NS_MAX))
}

/// Parses the time and work spent on a call. `None` if it is malformed.
#[must_use]
pub fn parse_spent(value: &str) -> Option<Spent> {
    let (service, work) = value.split_once(':')?;
    Some(Spent { service_ns: parse_hex(service, NS_MAX)?, work_ns: parse_hex(work, NS_MAX)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_values_are_ignored() {
        for bad in ["", "1", "1:2", "-1:2:", "NaN:2:", "1:2:123", "1:2:12g4", "fffffffffffffff:2:"]
        {
            assert_eq!(parse_rate(bad), None, "{bad}");
        }
        assert_eq!(parse_rate(&format!("1:2:{}", "0001".repeat(65))), None);
        let many: String = (0..20).map(|service| format!("{service:04x}")).collect();
        assert!(parse_rate(&format!("1:2:{many}")).expect("well-formed").via.is_cut());
        for bad in ["", "1", "1:", ":1", "1:2:3", "-1:2", "ffffffffffffffff:1"] {
            assert_eq!(parse_spent(bad), None, "{bad}");
        }
        let nan = Announcement { rate: f64::NAN, local: -3.0, via: Via::default() };
        assert_eq!(format_rate(&nan), "0:0:");
    }

    proptest! {
        #[test]
        fn announcements_round_trip(
            rate in prop_oneof![0.0..1e9, Just(f64::INFINITY)],
            local in prop_oneof![0.0..1e9, Just(f64::INFINITY)],
            services: Vec<u16>,
            is_cut: bool,
        ) {
            let mut via = if is_cut { Via::cut() } else { Via::default() };
            services.iter().for_each(|&service| via.insert(service));
            let text = format_rate(&Announcement { rate, local, via });
            let read = parse_rate(&text).expect("well-formed");
            prop_assert_eq!(format_rate(&read), text);
            prop_assert_eq!(read.via, via);
            prop_assert!(read.rate == rate || (read.rate - rate).abs() < 1e-3);
            prop_assert!(read.local == local || (read.local - local).abs() < 1e-3);
        }

        #[test]
        fn spent_times_round_trip(service_ns in 0..NS_MAX, work_ns in 0..NS_MAX) {
            let spent = Spent { service_ns, work_ns };
            prop_assert_eq!(parse_spent(&format_spent(spent)), Some(spent));
        }
    }
}
