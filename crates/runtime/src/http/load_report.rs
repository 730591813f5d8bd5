//! Parses the load reports in servers' responses, in the formats ORCA and Server Timing.
//!
//! The following forms are supported, in order of preference:
//! - `endpoint-load-metrics: TEXT named_metrics.queue=4,named_metrics.service_ms=1.25` (ORCA, as
//!   xDS defines it). With `JSON` instead of `TEXT`, the same values are in an object, with
//!   `named_metrics` flat or nested;
//! - `server-timing: service;dur=1.25, queue-length;desc="4"` (W3C).
//!
//! The headers are untrusted input. Values that are not numbers in the valid range are ignored, and
//! so are headers longer than [`MOST_BYTES`]. The kernel decides how far it trusts a report.

use std::fmt::Write as _;
use std::time::Duration;

use curtail_http::h1::ResponseHead;
use curtail_kernel::Feedback;

/// The header that contains an ORCA load report.
pub const ORCA: &str = "endpoint-load-metrics";

/// The Server-Timing header.
pub const SERVER_TIMING: &str = "server-timing";

const MOST_BYTES: usize = 4_096;

/// The load report of a server. Each value is `None` if the server does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// The number of other requests that wait or run at the server.
    pub queue: Option<u32>,
    /// How long the server worked on the request, not counting the time in its queue.
    pub service: Option<Duration>,
    /// For a response to a probe: the number of requests at the server.
    pub in_flight: Option<u32>,
    /// For a response to a probe: the latency of recent requests that found about the same number
    /// of requests at the server.
    pub latency: Option<Duration>,
}

impl From<Feedback> for LoadReport {
    fn from(Feedback { queue, service_ns }: Feedback) -> Self {
        let service = Some(Duration::from_nanos(service_ns));
        Self { queue: Some(queue), service, ..Self::default() }
    }
}

impl LoadReport {
    /// Parses the report in the head of a response.
    #[must_use]
    pub fn of(head: &ResponseHead) -> Self {
        let mut report = Self::default();
        if let Some(value) = head.header(ORCA) {
            report.read_orca(value);
        }
        if let Some(value) = head.header(SERVER_TIMING).filter(|_| report == Self::default()) {
            report.read_server_timing(value);
        }
        report
    }

    /// Returns the feedback for the kernel, if the report has all of it.
    #[must_use]
    pub fn feedback(&self) -> Option<Feedback> {
        let service_ns = u64::try_from(self.service?.as_nanos()).unwrap_or(u64::MAX);
        Some(Feedback { queue: self.queue?, service_ns })
    }

    /// Returns the result of a probe, if the report has it: requests in flight, and their latency
    /// in ns.
    #[must_use]
    pub fn probed(&self) -> Option<(u32, u64)> {
        let latency_ns = u64::try_from(self.latency?.as_nanos()).unwrap_or(u64::MAX);
        Some((self.in_flight?, latency_ns))
    }

    /// Parses the value of an ORCA header.
    pub fn read_orca(&mut self, value: &[u8]) {
        let text = text(value).trim();
        if let Some(list) = text.strip_prefix("TEXT") {
            for (name, value) in list.split(',').filter_map(|part| part.split_once('=')) {
                self.set(name.trim().trim_start_matches("named_metrics."), value.trim());
            }
        } else if let Some(object) = text.strip_prefix("JSON")
            && let Ok(serde_json::Value::Object(object)) = serde_json::from_str(object)
        {
            let nested = object.get("named_metrics").and_then(serde_json::Value::as_object);
            for (name, value) in object.iter().chain(nested.into_iter().flatten()) {
                self.set(name.trim_start_matches("named_metrics."), &value.to_string());
            }
        }
    }

    /// Parses the value of a Server-Timing header.
    pub fn read_server_timing(&mut self, value: &[u8]) {
        for metric in text(value).split(',') {
            let mut parts = metric.split(';').map(str::trim);
            match (parts.next(), parts.next().and_then(|part| part.split_once('='))) {
                (Some("service"), Some(("dur", ms))) => self.set("service_ms", ms),
                (Some("queue-length"), Some(("desc", count))) => {
                    self.set("queue", count.trim_matches('"'));
                }
                _ => {}
            }
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        let count =
            || value.parse::<f64>().ok().filter(|n| (0.0..=4e9).contains(n)).map(|n| n as u32);
        let time = || Duration::try_from_secs_f64(value.parse::<f64>().ok()? / 1e3).ok();
        match name {
            "queue" => self.queue = count().or(self.queue),
            "service_ms" => self.service = time().or(self.service),
            "in_flight" => self.in_flight = count().or(self.in_flight),
            "latency_ms" => self.latency = time().or(self.latency),
            _ => {}
        }
    }

    /// Formats the report as the value of an ORCA header.
    #[must_use]
    pub fn to_orca(&self) -> String {
        let mut text = String::from("TEXT");
        let counts = [("queue", self.queue), ("in_flight", self.in_flight)];
        let times = [("service_ms", self.service), ("latency_ms", self.latency)];
        let counts = counts.into_iter().filter_map(|(name, n)| Some((name, f64::from(n?))));
        let times =
            times.into_iter().filter_map(|(name, t)| Some((name, t?.as_nanos() as f64 / 1e6)));
        for (at, (name, value)) in counts.chain(times).enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}named_metrics.{name}={value}", if at == 0 { ' ' } else { ',' });
        }
        text
    }

    /// Formats the report as the value of a Server-Timing header, which has no names for the
    /// results of a probe.
    #[must_use]
    pub fn to_server_timing(&self) -> String {
        let service = self.service.map(|t| format!("service;dur={}", t.as_nanos() as f64 / 1e6));
        let queue = self.queue.map(|count| format!("queue-length;desc=\"{count}\""));
        service.into_iter().chain(queue).collect::<Vec<_>>().join(", ")
    }
}

