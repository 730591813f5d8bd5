//! Reads recorded arrival times: one per line; `#` starts a comment. Only the gaps between the
//! times matter, so they can have any unit and any origin.

use std::path::Path;

use curtail_config::excerpt;

use super::ArrivalsError;
use crate::samples::{MIXED, times};
use crate::text::read_text;

#[derive(Debug)]
pub(super) struct Recorded {
    /// The gaps, scaled to a mean of 1. The first gap is used when the trace repeats, and is the
    /// mean of the others.
    pub(super) gaps: Vec<f64>,
    /// The recorded mean gap, in ns, or `None` if the times have no units.
    pub(super) mean_ns: Option<f64>,
}

pub(super) fn read(path: &Path) -> Result<Recorded, ArrivalsError> {
    parse(path, &read_text(path).map_err(ArrivalsError::Text)?)
}

/// Parses a trace. Errors name `path`.
fn parse(path: &Path, text: &str) -> Result<Recorded, ArrivalsError> {
    let bad = |line: usize, why: String| ArrivalsError::Trace { path: path.to_owned(), line, why };
    let of_line = |line, content: &str, why: String| {
        let is = if why == MIXED { ":" } else { " is not a time;" };
        bad(line, format!("`{}`{is} {why}", excerpt(content)))
    };
    let found = times(text, of_line)?;
    let have_units = found.first().is_some_and(|(_, time)| time.unit.is_some());
    let ns: Vec<f64> = found.iter().map(|(_, time)| time.ns(1.0)).collect();
    if let Some(at) = ns.windows(2).position(|pair| pair[0] > pair[1]) {
        let (line, time) = found[at + 1];
        return Err(bad(line, format!("`{time}` is earlier than the arrival before; sort them")));
    }
    let (gaps, mean) = gaps(&ns).map_err(|why| bad(0, why.to_owned()))?;
    Ok(Recorded { gaps, mean_ns: have_units.then_some(mean) })
}

/// Returns the gaps between sorted times, scaled to a mean of 1, and the mean before scaling.
fn gaps(times: &[f64]) -> Result<(Vec<f64>, f64), &'static str> {
    let span = times.last().zip(times.first()).map_or(0.0, |(last, first)| last - first);
    if times.len() < 2 || span <= 0.0 {
        return Err("it needs two arrivals or more, at different times");
    }
    let mean = span / (times.len() - 1) as f64;
    // The span either overflows or is so short that the gaps lose precision.
    if !mean.is_normal() {
        return Err("its times are too far apart or too close; write them in another unit");
    }
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]) / mean);
    Ok((std::iter::once(1.0).chain(gaps).collect(), mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_text(text: &[u8]) -> Result<Recorded, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.txt");
        std::fs::write(&path, text).expect("a file");
        read(&path).map_err(|error| error.to_string())
    }

    fn refusal(text: &[u8]) -> String {
        read_text(text).expect_err("a bad trace")
    }

    #[test]
    fn gaps_are_scaled_to_a_mean_of_one() {
        let trace = read_text(b"# seconds\n10\n11 # the second\n\n14\n14\n").expect("a trace");
        assert_eq!((trace.gaps, trace.mean_ns), (vec![1.0, 0.75, 2.25, 0.0], None));
    }

    #[test]
    fn a_bad_line_is_named() {
        let message = refusal(b"1\n\ntwo\n");
        assert!(message.contains("trace.txt:3: `two` is not a time"), "{message}");
        let message = refusal(b"1\n3\n2\n");
        assert!(
            message.contains("trace.txt:3: `2` is earlier than the arrival before; sort"),
            "{message}"
        );
        let message = refusal(b"1\nNaN\n");
        assert!(message.contains("trace.txt:2:"), "{message}");
        let message = refusal([b'x'; 10_000].as_slice());
        assert!(message.len() < 300, "an error does not repeat a long line: {message}");
    }

    #[test]
    fn a_trace_without_a_rate_is_refused() {
        for bad in [&b""[..], b"# nothing\n", b"5\n", b"5\n5\n"] {
            assert!(refusal(bad).contains("two arrivals or more"));
        }
        for bad in [&b"-1e308\n1e308\n"[..], b"0\n1e-320\n"] {
            assert!(refusal(bad).contains("another unit"));
        }
        assert!(refusal(b"1\n\xff\n").contains("trace.txt:2: it is not UTF-8"));
    }

    #[test]
    fn all_times_have_units_or_none() {
        let trace = read_text(b"\xef\xbb\xbf1ms\n2000us\n5ms\n").expect("a trace");
        assert_eq!((trace.gaps, trace.mean_ns), (vec![1.0, 0.5, 1.5], Some(2e6)));
        let message = refusal(b"1ms\n2\n");
        assert!(
            message.contains("trace.txt:2: `2`: some lines have units and some have none"),
            "{message}"
        );
    }

    const PIECES: &str = "(1|2|0|\\.|-|e|e308|1e-320|ms|s|h|\n|\n|\n|#| |NaN|inf|1ms\n|2s\n|1\n2\n\
        |18446744073709551615|\u{feff}){0,13}";

    proptest! {
        #[test]
        fn any_text_is_a_trace_or_an_error(text in PIECES) {
            match parse(Path::new("trace.txt"), &text) {
                Ok(Recorded { gaps, mean_ns }) => {
                    prop_assert!(gaps.iter().all(|gap| gap.is_finite() && *gap >= 0.0), "{:?}", gaps);
                    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
                    prop_assert!((mean - 1.0).abs() < 1e-6, "{:?}", gaps);
                    prop_assert!(mean_ns.is_none_or(|mean| mean > 0.0 && mean.is_finite()));
                }
                Err(ArrivalsError::Trace { line, .. }) => prop_assert!(line <= text.lines().count()),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
