//! Measured times, passed as numbers or as a file.

use std::path::PathBuf;

use curtail_dist::{MAX_SAMPLE_NS, read_samples};
use curtail_kernel::duration::{UNITS, Unit};
use curtail_queueing::fit::{By, FitError, Report};
use curtail_sim::UNIT_NS;
use curtail_sim::advise::{Measured, Times};
use pyo3::prelude::*;

use crate::ask::bad;

/// Samples as the caller passed them.
#[derive(FromPyObject)]
pub(crate) enum Given {
    /// Numbers, with their unit.
    Numbers(Vec<f64>, Option<String>),
    /// The path of a file.
    File(PathBuf),
}

/// Samples in nanoseconds.
struct Read {
    name: String,
    ns: Vec<f64>,
    /// The line number of each sample in the file. This is empty if the samples were passed as
    /// numbers.
    lines: Vec<usize>,
    have_units: bool,
}

impl Given {
    fn read(self) -> PyResult<Read> {
        match self {
            Self::File(path) => {
                let read = read_samples(&path, UNIT_NS as f64).map_err(bad)?;
                let name = path.display().to_string();
                Ok(Read { name, ns: read.ns, lines: read.lines, have_units: read.have_units })
            }
            Self::Numbers(numbers, unit) => {
                let unit_ns = unit.as_deref().map(parse).transpose()?;
                let scale = unit_ns.unwrap_or(UNIT_NS) as f64;
                let ns: Vec<f64> = numbers.iter().map(|number| number * scale).collect();
                let usable = |ns: &f64| (0.0..=MAX_SAMPLE_NS).contains(ns);
                if let Some(at) = ns.iter().position(|ns| !usable(ns)) {
                    let number = numbers[at];
                    return Err(bad(format_args!(
                        "sample {at} is {number}; times must be at least 0 and below 292 years"
                    )));
                }
                let have_units = unit_ns.is_some();
                Ok(Read { name: "samples".to_owned(), ns, lines: Vec::new(), have_units })
            }
        }
    }

    /// Returns the times for advice. A path may also be an output folder of `curtail jitter`.
    pub(crate) fn times(self) -> PyResult<Times> {
        if let Self::File(path) = &self {
            return Times::read(path).map_err(bad);
        }
        let Read { name, ns, have_units, .. } = self.read()?;
        Ok(Times::Measured(Measured { name, ns, have_units }))
    }

    /// Reports how well distributions fit the samples.
    pub(crate) fn report(self, by: By) -> PyResult<Report> {
        let Read { name, ns, lines, have_units } = self.read()?;
        let times = ns.iter().map(|ns| ns / UNIT_NS as f64).collect();
        Report::new(times, have_units, by).map_err(|error| match error {
            FitError::BadSample { index, .. }
            | FitError::BadUnit { index, .. }
            | FitError::ManyZeros { index } => match lines.get(index) {
                Some(line) => bad(format_args!("{name}:{line}: {error}")),
                None => bad(error),
            },
            _ => bad(format_args!("{name}: {error}")),
        })
    }
}

fn parse(unit: &str) -> PyResult<u64> {
    let parsed = Unit::parse(unit).map(Unit::ns);
    parsed.ok_or_else(|| bad(format_args!("unit is {unit:?}; give it one of {UNITS}")))
}