fn text(value: &[u8]) -> &str {
    // A part of it could end within a number.
    if value.len() > MOST_BYTES { "" } else { std::str::from_utf8(value).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn orca(text: &str) -> LoadReport {
        let mut report = LoadReport::default();
        report.read_orca(text.as_bytes());
        report
    }

    fn timing(text: &str) -> LoadReport {
        let mut report = LoadReport::default();
        report.read_server_timing(text.as_bytes());
        report
    }

    const SERVED: LoadReport = LoadReport {
        queue: Some(4),
        service: Some(Duration::from_micros(1_250)),
        in_flight: None,
        latency: None,
    };

    #[test]
    fn every_form_is_read_and_what_is_written_reads_back() {
        for text in [
            "TEXT named_metrics.queue=4, named_metrics.service_ms=1.25, cpu_utilization=0.3",
            "TEXT queue=4,service_ms=1.25",
            r#"JSON {"cpu_utilization": 0.3, "named_metrics": {"queue": 4, "service_ms": 1.25}}"#,
            r#"JSON {"named_metrics.queue": 4.0, "named_metrics.service_ms": 1.25}"#,
        ] {
            assert_eq!(orca(text), SERVED, "{text}");
        }
        assert_eq!(timing("db;dur=3, service;dur=1.25, queue-length;desc=\"4\""), SERVED);
        assert_eq!(SERVED.feedback(), Some(Feedback { queue: 4, service_ns: 1_250_000 }));
        let probed = LoadReport {
            in_flight: Some(7),
            latency: Some(Duration::from_millis(3)),
            ..LoadReport::default()
        };
        for report in [SERVED, probed] {
            assert_eq!(orca(&report.to_orca()), report);
        }
        assert_eq!(timing(&SERVED.to_server_timing()), SERVED);
        assert_eq!(timing(&probed.to_server_timing()), LoadReport::default());
        assert_eq!((probed.probed(), probed.feedback()), (Some((7, 3_000_000)), None));
    }

    #[test]
    fn values_out_of_range_are_ignored() {
        for text in [
            "",
            "TEXT",
            "TEXT queue=-1,service_ms=-2",
            "TEXT queue=NaN,service_ms=inf",
            "TEXT queue=1e300,service_ms=1e300",
            "TEXT queue=,service_ms",
            "JSON {",
            "JSON [1]",
            r#"JSON {"queue": "4", "named_metrics": 3}"#,
            "BIN \u{0}",
        ] {
            assert_eq!(orca(text), LoadReport::default(), "{text}");
            assert_eq!(timing(text), LoadReport::default(), "{text}");
        }
        let long = format!("TEXT {}queue=4", "a=1,".repeat(MOST_BYTES / 4));
        assert_eq!(orca(&long), LoadReport::default());
        let cut = format!("TEXT queue=4{}", "0".repeat(MOST_BYTES - 11));
        assert_eq!(orca(&cut), LoadReport::default(), "no truncated number");
        assert_eq!(orca("TEXT queue=4").feedback(), None, "half of it is not a number");
    }
    /// Fragments of valid headers, and others.
    const PIECES: [&str; 32] = [
        "TEXT ",
        "JSON ",
        "named_metrics",
        ".",
        "queue",
        "service_ms",
        "in_flight",
        "latency_ms",
        "=",
        ",",
        ";",
        ":",
        "{",
        "}",
        "[",
        "\"",
        "service",
        "queue-length",
        "dur",
        "desc",
        "0",
        "1",
        "4e9",
        "4294967296",
        "1e400",
        "-",
        "+",
        "NaN",
        "inf",
        " ",
        "\u{0}",
        "\u{e9}",
    ];

    fn check(value: &[u8]) -> Result<(), TestCaseError> {
        let (mut one, mut other) = (LoadReport::default(), LoadReport::default());
        one.read_orca(value);
        other.read_server_timing(value);
        for report in [one, other] {
            let counts = [report.queue, report.in_flight].into_iter().flatten();
            prop_assert!(counts.max().unwrap_or(0) <= 4_000_000_000);
            let is_complete = report.queue.is_some() && report.service.is_some();
            prop_assert_eq!(report.feedback().is_some(), is_complete);
            let is_complete = report.in_flight.is_some() && report.latency.is_some();
            prop_assert_eq!(report.probed().is_some(), is_complete);
        }
        prop_assert!(other.in_flight.is_none() && other.latency.is_none());
        Ok(())
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_ignored(value in any::<Vec<u8>>()) {
            check(&value)?;
        }

        #[test]
        fn any_text_is_parsed_or_ignored(
            pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60),
        ) {
            check(pieces.concat().as_bytes())?;
        }

        // Times are up to a day, exact to the nanosecond.
        #[test]
        fn a_written_report_parses_back(
            counts in any::<[Option<u32>; 2]>(),
            times in any::<[Option<u64>; 2]>(),
        ) {
            let [queue, in_flight] = counts.map(|n| n.map(|n| n % 4_000_000_001));
            let day = 86_400_000_000_000;
            let [service, latency] = times.map(|t| t.map(|ns| Duration::from_nanos(ns % day)));
            let report = LoadReport { queue, service, in_flight, latency };
            prop_assert_eq!(orca(&report.to_orca()), report);
        }
    }
}
