//! Samples in a file: one time per line, `#` starts a comment; or a log of histograms.

use std::path::Path;

use crate::distribution::MAX_SAMPLE_NS;
use crate::error::ResolveError;
use crate::histogram_log;
use crate::quantity::{Malformed, Time};
use crate::text::{excerpt, read_text};

const MIXED: &str = "some lines have units and some have none; give all a unit or none";

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
    let (mut ns, mut lines) = (Vec::new(), Vec::new());
    let mut have_units = None;
    for (i, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let bad = |why| ResolveError::BadSample {
            path: path.to_owned(),
            line: i + 1,
            text: excerpt(content),
            why,
        };
        let time = sample(content, unit_ns).map_err(bad)?;
        if *have_units.get_or_insert(time.unit.is_some()) != time.unit.is_some() {
            return Err(bad(MIXED.to_owned()));
        }
        ns.push(time.ns(unit_ns));
        lines.push(i + 1);
    }
    match have_units {
        Some(have_units) => Ok(Samples { ns, lines, have_units }),
        None => Err(ResolveError::NoSamples { path: path.to_owned() }),
    }
}

fn sample(text: &str, unit_ns: f64) -> Result<Time, String> {
    let time: Time = text.parse().map_err(|malformed: Malformed| malformed.to_string())?;
    if time.number.is_sign_negative() {
        return Err("times are 0 or more".to_owned());
    }
    if time.ns(unit_ns) > MAX_SAMPLE_NS {
        let most = MAX_SAMPLE_NS / unit_ns;
        return Err(format!(
            "times are below 292 years, {most:.1e} without a unit; divide them all"
        ));
    }
    Ok(time)
}
