//! The result of a measurement. It consists of windows, each with the moments and histograms of the
//! stages.
//!
//! Kernel stamps and traces are both converted to a profile. Rankings, comparisons, pages and JSON
//! are derived from it.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::moments::Moments;

/// The maximum number of windows. When a profile exceeds it, each pair of neighboring windows is
/// merged.
pub const WINDOWS_MAX: usize = 256;
/// The maximum number of slow requests that are kept as whole requests. The same limit applies to
/// random requests.
pub const WHOLE_MAX: usize = 4_096;

/// A profile of a server, or of a set of traces.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// A short description of the profiled server or traces.
    pub target: String,
    /// The start of the profile in nanoseconds, on CLOCK_MONOTONIC for servers, and since the Unix
    /// epoch for traces. All other times are relative to it.
    pub begin_ns: u64,
    /// The stages, in the order in which requests pass them.
    pub stages: Vec<String>,
    /// The additional values of each request that may explain its durations.
    pub evidence: Vec<Evidence>,
    /// The windows in order of time. None of them is empty.
    pub windows: Vec<Window>,
    /// The slowest requests.
    pub slow: Vec<Whole>,
    /// Randomly chosen requests.
    pub sampled: Vec<Whole>,
    /// The cost of the measurement. `None` for traces.
    pub cost: Option<Cost>,
    /// The data that the measurement missed, by reason. Empty if nothing was missed.
    pub lost: Vec<Lost>,
    /// The machine's counters for the target during the profile.
    pub machine: Option<curtail_machine::Counters>,
    /// The results that exist only for traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<Traced>,
}

/// Reasons and uncertainties that spans reveal in addition to their times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Traced {
    /// Reasons why stages vary.
    pub reasons: Vec<Reason>,
    /// Self time that may belong to another stage.
    pub uncertain: Vec<UncertainTime>,
    /// The differences between clocks, the largest one first.
    pub clocks: Vec<Skew>,
    /// The stages' shares of the variance, computed without correcting the clocks. Empty if no
    /// clock was corrected.
    pub uncorrected: Vec<f64>,
}

/// The reason why a stage's duration varies, from traces. It contains the index of the stage, the
/// share of its variance that the reason explains, the attribute or the caller, and a
/// human-readable description.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of the fields document them")]
pub struct Reason {
    pub stage: usize,
    pub kind: Evidence,
    pub explains: f64,
    pub of: String,
    pub text: String,
}

/// The reason why a stage's self time may belong to another stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "`text` documents the variants")]
pub enum Uncertainty {
    Early,
    Outlives,
    Backward,
    Orphans,
    MissingCallee,
}

impl Uncertainty {
    /// Whether the ranking may depend on this uncertainty.
    #[must_use]
    pub fn is_open(self) -> bool {
        self != Uncertainty::Outlives
    }

    /// Returns a human-readable description.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Uncertainty::Early => "a child begins before its parent",
            Uncertainty::Outlives => "a child outlives its parent, which did not wait for it",
            Uncertainty::Backward => "a child ends before it begins",
            Uncertainty::Orphans => "spans whose parents are missing ran at the same time",
            Uncertainty::MissingCallee => "the server's span of the call is missing",
        }
    }
}

/// Self time of a stage that may belong to another stage: its average over all requests, and an
/// upper bound on its share of the total's variance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of the fields document them")]
pub struct UncertainTime {
    pub stage: usize,
    pub why: Uncertainty,
    pub spans: u64,
    pub mean_ns: f64,
    pub variance_share: f64,
}

/// The difference between the clocks of two hosts: the callee's clock is ahead by `ahead_ns`, give
/// or take `within_ns`, estimated from `calls` calls. If no single difference fits nearly all
/// calls, `is_steady` is false and each call is corrected separately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of the fields document them")]
pub struct Skew {
    pub caller: String,
    pub callee: String,
    pub ahead_ns: i64,
    pub within_ns: u64,
    pub calls: u64,
    pub is_steady: bool,
}

/// An additional value of each request that may explain its durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The time from *data ready* until the sleeping thread ran, in nanoseconds.
    Wakeup,
    /// The time for which the thread was runnable but did not run, in nanoseconds.
    RunQueue,
    /// The time for which the thread slept after it had read the request, in nanoseconds.
    Blocked,
    /// Whether the thread ran on a different processor from the one that received the packet: 1 if
    /// so, otherwise 0.
    Remote,
    /// The number of earlier requests in the same read.
    Batch,
    /// The number of calls of the stage per request.
    Calls,
    /// The value of an attribute of the stage's spans.
    Attribute,
    /// The queueing time of the stage's spans, from an attribute.
    Queue,
}

