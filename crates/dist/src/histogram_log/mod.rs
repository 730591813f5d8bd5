//! Reads and writes HdrHistogram interval logs (`.hlog`), in which each line contains the counts of
//! one interval. Many load generators and services use this format.
//!
//! The counts of all intervals of a series are added up. A histogram has a limited number of
//! digits, so a sample is the middle of its bucket. Values are nanoseconds by convention; the
//! format does not record the unit.
//!
//! Cost: O(lines + buckets + samples); at most [`MAX_SAMPLES`] samples are kept.

use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use curtail_config::excerpt;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

use crate::distribution::MAX_SAMPLE_NS;
use crate::error::ResolveError;
use crate::text::TextError;

/// The maximum number of samples kept from a log. If a log contains more samples, this many are
/// taken at equal distances in sorted order, so the count of any range is off by at most one
/// sample.
pub const MAX_SAMPLES: u64 = 1 << 20;

/// The maximum size of a decompressed histogram, in bytes. This is enough for all counts of a
/// histogram with five digits.
const MAX_HISTOGRAM_BYTES: u64 = 64 << 20;

/// The length of the header before the counts: cookie, length, offset, digits, lowest and highest
/// value, ratio.
const HEADER_BYTES: usize = 40;

/// The maximum number of buckets: enough for five digits up to the largest value.
const MAX_BUCKETS: u64 = 1 << 24;
/// The maximum count of a bucket, which is the largest integer that JSON numbers represent exactly.
const MAX_COUNT: u64 = 1 << 53;

/// Cookie of a compressed histogram (HdrHistogram, encoding version 2).
const COMPRESSED: u32 = 0x1c84_9314;

const ENCODED: &str = "HIST";

/// The prefixes of lines that identify a text as a histogram log.
const HEADERS: [&str; 2] = ["#[Histogram log format", "\"StartTimestamp\""];

/// Whether a text is a histogram log rather than a list of times. The first data line of a log has
/// a histogram. A text without data lines is a log if it has the headers of one.
pub(crate) fn is_log(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    match lines.clone().find(|line| !line.starts_with(['#', '"'])) {
        Some(line) => line.rsplit(',').next().unwrap_or("").starts_with(ENCODED),
        None => lines.any(|line| HEADERS.iter().any(|header| line.starts_with(header))),
    }
}

/// A series of a log, with its intervals added up.
#[derive(Clone, Debug, PartialEq)]
pub struct LogSeries {
    /// The counts, at least one of which is not zero.
    pub counted: Histogram<u64>,
    /// The start of its first interval, in seconds from the writer's origin.
    pub from_s: f64,
    /// The end of its last interval, in seconds.
    pub until_s: f64,
    /// The line number of its first interval, counted from 1.
    pub line: usize,
}

/// The maximum number of names that an error lists.
pub(crate) const MAX_NAMED: usize = 8;

/// Reads the series without a tag, which is the format's default. If there is none, reads the only
/// series with a tag. Series with different tags are never added up, because they measure different
/// things.
pub fn read_log_series<R: BufRead>(mut log: LogReader<R>) -> Result<LogSeries, ResolveError> {
    let (mut default, mut tagged) = (None, None);
    let mut tags: Vec<String> = Vec::new();
    while let Some(interval) = log.next() {
        let interval = interval?;
        let series = match &interval.tag {
            None => &mut default,
            Some(tag) => {
                let is_new = !tags.contains(tag);
                if is_new && tags.len() < MAX_NAMED {
                    tags.push(tag.clone());
                }
                if tags.first() != Some(tag) {
                    continue;
                }
                &mut tagged
            }
        };
        add(series, interval, log.line).map_err(|why| {
            let (path, line) = (log.path.clone(), log.line);
            ResolveError::BadSample { path, line, text: "its histogram".to_owned(), why }
        })?;
    }
    let path = log.path;
    if default.is_none() && tags.len() > 1 {
        let tags = tags.iter().map(|tag| excerpt(tag)).collect();
        return Err(ResolveError::SeveralSeries { path, tags });
    }
    let series = default.or(tagged).filter(|series| !series.counted.is_empty());
    series.ok_or(ResolveError::NoHistogram { path })
}

