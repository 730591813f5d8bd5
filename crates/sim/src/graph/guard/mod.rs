//! Overload controls from the literature, which serve as a comparison. Each process decides by
//! itself which requests to admit and which processes to call.
//!
//! The processes have the features of a modern RPC library: they propagate deadlines, skip expired
//! sub-tasks and support cancellation. Resources serve sub-tasks in the order of arrival. Each
//! control has its own file, which names its source.

mod dagor;
mod google;
mod gradient;
mod price;

use std::fmt;

use curtail_dist::Time;

/// The priorities of a request.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The priority of its workflow. A larger value is more important.
    pub business: u32,
    /// The priority of its user, 0 to 127, drawn per request. A larger value is more important.
    pub user: u32,
}

/// The overload control of one process. The default methods do nothing.
pub trait Guard: Send {
    /// Returns whether a request may enter.
    fn admit(&mut self, _now: u64, _ask: Ask) -> bool {
        true
    }

    /// Records the time for which a sub-task has waited for a resource.
    fn waited(&mut self, _now: u64, _ns: u64) {}

    /// Records that an admitted request has left after `took_ns`.
    fn left(&mut self, _now: u64, _took_ns: u64, _ok: bool) {}

    /// Returns whether a call may be sent to a process.
    fn call(&mut self, _now: u64, _to: u32, _ask: Ask) -> bool {
        true
    }

    /// Records that a call has returned with the signal of the called process. A call was accepted
    /// if that process itself neither turned it away nor let it expire in a queue.
    fn returned(&mut self, _now: u64, _to: u32, _accepted: bool, _signal: f64) {}

    /// Returns the signal that is sent with a response.
    fn signal(&mut self, _now: u64) -> f64 {
        0.0
    }
}

/// A kind of guard, and its queueing threshold if it has one, such as `dagor:40ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Google,
    Gradient,
    Dagor(u64),
    Price(u64),
}

impl Kind {
    pub(super) fn named(text: &str) -> Option<Self> {
        let (name, threshold) = match text.split_once(':') {
            Some((name, threshold)) => (name, Some(threshold_ns(threshold)?)),
            None => (text, None),
        };
        match name {
            "google" if threshold.is_none() => Some(Self::Google),
            "gradient2" if threshold.is_none() => Some(Self::Gradient),
            "dagor" => Some(Self::Dagor(threshold.unwrap_or(dagor::THRESHOLD_NS))),
            "prices" => Some(Self::Price(threshold.unwrap_or(price::THRESHOLD_NS))),
            _ => None,
        }
    }

    /// Creates the guard for one of `processes` processes.
    pub(super) fn build(self, processes: usize, seed: u64) -> Box<dyn Guard> {
        match self {
            Self::Google => Box::new(google::Throttling::new(processes, seed)),
            Self::Gradient => Box::new(gradient::Gradient2::new()),
            Self::Dagor(threshold_ns) => Box::new(dagor::Dagor::new(processes, threshold_ns)),
            Self::Price(threshold_ns) => Box::new(price::Prices::new(processes, threshold_ns)),
        }
    }
}

fn threshold_ns(text: &str) -> Option<u64> {
    let ns = text.parse::<Time>().ok()?.ns(1e9) as u64;
    (1..=60_000_000_000).contains(&ns).then_some(ns)
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, threshold_ns, usual) = match *self {
            Self::Google => ("google", 0, 0),
            Self::Gradient => ("gradient2", 0, 0),
            Self::Dagor(ns) => ("dagor", ns, dagor::THRESHOLD_NS),
            Self::Price(ns) => ("prices", ns, price::THRESHOLD_NS),
        };
        f.write_str(name)?;
        if threshold_ns == usual { Ok(()) } else { write!(f, ":{}ms", threshold_ns as f64 / 1e6) }
    }
}