/// The requests that ended during a time interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The start, in nanoseconds since the start of the profile.
    pub start_ns: u64,
    /// The length, in nanoseconds.
    pub length_ns: u64,
    /// The moments of the stages, the evidence, and the total, in this order.
    pub moments: Moments,
    /// The histograms of the stages and the total.
    pub histograms: Vec<Histogram>,
}

/// A single request with all its values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Whole {
    /// The start, in nanoseconds since the start of the profile.
    pub start_ns: u64,
    /// The duration of each stage, in nanoseconds.
    pub stages_ns: Vec<u64>,
    /// The evidence, in the order of [`Profile::evidence`].
    pub evidence: Vec<u64>,
}

/// The overhead of the measurement on the target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Processor time per stamped request, in nanoseconds.
    pub ns_per_request: f64,
    /// The average cost over all requests, stamped or not, as a share of the median request time.
    pub share: f64,
    /// The number N, where one in N time slices was stamped.
    pub one_in: u32,
}

/// The share of a server's time slices that are stamped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    /// One in N slices is stamped. 1 stands for all slices.
    OneIn(u32),
    /// The share of slices is as large as possible while the cost stays below this share of the
    /// median request time.
    Share(f64),
}

/// A kind of data that the measurement missed, and its count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// A short description.
    pub reason: String,
    /// The number of occurrences.
    pub count: u64,
}

impl Traced {
    /// Returns all texts that contain names from spans.
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
    /// Appends a later window.
    pub fn merge(&mut self, later: &Window) {
        self.length_ns = self.length_ns.saturating_add(later.length_ns);
        self.moments.merge(&later.moments);
        let pairs = self.histograms.iter_mut().zip(&later.histograms);
        pairs.for_each(|(to, from)| to.merge(from));
    }
}

impl Profile {
    /// Returns the number of values per request: stages, evidence, and the total.
    #[must_use]
    pub fn values(&self) -> usize {
        self.stages.len() + self.evidence.len() + 1
    }

    /// Returns the index of the total among the values.
    #[must_use]
    pub fn total(&self) -> usize {
        self.values() - 1
    }

    /// Returns the index of a kind of evidence among the values.
    #[must_use]
    pub fn value_of(&self, evidence: Evidence) -> Option<usize> {
        let at = self.evidence.iter().position(|&of| of == evidence)?;
        Some(self.stages.len() + at)
    }

    /// Creates an empty window.
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

    /// Merges all windows into one.
    #[must_use]
    pub fn whole(&self) -> Window {
        let mut whole = self.window(self.windows.first().map_or(0, |first| first.start_ns), 0);
        self.windows.iter().for_each(|window| whole.merge(window));
        whole
    }

    /// Returns the number of stamped requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.windows.iter().map(|window| window.moments.requests()).sum()
    }

    /// Validates a profile that was read from a file.
    ///
    /// # Errors
    ///
    /// If its parts are inconsistent. The error names the part.
    pub fn check(&self) -> Result<(), String> {
        if self.stages.is_empty() {
            return Err("it has no stages".to_owned());
        }
        for (at, window) in self.windows.iter().enumerate() {
            let fits = window.moments.is_of(self.values())
                && window.histograms.len() == self.stages.len() + 1;
            // The bound keeps sums over windows from overflowing.
            let counts = window.histograms.iter().map(Histogram::count);
            let large = counts.chain([window.moments.requests()]).any(|count| count >> 48 > 0);
            if !fits || window.moments.requests() == 0 || large {
                return Err(format!("windows[{at}] does not fit its {} stages", self.stages.len()));
            }
        }
        if !self.traces.as_ref().is_none_or(|traces| traces.fits(self.stages.len())) {
            return Err("the data about traces does not fit its stages".to_owned());
        }
        let wholes = self.slow.iter().chain(&self.sampled);
        let fits = |whole: &Whole| {
            whole.stages_ns.len() == self.stages.len()
                && whole.evidence.len() == self.evidence.len()
        };
        match wholes.clone().all(fits) && self.windows.len() <= WINDOWS_MAX {
            true => Ok(()),
            false => {
                Err("a whole request does not have the profile's stages, or there are too many \
                     windows"
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