fn add(to: &mut Option<LogSeries>, interval: LogInterval, line: usize) -> Result<(), String> {
    let LogInterval { from_s, length_s, counted, .. } = interval;
    let until_s = from_s + length_s;
    match to {
        None => *to = Some(LogSeries { counted, from_s, until_s, line }),
        Some(all) => {
            (all.from_s, all.until_s) = (all.from_s.min(from_s), all.until_s.max(until_s));
            all.counted.add(&counted).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Parses a line; returns `None` for a comment or a header.
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
        return Err("times must be below 292 years".to_owned());
    }
    // Allow the histogram to grow, because later intervals may contain larger values.
    counted.auto(true);
    Ok(Some(LogInterval {
        from_s: entry.start_timestamp().as_secs_f64(),
        length_s: entry.duration().as_secs_f64(),
        tag: entry.tag().map(|tag| tag.as_str().to_owned()),
        counted,
    }))
}

/// Decompresses an encoded histogram, and checks its length.
///
/// The decoder would allocate any length that a line claims, so the length must be checked first.
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
        return Err("its histogram contains impossible counts".to_owned());
    }
    Ok(plain)
}

/// Returns the samples of a histogram, in ascending order.
pub(crate) fn samples(histogram: &Histogram<u64>) -> Vec<f64> {
    let all = histogram.len();
    let kept = all.min(MAX_SAMPLES);
    let mut ns = Vec::with_capacity(kept as usize);
    let mut passed: u128 = 0;
    for bucket in histogram.iter_recorded() {
        let value = histogram.median_equivalent(bucket.value_iterated_to()) as f64;
        passed += u128::from(bucket.count_at_value());
        // Sample i has the rank (i + ½) all / kept.
        while (2 * ns.len() as u128 + 1) * u128::from(all) < 2 * passed * u128::from(kept) {
            ns.push(value);
        }
    }
    ns
}

// Reads logs line by line, so that they may be larger than memory.

/// The maximum length of a line, in bytes. Even the largest possible histogram is shorter than
/// this.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// The counts of one interval of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogInterval {
    /// The start in seconds, from the start of the log or from 1970, depending on the writer.
    pub from_s: f64,
    /// The length in seconds.
    pub length_s: f64,
    /// The tag of the series, or `None` for the default series.
    pub tag: Option<String>,
    /// The counts. Values are nanoseconds by convention; the format does not record the unit.
    pub counted: Histogram<u64>,
}

/// An iterator over the intervals of an HdrHistogram interval log.
#[derive(Debug)]
pub struct LogReader<R = BufReader<File>> {
    path: PathBuf,
    from: R,
    line: usize,
    ended: bool,
}

impl LogReader {
    /// Opens a log.
    pub fn open(path: &Path) -> Result<Self, ResolveError> {
        let file = File::open(path).map_err(|source| unreadable(path, source))?;
        Ok(Self::over(BufReader::new(file), path))
    }
}

impl<R: BufRead> LogReader<R> {
    /// Reads a log from any source. Errors name `path`.
    pub fn over(from: R, path: &Path) -> Self {
        Self { path: path.to_owned(), from, line: 0, ended: false }
    }

    fn next_interval(&mut self) -> Result<Option<LogInterval>, ResolveError> {
        loop {
            let mut bytes = Vec::new();
            let mut bounded = (&mut self.from).take(MAX_LINE_BYTES);
            let read = bounded.read_until(b'\n', &mut bytes);
            if read.map_err(|source| unreadable(&self.path, source))? == 0 {
                return Ok(None);
            }
            self.line += 1;
            let (path, line) = (self.path.clone(), self.line);
            if bytes.len() as u64 == MAX_LINE_BYTES && !bytes.ends_with(b"\n") {
                let why = format!("its line is longer than {MAX_LINE_BYTES} bytes");
                let text = excerpt(&String::from_utf8_lossy(&bytes[..64]));
                return Err(ResolveError::BadSample { path, line, text, why });
            }
            let Ok(text) = String::from_utf8(bytes) else {
                return Err(TextError::NotText { path, line }.into());
            };
            // Some editors put a byte order mark before the first line.
            let text = text.trim_start_matches('\u{feff}');
            let bad = |why| ResolveError::BadSample { path, line, text: excerpt(text.trim()), why };
            if let Some(interval) = interval(text).map_err(bad)? {
                return Ok(Some(interval));
            }
        }
    }
}

