//! What was measured: windows of requests, each with moments and histograms of the stages.
//!
//! Kernel stamps and traces both end up here, and everything that people and programs see is derived from it:
//! ranking, comparison, pages, JSON.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::moments::Moments;

/// At most this many windows are kept; as a run grows, pairs of them merge.
pub const WINDOWS_MAX: usize = 256;
/// At most this many whole requests are kept of each kind: slow ones, and random ones.
pub const WHOLE_MAX: usize = 4_096;

/// A profile of a server, or of a set of traces.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// What was profiled, in a few words.
    pub target: String,
    /// When it began, in nanoseconds of CLOCK_MONOTONIC; that of traces, since 1970. All other times count from here.
    pub begin_ns: u64,
    /// The stages, in the order in which requests pass them.
    pub stages: Vec<String>,
    /// What may explain their durations: further values per request.
    pub evidence: Vec<Evidence>,
    /// In order of time, none empty.
    pub windows: Vec<Window>,
    /// The slowest requests, whole.
    pub slow: Vec<Whole>,
    /// Requests chosen at random, whole.
    pub sampled: Vec<Whole>,
    /// What measuring cost; none for traces.
    pub cost: Option<Cost>,
    /// What was not seen, by reason; empty if all was.
    pub lost: Vec<Lost>,
    /// What the machine did to the target meanwhile.
    pub machine: Option<curtail_jitter::machine::Counters>,
    /// What is about traces only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<Traced>,
}

/// What spans of traces show beyond their times, and how far these can be trusted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Traced {
    /// Why stages vary.
    pub reasons: Vec<Reason>,
    /// Where self time may be another stage's.
    pub uncertain: Vec<UncertainTime>,
    /// Clocks that are apart, the farthest first.
    pub clocks: Vec<Skew>,
    /// The stages' shares of the variance as they would be if clocks had not been corrected; empty if none was.
    pub uncorrected: Vec<f64>,
}

/// Why a stage of traces varies: its place, the part of its variance that this explains, the attribute or the caller, and the
/// same for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "fields are what their names say")]
pub struct Reason {
    pub stage: usize,
    pub kind: Evidence,
    pub explains: f64,
    pub of: String,
    pub text: String,
}

/// Why a stage's self time may be another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "`text` says what they are")]
pub enum Uncertainty {
    Early,
    Outlives,
    Backward,
    Orphans,
    MissingCallee,
}

impl Uncertainty {
    /// If the ranking may depend on it.
    #[must_use]
    pub fn is_open(self) -> bool {
        self != Uncertainty::Outlives
    }

    /// The same in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Uncertainty::Early => "a child begins before its parent",
            Uncertainty::Outlives => {
                "a child goes on after its parent, which did not wait for that"
            }
            Uncertainty::Backward => "a child ends before it begins",
            Uncertainty::Orphans => "spans whose parents are missing ran meanwhile",
            Uncertainty::MissingCallee => "the server's span of the call is missing",
        }
    }
}

/// Self time of a stage that may be another's: on average over all requests, and as a share of the total's variance, at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "fields are what their names say")]
pub struct UncertainTime {
    pub stage: usize,
    pub why: Uncertainty,
    pub spans: u64,
    pub mean_ns: f64,
    pub variance_share: f64,
}

/// By how much the clock of a callee's host is ahead of its caller's, within which bounds, from how many calls. If one
/// value does not suit the calls, each is corrected by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "fields are what their names say")]
pub struct Skew {
    pub caller: String,
    pub callee: String,
    pub ahead_ns: i64,
    pub within_ns: u64,
    pub calls: u64,
    pub is_steady: bool,
}

/// A further value of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Nanoseconds from *data ready* until the thread that slept ran.
    Wakeup,
    /// Nanoseconds that the thread was runnable and did not run.
    RunQueue,
    /// Nanoseconds that the thread slept after it had read the request.
    Blocked,
    /// 1 if the thread ran on another processor than the one that took the packet.
    Remote,
    /// How many requests of the same read went before it.
    Batch,
    /// How many calls of the stage a request made.
    Calls,
    /// The value of an attribute of the stage's spans.
    Attribute,
    /// How long the stage's spans queued, by an attribute.
    Queue,
}

/// Requests that ended in a span of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// When it began, in nanoseconds from the profile's begin.
    pub start_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// Of the stages, the evidence, and the total, in this order.
    pub moments: Moments,
    /// Of the stages, and the total.
    pub histograms: Vec<Histogram>,
}

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Whole {
    /// When it began, in nanoseconds from the profile's begin.
    pub start_ns: u64,
    /// Per stage, in nanoseconds.
    pub stages_ns: Vec<u64>,
    /// In the order of the profile's.
    pub evidence: Vec<u64>,
}

/// What measuring cost the target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Nanoseconds of processor time per stamped request.
    pub ns_per_request: f64,
    /// Over all requests, as a share of the median of their total.
    pub share: f64,
    /// One in so many slices of time was stamped.
    pub one_in: u32,
}

/// Why something was not seen, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// A few words.
    pub reason: String,
    /// How many.
    pub count: u64,
}

