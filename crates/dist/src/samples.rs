//! Reads samples from a file: either a histogram log, or one time per line, where `#` starts a
//! comment.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use curtail_config::excerpt;

use crate::distribution::MAX_SAMPLE_NS;
use crate::error::ResolveError;
use crate::histogram_log::{self, LogReader, MAX_NAMED, read_log_series};
use crate::quantity::{Malformed, Time};
use crate::text::{BYTE_ORDER_MARK, TextError, text_from};

pub(crate) const MIXED: &str = "some lines have units and some have none; give all a unit or none";

/// The samples of a file, in the order of the file.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Times in nanoseconds, at least one.
    pub ns: Vec<f64>,
    /// Their line numbers, counted from 1. In a histogram log, every sample has the number of the
    /// first line of the series.
    pub lines: Vec<usize>,
    /// Whether they were written with units.
    pub have_units: bool,
}

/// The length, in bytes, of the prefix that is examined to tell histogram logs from lists of times.
const BEGINNING: u64 = 64 << 10;

/// Reads the samples in `path`, as `file:PATH` does. Times without units are multiples of
/// `unit_ns`. The samples of a histogram log are in nanoseconds and come from a single series.
pub fn read_samples(path: &Path, unit_ns: f64) -> Result<Samples, ResolveError> {
    let unreadable = |source| TextError::Unreadable { path: path.to_owned(), source };
    if path.is_dir() {
        return Err(ResolveError::Folder { path: path.to_owned(), files: files_of_times(path) });
    }
    // Open the file once, because a pipe cannot be read again.
    let mut file = File::open(path).map_err(unreadable)?;
    let mut beginning = Vec::new();
    (&mut file).take(BEGINNING).read_to_end(&mut beginning).map_err(unreadable)?;
    let text = String::from_utf8_lossy(&beginning);
    let is_log = histogram_log::is_log(text.trim_start_matches(BYTE_ORDER_MARK));
    let whole = Cursor::new(beginning).chain(file);
    if is_log {
        let series = read_log_series(LogReader::over(BufReader::new(whole), path))?;
        let ns = histogram_log::samples(&series.counted);
        return Ok(Samples { lines: vec![series.line; ns.len()], ns, have_units: true });
    }
    let text = text_from(whole, path)?;
    let bad = |line, content: &str, why| ResolveError::BadSample {
        path: path.to_owned(),
        line,
        text: excerpt(content),
        why,
    };
    let found = times(&text, bad)?;
    let first = found.first().map(|(_, time)| time.unit.is_some());
    let have_units = first.ok_or_else(|| ResolveError::NoSamples { path: path.to_owned() })?;
    for &(line, time) in &found {
        check(time, unit_ns).map_err(|why| bad(line, &time.to_string(), why))?;
    }
    let ns = found.iter().map(|(_, time)| time.ns(unit_ns)).collect();
    Ok(Samples { ns, lines: found.iter().map(|(line, _)| *line).collect(), have_units })
}

/// Lists the files in a directory whose extensions suggest that they contain times.
fn files_of_times(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let times = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt" || ending == "hlog"));
    let mut names: Vec<String> =
        times.map(|path| excerpt(&path.display().to_string())).take(MAX_NAMED).collect();
    names.sort();
    names
}

/// Parses times, one per line, and returns them with their lines. Either all times must have units,
/// or none of them may have one. `bad` creates an error from a line number, the line and the
/// reason.
pub(crate) fn times<E>(
    text: &str,
    bad: impl Fn(usize, &str, String) -> E,
) -> Result<Vec<(usize, Time)>, E> {
    let mut times: Vec<(usize, Time)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let time: Time =
            line.parse().map_err(|why: Malformed| bad(at + 1, line, why.to_string()))?;
        let is_mixed = |(_, first): &(usize, Time)| first.unit.is_some() != time.unit.is_some();
        if times.first().is_some_and(is_mixed) {
            return Err(bad(at + 1, line, MIXED.to_owned()));
        }
        times.push((at + 1, time));
    }
    Ok(times)
}

fn check(time: Time, unit_ns: f64) -> Result<(), String> {
    if time.number.is_sign_negative() {
        return Err("times must be 0 or more".to_owned());
    }
    if time.ns(unit_ns) > MAX_SAMPLE_NS {
        let most = MAX_SAMPLE_NS / unit_ns;
        return Err(format!(
            "times must be below 292 years, {most:.1e} without a unit; divide them all"
        ));
    }
    Ok(())
}