fn unreadable(path: &Path, source: std::io::Error) -> ResolveError {
    TextError::Unreadable { path: path.to_owned(), source }.into()
}

impl<R: BufRead> Iterator for LogReader<R> {
    type Item = Result<LogInterval, ResolveError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_interval();
        self.ended = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

// Writes version 1.3 of the log format, with compressed histograms of version 2.

/// The unit of the column that contains the largest values: a millisecond, as in most logs. The
/// column is meant for human readers.
const MAX_UNIT_NS: f64 = 1e6;

/// Writes an HdrHistogram interval log line by line, for other tools and for
/// [`LogReader`](crate::LogReader).
#[allow(missing_debug_implementations)] // the serializer inside does not implement it
pub struct LogWriter<W> {
    to: W,
    serializer: V2DeflateSerializer,
}

impl<W: Write> LogWriter<W> {
    /// Begins a log. Its times are relative to `start`, which is given as the time since 1970
    /// (UTC). `comment` is written to the first lines of the log.
    pub fn new(mut to: W, comment: &str, start: Duration) -> io::Result<Self> {
        let seconds = start.as_secs_f64();
        for line in comment.lines() {
            writeln!(to, "#{line}")?;
        }
        writeln!(to, "#[Histogram log format version 1.3]")?;
        writeln!(to, "#[BaseTime: {seconds:.3} (seconds since epoch)]")?;
        writeln!(to, "#[StartTime: {seconds:.3} (seconds since epoch)]")?;
        let names = ["StartTimestamp", "Interval_Length", "Interval_Max"];
        let names = names.map(|name| format!("\"{name}\"")).join(",");
        writeln!(to, "{names},\"Interval_Compressed_Histogram\"")?;
        to.flush()?;
        Ok(Self { to, serializer: V2DeflateSerializer::new() })
    }

    /// Writes the counts of an interval that starts `from` after the start of the log. The line is
    /// flushed, so that others can read the log while it grows.
    pub fn write(
        &mut self,
        counted: &Histogram<u64>,
        from: Duration,
        length: Duration,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.serializer.serialize(counted, &mut bytes).map_err(io::Error::other)?;
        let (from, length) = (from.as_secs_f64(), length.as_secs_f64());
        let max = counted.max() as f64 / MAX_UNIT_NS;
        // Write the line with a single call, so that a concurrent reader sees only whole lines.
        let line = format!("{from:.3},{length:.3},{max:.3},{}\n", STANDARD.encode(bytes));
        self.to.write_all(line.as_bytes())?;
        self.to.flush()
    }
}

// Checks counts before they are decoded.
//
// The `hdrhistogram` decoder trusts its input. It negates the length of a run of empty buckets,
// which overflows if that length is the smallest integer. Therefore all counts are checked first.
//
// Source: HdrHistogram, encoding version 2 (`ZigZagEncoding`). Cost: O(bytes).

/// Returns whether an encoded histogram (the bytes after its header) has at most `buckets_max`
/// buckets and no count above `most`.
pub fn plausible_counts(mut payload: &[u8], buckets_max: u64, most: u64) -> bool {
    let mut buckets = 0;
    while !payload.is_empty() {
        let Some((number, used)) = varint(payload) else { return false };
        payload = &payload[used..];
        // Zigzag encoding: even numbers are counts, and odd ones are runs of 1, 2, … empty buckets,
        // encoded as -1, -2, ….
        let (half, empty) = (number >> 1, number & 1 == 1);
        if half > if empty { buckets_max } else { most } {
            return false;
        }
        buckets += if empty { half + 1 } else { 1 };
        if buckets > buckets_max {
            return false;
        }
    }
    true
}

/// Decodes a number in base 128, lowest digit first, whose ninth byte holds a full 8 bits
/// (LEB128-64b9B). Returns the number and its length.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        let last = at == 8 || *byte < 0x80;
        let bits = if at == 8 { *byte } else { *byte & 0x7f };
        number |= u64::from(bits) << (7 * at);
        if last {
            return Some((number, at + 1));
        }
    }
    None
}
