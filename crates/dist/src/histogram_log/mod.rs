//! Samples in an interval log of HdrHistogram: lines of counts, as many load generators and services
//! write them (`.hlog`).
//!
//! The intervals are added up. A histogram keeps values to some digits, so a sample is the middle of
//! its bucket. By convention the values are nanoseconds; the log does not say.
//!
//! Cost: O(lines + buckets + samples); at most [`MAX_SAMPLES`] samples are kept.

use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

use crate::distribution::MAX_SAMPLE_NS;
use crate::error::ResolveError;
use crate::text::{TextError, excerpt};

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

/// One series of a log, its intervals added up.
#[derive(Clone, Debug, PartialEq)]
pub struct LogSeries {
    /// The counts; at least one.
    pub counted: Histogram<u64>,
    /// The start of its first interval, in seconds, as its writer had it.
    pub from_s: f64,
    /// The end of its last interval.
    pub until_s: f64,
    /// The line of its first interval, counted from 1.
    pub line: usize,
}

/// The most names that an error lists.
pub(crate) const MAX_NAMED: usize = 8;

/// Reads the series of a log: the one without a tag, which is the format's default, or the only one with
/// a tag. Several series with tags are different things, so they are never added up.
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
pub(crate) fn samples(histogram: &Histogram<u64>) -> Vec<f64> {
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

// Reads interval logs line by line, so that a log may be longer than memory has room for.

/// The longest line, in bytes. A histogram of all that there is to count takes less.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// What was counted in one interval of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogInterval {
    /// From when on, in seconds: since the start of the log, or since 1970, as its writer had it.
    pub from_s: f64,
    /// For how long, in seconds.
    pub length_s: f64,
    /// What its writer calls its series; none for the default one.
    pub tag: Option<String>,
    /// The counts. By convention of nanoseconds; the log does not say.
    pub counted: Histogram<u64>,
}

/// Reads an interval log of HdrHistogram: an iterator over its intervals.
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
    /// Reads a log from anywhere; errors name `path`.
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
            // What some editors put before the first line.
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

// Writes interval logs, in version 1.3 of the format, histograms in version 2, compressed.

/// The column of largest values is for people, in milliseconds, as most writers have it.
const MAX_UNIT_NS: f64 = 1e6;

/// Writes an interval log of HdrHistogram, line by line, for the tools that read such logs, and for
/// [`LogReader`](crate::LogReader).
#[allow(missing_debug_implementations)] // the serializer inside has none
pub struct LogWriter<W> {
    to: W,
    serializer: V2DeflateSerializer,
}

impl<W: Write> LogWriter<W> {
    /// Begins a log whose times count from `start`, the time since 1970 (UTC). `comment` is its first
    /// line.
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

    /// Writes what was counted in the time from `from`, since the start, for a length. It is flushed, so
    /// that what was written can be read while more is to come.
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
        // As one, so that a reader meanwhile sees whole lines.
        let line = format!("{from:.3},{length:.3},{max:.3},{}\n", STANDARD.encode(bytes));
        self.to.write_all(line.as_bytes())?;
        self.to.flush()
    }
}

// Whether counts can be those of a histogram.
//
// The decoder of hdrhistogram believes what it reads: it negates the number of a run of empty buckets, also
// the one number that has no negative. So all of them are looked at before it does.
//
// Source: HdrHistogram, encoding version 2 (`ZigZagEncoding`). Cost: O(bytes).

/// True if the counts of an encoded histogram, what follows its header, are of at most so many buckets,
/// and none is larger than `most`.
pub fn plausible_counts(mut payload: &[u8], buckets_max: u64, most: u64) -> bool {
    let mut buckets = 0;
    while !payload.is_empty() {
        let Some((number, used)) = varint(payload) else { return false };
        payload = &payload[used..];
        // Zigzag: even ones are counts, odd ones -1, -2, … empty buckets.
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

/// A number in base 128, lowest first, the ninth byte whole (LEB128-64b9B), and its length.
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
