//! The configuration of a leaf.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use curtail_dist::Distribution;
use curtail_kernel::duration;

use super::slow::Slowdown;
use crate::index::IndexError;
use crate::serve::BindError;

/// Maximum number of slots, which is the maximum that the kernel permits per server.
const SLOTS_MAX: u32 = curtail_kernel::Topology::MAX_GATE;

/// The configuration of a leaf.
#[derive(Debug, Clone)]
pub struct LeafConfig {
    /// The address to listen on. Port 0 selects a free port, which
    /// [`address`](crate::Server::address) returns.
    pub listen: SocketAddr,
    /// The folder of the index.
    pub index: PathBuf,
    /// The number of the shard in the index.
    pub shard: u32,
    /// The number of this replica of the shard. Replicas of the same shard have different hiccups.
    pub replica: u32,
    /// The number of queries that the leaf serves concurrently, from 1 to 65,535.
    pub slots: u32,
    /// The distribution of a query's own service time. `None` means that queries take their real
    /// time.
    pub service_time: Option<Distribution>,
    /// Hiccups, which are added to the service time.
    pub hiccup: Option<Hiccup>,
    /// Whether hiccups are drawn in strata. If so, queries whose keys end in consecutive numbers
    /// form runs of 1/p queries, and one query in each run has a hiccup. Even short measurements
    /// thus contain the expected share of hiccups. For each query, the probability of a hiccup is
    /// the same as without strata.
    pub stratified: bool,
    /// Periods in which the leaf is slower. Slow periods do not change the leaf's hiccups.
    pub slow: Option<Slowdown>,
    /// How it handles a query whose client disconnects.
    pub cancel: Cancel,
    /// Maximum number of queries that wait for a slot. Additional queries get 503.
    pub queue: u32,
    /// The seed of all random draws. Use the same seed for all leaves of a service.
    pub seed: u64,
}

/// How a leaf handles a query whose client closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// The query leaves the queue, or its slot is freed immediately. However, the real search
    /// cannot be stopped, and keeps its slot while it runs.
    Honor,
    /// The query runs to completion and keeps its slot.
    Ignore,
}

/// An occasional delay of a replica: `0.003:75ms`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hiccup {
    /// Probability per query, 0 to 1.
    pub probability: f64,
    /// Duration, in nanoseconds.
    pub duration_ns: u64,
}

/// The reason why a text is not a valid hiccup.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HiccupError {
    #[error("hiccup {0:?}: write PROBABILITY:DURATION, for instance 0.003:75ms")]
    Form(String),
    #[error("hiccup probability {0:?}: write a number from 0 to 1")]
    Probability(String),
    #[error("hiccup duration: {0}")]
    Duration(#[from] duration::ParseError),
}

impl FromStr for Hiccup {
    type Err = HiccupError;

    fn from_str(text: &str) -> Result<Self, HiccupError> {
        let (probability, length) =
            text.split_once(':').ok_or_else(|| HiccupError::Form(text.to_owned()))?;
        let parsed = probability.parse().ok().filter(|p| (0.0..=1.0).contains(p));
        let probability = parsed.ok_or_else(|| HiccupError::Probability(probability.to_owned()))?;
        Ok(Self { probability, duration_ns: duration::parse(length)? })
    }
}

/// The reason why a leaf did not start.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeafServerError {
    #[error("{slots} slots: must be 1 to {SLOTS_MAX}")]
    Slots { slots: u32 },
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("the runtime stopped while the index was opened; start the leaf again")]
    Stopped,
}

impl fmt::Display for Hiccup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.probability, duration::format(self.duration_ns))
    }
}

impl LeafConfig {
    pub(super) fn check(&self) -> Result<(), LeafServerError> {
        if self.slots == 0 || self.slots > SLOTS_MAX {
            return Err(LeafServerError::Slots { slots: self.slots });
        }
        Ok(())
    }

    /// Returns a one-line description of what is real and what is not.
    pub(super) fn announce(&self, address: SocketAddr, documents: u64) -> String {
        let Self { shard, replica, index, .. } = self;
        let mut line = format!(
            "leaf {shard}.{replica} on http://{address}: the index ({}, {documents} documents), \
             the scoring (BM25) and the sockets are real; ",
            index.display()
        );
        let mut stretched = Vec::new();
        if let Some(time) = &self.service_time {
            stretched.push(format!("service times (mean {})", Mean(time.mean())));
        }
        if let Some(Hiccup { probability, duration_ns }) = self.hiccup {
            let length = duration::format(duration_ns);
            let strata = if self.stratified { ", in strata" } else { "" };
            stretched.push(format!("hiccups ({length} with probability {probability}{strata})"));
        }
        if let Some(Slowdown { factor, period_ns }) = self.slow {
            let period = duration::format(period_ns);
            stretched.push(format!("speed ({factor} times slower for every other {period})"));
        }
        // Writing to a string cannot fail.
        let _ = match stretched.is_empty() {
            true => write!(line, "nothing is stretched"),
            false => write!(line, "waiting simulates {}", stretched.join(" and ")),
        };
        line
    }
}

/// Displays a mean, which is in nanoseconds. Some distributions have an infinite mean.
struct Mean(f64);

impl fmt::Display for Mean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_finite() {
            duration::format(self.0.round() as u64).fmt(f)
        } else {
            f.write_str("infinite")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hiccups_are_parsed() {
        let hiccup = Hiccup { probability: 0.003, duration_ns: 75_000_000 };
        assert_eq!("0.003:75ms".parse(), Ok(hiccup));
        for bad in ["", "0.1", "2:75ms", "-0.1:75ms", "NaN:75ms", "x:75ms", "0.1:75", "0.1:-75ms"] {
            let error = bad.parse::<Hiccup>().expect_err(bad).to_string();
            assert!(error.starts_with("hiccup"), "{error}");
        }
    }

    #[test]
    fn the_announcement_lists_what_is_stretched() {
        let spec = "exp:5ms".parse::<curtail_dist::Spec>().expect("a distribution");
        let mut config = LeafConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            index: "index".into(),
            shard: 2,
            replica: 1,
            slots: 1,
            service_time: Some(spec.resolve(1e6).expect("a distribution")),
            hiccup: Some(Hiccup { probability: 0.003, duration_ns: 75_000_000 }),
            stratified: false,
            slow: None,
            cancel: Cancel::Honor,
            queue: 0,
            seed: 0,
        };
        let line = config.announce(config.listen, 9);
        assert!(line.starts_with("leaf 2.1 on http://127.0.0.1:0: the index"), "{line}");
        let end = "service times (mean 5ms) and hiccups (75ms with probability 0.003)";
        assert!(line.ends_with(end), "{line}");
        (config.service_time, config.hiccup) = (None, None);
        config.slow = Some(Slowdown { factor: 3.0, period_ns: 10_000_000_000 });
        let line = config.announce(config.listen, 9);
        assert!(line.ends_with("simulates speed (3 times slower for every other 10s)"), "{line}");
        config.slow = None;
        assert!(config.announce(config.listen, 9).ends_with("nothing is stretched"));
    }
}
