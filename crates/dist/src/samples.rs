//! Samples in a file: one time per line, `#` starts a comment.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::distribution::MAX_SAMPLE_NS;
use crate::error::ResolveError;
use crate::quantity::{self, Malformed, Time};

/// The largest file of samples that is read, in bytes: room for several million samples.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// How much of a bad line an error repeats.
const SHOWN_CHARS: usize = 40;

/// The samples of a file, in nanoseconds, and whether they were written with units.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) ns: Vec<f64>,
    pub(crate) have_units: bool,
}

/// Reads the samples in `path`; without units they are multiples of `unit_ns`.
pub(crate) fn load(path: &Path, unit_ns: f64) -> Result<Samples, ResolveError> {
    let text = read_bounded(path)?;
    let mut ns = Vec::new();
    let mut have_units = None;
    for (i, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let bad = |why| ResolveError::BadSample {
            path: path.to_owned(),
            line: i + 1,
            text: content.chars().take(SHOWN_CHARS).collect(),
            why,
        };
        let time = sample(content, unit_ns).map_err(bad)?;
        if *have_units.get_or_insert(time.unit.is_some()) != time.unit.is_some() {
            return Err(bad("some lines have units and some have none; give all a unit or none"));
        }
        ns.push(time.ns(unit_ns));
    }
    match have_units {
        Some(have_units) => Ok(Samples { ns, have_units }),
        None => Err(ResolveError::NoSamples { path: path.to_owned() }),
    }
}

fn sample(text: &str, unit_ns: f64) -> Result<Time, &'static str> {
    let time = quantity::parse(text).map_err(|malformed| match malformed {
        Malformed::Number => "write a decimal number, with a unit or without",
        Malformed::Unit => "its unit is unknown; use ns, us, µs, ms, s, min or h",
    })?;
    if time.number.is_sign_negative() {
        return Err("times are 0 or more");
    }
    if time.ns(unit_ns) > MAX_SAMPLE_NS {
        return Err("times are below 292 years");
    }
    Ok(time)
}

fn read_bounded(path: &Path) -> Result<String, ResolveError> {
    let unreadable = |source: io::Error| ResolveError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than allowed, to tell a full file from one that goes on.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ResolveError::FileTooLarge { path: path.to_owned() });
    }
    String::from_utf8(bytes)
        .map_err(|_| unreadable(io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text")))
}
