//! Samples in a file: one time per line, `#` starts a comment; or a log of histograms.

use std::path::Path;

use crate::distribution::MAX_SAMPLE_NS;
use crate::error::ResolveError;
use crate::histogram_log;
use crate::quantity::{Malformed, Time};
use crate::text::{excerpt, read_text};

pub(crate) const MIXED: &str = "some lines have units and some have none; give all a unit or none";

/// The samples of a file, in its order.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Their lengths in nanoseconds; at least one.
    pub ns: Vec<f64>,
    /// The lines that they stand on, counted from 1; in a log of histograms the first one.
    pub lines: Vec<usize>,
    /// Whether they were written with units.
    pub have_units: bool,
}

/// Reads the samples in `path`, as `file:PATH` does; without units they are multiples of `unit_ns`.
/// Those in a log of HdrHistogram are nanoseconds.
pub fn read_samples(path: &Path, unit_ns: f64) -> Result<Samples, ResolveError> {
    let text = read_text(path)?;
    if histogram_log::is_log(&text) {
        let (ns, line) = histogram_log::read(path, &text)?;
        return Ok(Samples { lines: vec![line; ns.len()], ns, have_units: true });
    }
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

/// The times in a text, one per line, each with its line; all with units, or none. `bad` makes an error of a line, what it says and what is wrong with it.
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
        return Err("times are 0 or more".to_owned());
    }
    if time.ns(unit_ns) > MAX_SAMPLE_NS {
        let most = MAX_SAMPLE_NS / unit_ns;
        return Err(format!(
            "times are below 292 years, {most:.1e} without a unit; divide them all"
        ));
    }
    Ok(())
}
