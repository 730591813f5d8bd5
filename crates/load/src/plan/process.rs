//! An arrival process in a plan that is sent: its text, or the gaps of a trace.
//!
//! A trace comes with its gaps, because its file is on the machine where the plan was made. So nothing here
//! opens a file.

use curtail_dist::arrivals::Arrivals;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Of a burst without a unit in its text; no plan has one.
const UNIT_NS: f64 = 1e6;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Process {
    Text(String),
    Trace { name: String, gaps: Vec<f64>, mean_ns: Option<f64> },
}

pub(super) fn serialize<S: Serializer>(of: &Arrivals, to: S) -> Result<S::Ok, S::Error> {
    let process = match of {
        Arrivals::Trace { path, gaps, mean_ns } => Process::Trace {
            name: path.display().to_string(),
            gaps: gaps.to_vec(),
            mean_ns: *mean_ns,
        },
        other => Process::Text(other.to_string()),
    };
    process.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arrivals, D::Error> {
    match Process::deserialize(from)? {
        Process::Text(text) if text.starts_with("trace") => {
            Err(D::Error::custom(format!("arrivals `{text}`: the gaps of a trace are missing")))
        }
        Process::Text(text) => Arrivals::parse(&text, UNIT_NS).map_err(D::Error::custom),
        Process::Trace { name, gaps, mean_ns } => {
            let time = |gap: &f64| gap.is_finite() && *gap >= 0.0;
            // With no time in it a schedule would never get anywhere.
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            if gaps.iter().all(time) && mean >= 0.5 {
                return Ok(Arrivals::Trace { path: name.into(), gaps: gaps.into(), mean_ns });
            }
            Err(D::Error::custom(format!("trace {name}: its gaps have no mean of 1")))
        }
    }
}
