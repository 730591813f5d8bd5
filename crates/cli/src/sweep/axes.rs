//! Reads the axes of a grid from a file and from flags.

use std::collections::BTreeMap;

use curtail_sim::sweep::{Axis, Error};

use crate::exit::Stop;
use crate::sim::args::Varied;

/// The axes of a grid.
pub(super) struct Axes {
    pub(super) axes: Vec<Axis>,
    pub(super) places: Places,
}

/// The place of each key in the file, for error messages.
pub(super) struct Places(BTreeMap<String, String>);

impl Places {
    /// Formats an error about a grid with its place in the file.
    pub(super) fn describe(&self, error: &Error) -> String {
        match error.key().and_then(|key| self.0.get(key)) {
            Some(place) => format!("{place}: {error}"),
            None => error.to_string(),
        }
    }
}

/// Returns the axes of the file, in the order of the file, followed by those that only flags
/// define. A flag overrides the axis of the same name.
pub(super) fn all(written: &[Varied], flags: &[String]) -> Result<Axes, Stop> {
    let mut flagged = flags.iter().map(|flag| of_flag(flag)).collect::<Result<Vec<_>, _>>()?;
    let mut axes = Vec::with_capacity(written.len() + flagged.len());
    let mut places = BTreeMap::new();
    for Varied { key, values, place } in written {
        if let Some(at) = flagged.iter().position(|axis| axis.key() == key) {
            axes.push(flagged.remove(at));
            continue;
        }
        axes.push(values.axis(key).map_err(|why| bad(format_args!("{place}: {why}")))?);
        places.insert(key.clone(), place.clone());
    }
    axes.append(&mut flagged);
    Ok(Axes { axes, places: Places(places) })
}

fn of_flag(flag: &str) -> Result<Axis, Stop> {
    let Some((key, values)) = flag.split_once('=') else {
        return Err(bad(format_args!(
            "--grid {flag}: write KEY=VALUES, such as utilization=0.1,0.2"
        )));
    };
    Axis::parse(key.trim(), values.trim()).map_err(bad)
}

fn bad(why: impl std::fmt::Display) -> Stop {
    Stop::BadInput(why.to_string())
}
