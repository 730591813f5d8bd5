//! Reads interval logs line by line, so that a log may be longer than memory has room for.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;

use super::interval;
use crate::error::ResolveError;
use crate::text::{TextError, excerpt};

/// The longest line, in bytes. A histogram of all that there is to count takes less.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// What was counted in one interval of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogInterval {
    /// From when on, in seconds: since the start of the log, or since 1970, as its writer had it.
    pub from_s: f64,
    /// For how long, in seconds.
    pub length_s: f64,
    /// What its writer calls it, if anything. Whoever reads only one series of a log reads those
    /// without.
    pub tag: Option<String>,
    /// The counts. By convention of nanoseconds; the log does not say.
    pub counted: Histogram<u64>,
}

/// Reads an interval log of HdrHistogram: an iterator over its intervals.
#[derive(Debug)]
pub struct LogReader<R = BufReader<File>> {
    path: PathBuf,
    from: R,
    /// Lines that were read.
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
