//! The header `server-timing`: named times in milliseconds, in the format of the W3C's Server
//! Timing specification.

use std::fmt::Write as _;
use std::time::Duration;

/// The name of the header.
pub(crate) const HEADER: &str = "server-timing";

/// Formats times with nanosecond precision.
pub(crate) fn write<N: std::fmt::Display>(
    times: impl IntoIterator<Item = (N, Duration)>,
) -> String {
    let mut text = String::new();
    for (name, time) in times {
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{name};dur={}", time.as_nanos() as f64 / 1e6);
    }
    text
}

/// Parses times. Ignores every entry that is not a name with a valid `dur`, because the header is
/// untrusted input.
pub(crate) fn read(header: &[u8]) -> impl Iterator<Item = (&str, Duration)> {
    let text = std::str::from_utf8(header).unwrap_or_default();
    text.split(',').filter_map(|metric| {
        let mut parts = metric.split(';').map(str::trim);
        let name = parts.next()?;
        let ms: f64 = parts.find_map(|part| part.strip_prefix("dur="))?.parse().ok()?;
        // Because of floating-point error, the value may not be exactly a whole number of
        // nanoseconds.
        let time = Duration::try_from_secs_f64(ms / 1e3).ok()?;
        Some((name, time))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back_as_written() {
        let times = [("queue", Duration::from_nanos(1)), ("real", Duration::from_micros(1_234))];
        let text = write(times);
        assert_eq!(text, "queue;dur=0.000001, real;dur=1.234");
        assert_eq!(read(text.as_bytes()).collect::<Vec<_>>(), times);
    }

    #[test]
    fn invalid_times_are_ignored() {
        let header =
            b"miss, cache;desc=\"dur\", db;desc=x;dur=2, a;dur=-1, b;dur=x, c;dur=1e300, ,";
        assert_eq!(read(header).collect::<Vec<_>>(), [("db", Duration::from_millis(2))]);
        assert_eq!(read(b"\xff;dur=1").count(), 0);
    }
}
