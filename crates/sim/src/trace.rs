//! Recorded arrival times: one per line, `#` starts a comment.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::Error;

/// The largest trace that is read, in bytes: room for several million arrivals.
const MAX_BYTES: u64 = curtail_dist::MAX_FILE_BYTES;

/// How much of a bad line an error repeats.
const SHOWN_CHARS: usize = 40;

/// The gaps of a trace, with a mean of 1. The gap before the first arrival, when the trace begins
/// anew, is the mean of the others.
pub(crate) fn read(path: &Path) -> Result<Vec<f64>, Error> {
    let bad = |line: usize, why: String| Error::Trace { path: path.to_owned(), line, why };
    let text = text(path).map_err(|why| bad(0, why))?;
    let mut times: Vec<f64> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let time: f64 =
            line.parse().ok().filter(|time: &f64| time.is_finite()).ok_or_else(|| {
                let shown: String = line.chars().take(SHOWN_CHARS).collect();
                bad(at + 1, format!("{shown:?} is no time; write one decimal number per line"))
            })?;
        if let Some(before) = times.last().filter(|before| **before > time) {
            return Err(bad(at + 1, format!("{time} comes after {before}; sort the arrivals")));
        }
        times.push(time);
    }
    gaps(&times).map_err(|why| bad(0, why.to_owned()))
}

fn text(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| format!("{error}; check the path"))?;
    let mut bytes = Vec::new();
    // One byte more than allowed, to tell a full file from one that goes on.
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it has more than {MAX_BYTES} bytes; keep fewer arrivals"));
    }
    String::from_utf8(bytes)
        .map_err(|_| "it is not UTF-8 text; write one decimal number per line".to_owned())
}

/// The gaps between sorted times, scaled so that their mean is 1.
fn gaps(times: &[f64]) -> Result<Vec<f64>, &'static str> {
    let span = times.last().zip(times.first()).map_or(0.0, |(last, first)| last - first);
    if times.len() < 2 || span <= 0.0 {
        return Err("it needs two arrivals or more, at different times");
    }
    let mean = span / (times.len() - 1) as f64;
    // A span that is no number, or one so short that gaps cannot be told in it.
    if !mean.is_normal() {
        return Err("its times are too far apart or too close; write them in another unit");
    }
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]) / mean);
    Ok(std::iter::once(1.0).chain(gaps).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &[u8]) -> Result<Vec<f64>, String> {
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
        let gaps = read_text(b"# seconds\n10\n11 # the second\n\n14\n14\n").expect("a trace");
        assert_eq!(gaps, [1.0, 0.75, 2.25, 0.0]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let said = refusal(b"1\n\ntwo\n");
        assert!(said.contains("trace.txt:3: \"two\" is no time"), "{said}");
        let said = refusal(b"1\n3\n2\n");
        assert!(said.contains("trace.txt:3: 2 comes after 3; sort"), "{said}");
        let said = refusal(b"1\nNaN\n");
        assert!(said.contains("trace.txt:2:"), "{said}");
        let said = refusal([b'x'; 10_000].as_slice());
        assert!(said.len() < 300, "an error does not repeat a long line: {said}");
    }

    #[test]
    fn a_trace_without_a_rate_is_refused() {
        for bad in [&b""[..], b"# nothing\n", b"5\n", b"5\n5\n"] {
            assert!(refusal(bad).contains("two arrivals or more"));
        }
        for bad in [&b"-1e308\n1e308\n"[..], b"0\n1e-320\n"] {
            assert!(refusal(bad).contains("another unit"));
        }
        assert!(refusal(b"1\n\xff\n").contains("UTF-8"));
    }

    #[test]
    fn a_trace_that_is_too_large_is_refused_unread() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("large.txt");
        // Sparse: it takes no space.
        File::create(&path).and_then(|file| file.set_len(MAX_BYTES + 1)).expect("a file");
        let said = read(&path).expect_err("too large").to_string();
        assert!(said.contains("large.txt: it has more than 67108864 bytes"), "{said}");
    }
}
