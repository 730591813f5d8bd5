//! What others do about overload, to compare with: each process decides by itself whom it lets in and whom it calls.
//!
//! They get what a modern RPC library gives: deadlines that propagate, expired sub-tasks that are not served, and
//! cancellation. Resources are first come, first served. One file each, with its source.

mod dagor;
mod google;
mod gradient;
mod price;

use std::fmt;

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

    /// A call has come back, with what its process signals.
    fn returned(&mut self, _now: u64, _to: u32, _ok: bool, _signal: f64) {}

    /// What goes with a response.
    fn signal(&mut self, _now: u64) -> f64 {
        0.0
    }
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Google,
    Gradient,
    Dagor,
    Price,
}

impl Kind {
    pub(super) const ALL: [(Self, &'static str); 4] = [
        (Self::Google, "google"),
        (Self::Gradient, "gradient2"),
        (Self::Dagor, "dagor"),
        (Self::Price, "prices"),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|&(kind, _)| kind)
    }

    /// For one process of so many.
    pub(super) fn build(self, processes: usize, seed: u64) -> Box<dyn Guard> {
        match self {
            Self::Google => Box::new(google::Throttling::new(processes, seed)),
            Self::Gradient => Box::new(gradient::Gradient2::new()),
            Self::Dagor => Box::new(dagor::Dagor::new(processes)),
            Self::Price => Box::new(price::Prices::new(processes)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(kind, _)| kind == self).map_or("", |&(_, name)| name);
        f.write_str(name)
    }
}