impl Traced {
    /// Everything in it that spans named.
    pub fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let whys = self.reasons.iter_mut().flat_map(|of| [&mut of.of, &mut of.text]);
        let hosts = self.clocks.iter_mut().flat_map(|of| [&mut of.caller, &mut of.callee]);
        whys.chain(hosts)
    }

    fn fits(&self, stages: usize) -> bool {
        let of_reasons = self.reasons.iter().map(|of| of.stage);
        let mut places = of_reasons.chain(self.uncertain.iter().map(|of| of.stage));
        places.all(|at| at < stages) && [0, stages].contains(&self.uncorrected.len())
    }
}

impl Window {
    /// Adds a later window.
    pub fn merge(&mut self, later: &Window) {
        self.length_ns = self.length_ns.saturating_add(later.length_ns);
        self.moments.merge(&later.moments);
        let pairs = self.histograms.iter_mut().zip(&later.histograms);
        pairs.for_each(|(to, from)| to.merge(from));
    }
}

impl Profile {
    /// The number of values per request: stages, evidence, and the total.
    #[must_use]
    pub fn values(&self) -> usize {
        self.stages.len() + self.evidence.len() + 1
    }

    /// Where the total is among the values.
    #[must_use]
    pub fn total(&self) -> usize {
        self.values() - 1
    }

    /// Where this evidence is among the values.
    #[must_use]
    pub fn value_of(&self, evidence: Evidence) -> Option<usize> {
        let at = self.evidence.iter().position(|&of| of == evidence)?;
        Some(self.stages.len() + at)
    }

    /// An empty window at this time.
    #[must_use]
    pub fn window(&self, start_ns: u64, length_ns: u64) -> Window {
        Window {
            start_ns,
            length_ns,
            moments: Moments::new(self.values()),
            histograms: vec![Histogram::default(); self.stages.len() + 1],
        }
    }

    /// Adds a window, unless it is empty.
    pub fn push(&mut self, window: Window) {
        if window.moments.requests() == 0 {
            return;
        }
        self.windows.push(window);
        if self.windows.len() > WINDOWS_MAX {
            let merged = self.windows.chunks(2).map(|pair| {
                let mut first = pair[0].clone();
                pair[1..].iter().for_each(|later| first.merge(later));
                first
            });
            self.windows = merged.collect();
        }
    }

    /// All windows in one.
    #[must_use]
    pub fn whole(&self) -> Window {
        let mut whole = self.window(self.windows.first().map_or(0, |first| first.start_ns), 0);
        self.windows.iter().for_each(|window| whole.merge(window));
        whole
    }

    /// The number of requests that were stamped.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.windows.iter().map(|window| window.moments.requests()).sum()
    }

    /// What is wrong with a profile that came from a file.
    ///
    /// # Errors
    ///
    /// Says which part does not fit the others.
    pub fn check(&self) -> Result<(), String> {
        if self.stages.is_empty() {
            return Err("it has no stages".to_owned());
        }
        for (at, window) in self.windows.iter().enumerate() {
            let fits = window.moments.is_of(self.values())
                && window.histograms.len() == self.stages.len() + 1;
            // The bound keeps sums over windows from overflow.
            let counts = window.histograms.iter().map(Histogram::count);
            let large = counts.chain([window.moments.requests()]).any(|count| count >> 48 > 0);
            if !fits || window.moments.requests() == 0 || large {
                return Err(format!("windows[{at}] does not fit its {} stages", self.stages.len()));
            }
        }
        if !self.traces.as_ref().is_none_or(|traces| traces.fits(self.stages.len())) {
            return Err("what is about traces does not fit its stages".to_owned());
        }
        let wholes = self.slow.iter().chain(&self.sampled);
        let fits = |whole: &Whole| {
            whole.stages_ns.len() == self.stages.len()
                && whole.evidence.len() == self.evidence.len()
        };
        match wholes.clone().all(fits) && self.windows.len() <= WINDOWS_MAX {
            true => Ok(()),
            false => {
                Err("a whole request has not the profile's stages, or windows are too many"
                    .to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let stages = ["read", "write"].map(str::to_owned).to_vec();
        Profile { stages, evidence: vec![Evidence::Batch], ..Profile::default() }
    }

    #[test]
    fn windows_are_bounded_and_lose_nothing() {
        let mut profile = profile();
        for at in 0..1_000 {
            let mut window = profile.window(at * 10, 10);
            window.moments.record(&[1.0, at as f64, 0.0, 1.0 + at as f64]);
            window.histograms[2].record(1 + at);
            profile.push(window);
        }
        profile.push(profile.window(10_000, 10));
        assert!(profile.windows.len() <= WINDOWS_MAX);
        let whole = profile.whole();
        assert_eq!((profile.requests(), whole.length_ns), (1_000, 10_000));
        assert_eq!(whole.histograms[2].count(), 1_000);
        assert!((whole.moments.variance(1) - 83_333.25).abs() < 1e-6);
        let text = serde_json::to_string(&profile).expect("json");
        let read: Profile = serde_json::from_str(&text).expect("ours");
        assert_eq!(read.check(), Ok(()));
        assert_eq!(read.requests(), 1_000);
    }

    #[test]
    fn profiles_that_do_not_fit_are_refused() {
        assert!(Profile::default().check().is_err());
        let mut profile = profile();
        let mut window = profile.window(0, 1);
        window.moments.record(&[1.0; 4]);
        profile.push(window);
        profile.stages.push("third".to_owned());
        assert_eq!(profile.check(), Err("windows[0] does not fit its 3 stages".to_owned()));
    }
}
