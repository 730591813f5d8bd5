//! What others do about overload, to compare with: each process decides by itself whom it lets in and whom it calls.
//!
//! They get what a modern RPC library gives: deadlines that propagate, expired sub-tasks that are not served, and
//! cancellation. Resources are first come, first served. One file each, with its source.

mod dagor;
mod google;
mod gradient;
mod price;

use std::fmt;

use curtail_dist::Time;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Of its workflow; larger is more important.
    pub business: u32,
    /// Of its user, 0 to 127, drawn per request; larger is more important.
    pub user: u32,
}

/// What a process does about overload. By default, nothing.
pub trait Guard: Send {
    /// May a request enter?
    fn admit(&mut self, _now: u64, _ask: Ask) -> bool {
        true
    }

    /// A sub-task has waited so long for a resource.
    fn waited(&mut self, _now: u64, _ns: u64) {}

    /// A request that was admitted has left, after so long.
    fn left(&mut self, _now: u64, _took_ns: u64, _ok: bool) {}

    /// May a call be sent to a process?
    fn call(&mut self, _now: u64, _to: u32, _ask: Ask) -> bool {
        true
    }

    /// A call has come back, with what its process signals. It was accepted if that process itself neither turned it
    /// away nor let it expire in a queue.
    fn returned(&mut self, _now: u64, _to: u32, _accepted: bool, _signal: f64) {}

    /// What goes with a response.
    fn signal(&mut self, _now: u64) -> f64 {
        0.0
    }
}

/// One of them, with its threshold of queueing where it has one: `dagor:40ms`.
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

    /// For one process of so many.
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
