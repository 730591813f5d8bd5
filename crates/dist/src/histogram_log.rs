//! Samples in an interval log of HdrHistogram: lines of counts, as many load generators and services
//! write them (`.hlog`).
//!
//! The intervals are added up. A histogram keeps values to some digits, so a sample is the middle of
//! its bucket. By convention the values are nanoseconds; the log does not say.
//!
//! Cost: O(lines + buckets + samples); at most [`MAX_SAMPLES`] samples are kept.

mod plausible;
mod read;
mod write;

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::distribution::MAX_SAMPLE_NS;
use crate::error::ResolveError;
use crate::samples::Samples;
use crate::text::excerpt;

pub use plausible::plausible_counts;
pub use read::{LogInterval, LogReader};
pub use write::LogWriter;

/// The most samples that are kept of a log. Of more, so many are taken at equal distances in their
/// order by length: no share of them is off by more than one in so many.
pub const MAX_SAMPLES: u64 = 1 << 20;

/// The largest histogram that is decoded, in bytes before it is compressed: room for every count of
/// one with five digits.
const MAX_HISTOGRAM_BYTES: u64 = 64 << 20;

/// Before the counts: cookie, length, offset, digits, lowest and highest value, ratio.
const HEADER_BYTES: usize = 40;

/// The most buckets: those of five digits up to the largest value.
const MAX_BUCKETS: u64 = 1 << 24;
/// The most that a bucket counts: what is exact as a number of JSON.
const MAX_COUNT: u64 = 1 << 53;

/// What a compressed histogram begins with (HdrHistogram, encoding version 2).
const COMPRESSED: u32 = 0x1c84_9314;

/// What the encoded histograms of all versions begin with.
const ENCODED: &str = "HIST";

/// What the lines of a log begin with that say what it is.
const HEADERS: [&str; 2] = ["#[Histogram log format", "\"StartTimestamp\""];

/// Is this a log, and not a list of times? Then its first line with a histogram is one of a log; or
/// it has none, and the headers of a log.
pub(crate) fn is_log(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    match lines.clone().find(|line| !line.starts_with(['#', '"'])) {
        Some(line) => line.rsplit(',').next().unwrap_or("").starts_with(ENCODED),
        None => lines.any(|line| HEADERS.iter().any(|header| line.starts_with(header))),
    }
}

/// The samples of a log.
pub(crate) fn read(path: &Path, text: &str) -> Result<Samples, ResolveError> {
    let mut all: Option<(Histogram<u64>, usize)> = None;
    for (at, line) in text.lines().enumerate() {
        let bad = |why: String| ResolveError::BadSample {
            path: path.to_owned(),
            line: at + 1,
            text: excerpt(line),
            why,
        };
        let Some(LogInterval { counted, .. }) = interval(line).map_err(bad)? else { continue };
        match &mut all {
            None => all = Some((counted, at + 1)),
            Some((all, _)) => all.add(&counted).map_err(|error| bad(error.to_string()))?,
        }
    }
    let all = all.filter(|(histogram, _)| !histogram.is_empty());
    let (histogram, line) =
        all.ok_or_else(|| ResolveError::NoHistogram { path: path.to_owned() })?;
    let ns = samples(&histogram);
    Ok(Samples { lines: vec![line; ns.len()], ns, have_units: true })
}

/// The interval of a line; none where the line is a comment or a legend.
fn interval(line: &str) -> Result<Option<LogInterval>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with(['#', '"']) {
        return Ok(None);
    }
    let whole = format!("{line}\n");
    let Some(Ok(LogEntry::Interval(entry))) = IntervalLogIterator::new(whole.as_bytes()).next()
    else {
        return Err("write start,length,max,histogram as HdrHistogram does".to_owned());
    };
    let bytes = STANDARD
        .decode(entry.encoded_histogram())
        .map_err(|error| format!("its histogram is not base64: {error}"))?;
    let plain = inflate(&bytes)?;
    let mut counted: Histogram<u64> = Deserializer::new()
        .deserialize(&mut &plain[..])
        .map_err(|error| format!("its histogram cannot be decoded: {error}"))?;
    if counted.max() as f64 > MAX_SAMPLE_NS {
        return Err("times are below 292 years".to_owned());
    }
    // Later intervals may have larger values.
    counted.auto(true);
    Ok(Some(LogInterval {
        from_s: entry.start_timestamp().as_secs_f64(),
        length_s: entry.duration().as_secs_f64(),
        tag: entry.tag().map(|tag| tag.as_str().to_owned()),
        counted,
    }))
}

/// An encoded histogram that is not compressed, whose length is what it says.
///
/// The decoder would reserve whatever a line asks for, so this looks first.
fn inflate(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
        word.map(u32::from_be_bytes).ok_or_else(|| "its histogram is cut off".to_owned())
    };
    let mut plain = Vec::new();
    if word(bytes, 0)? == COMPRESSED {
        let deflated = bytes.get(8..).unwrap_or_default();
        let mut inflated = ZlibDecoder::new(deflated).take(MAX_HISTOGRAM_BYTES + 1);
        inflated
            .read_to_end(&mut plain)
            .map_err(|error| format!("its histogram cannot be inflated: {error}"))?;
    } else {
        plain.extend_from_slice(bytes);
    }
    if plain.len() as u64 > MAX_HISTOGRAM_BYTES {
        return Err(format!("its histogram has more than {MAX_HISTOGRAM_BYTES} bytes"));
    }
    if word(&plain, 4)? as usize > plain.len() {
        return Err("its histogram is cut off".to_owned());
    }
    let counts = plain.get(HEADER_BYTES..).unwrap_or_default();
    if !plausible_counts(counts, MAX_BUCKETS, MAX_COUNT) {
        return Err("its histogram has counts that no histogram has".to_owned());
    }
    Ok(plain)
}

/// The samples that a histogram counts, shortest first.
fn samples(histogram: &Histogram<u64>) -> Vec<f64> {
    let all = histogram.len();
    let kept = all.min(MAX_SAMPLES);
    let mut ns = Vec::with_capacity(kept as usize);
    let mut passed: u128 = 0;
    for bucket in histogram.iter_recorded() {
        let value = histogram.median_equivalent(bucket.value_iterated_to()) as f64;
        passed += u128::from(bucket.count_at_value());
        // Sample i stands for the one of rank (i + ½) all / kept.
        while (2 * ns.len() as u128 + 1) * u128::from(all) < 2 * passed * u128::from(kept) {
            ns.push(value);
        }
    }
    ns
}
