//! How a leaf is set up.

use std::fmt::{self, Write as _};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use curtail_dist::Distribution;
use curtail_kernel::duration;

use super::slow::Slowdown;
use crate::index::IndexError;

/// The most slots of a leaf: what a kernel lets a server have.
const SLOTS_MAX: u32 = curtail_kernel::Topology::MAX_GATE;

/// How a leaf is set up.
#[derive(Debug, Clone)]
pub struct LeafConfig {
    /// Where it listens. Port 0 takes a free one; [`address`](super::LeafServer::address) tells.
    pub listen: SocketAddr,
    /// The folder of the index.
    pub index: PathBuf,
    /// Which shard of it.
    pub shard: u32,
    /// Which replica of the shard this is. Replicas differ in their hiccups.
    pub replica: u32,
    /// How many queries it serves at once, 1 to 65,535.
    pub slots: u32,
    /// What a query's own service time is drawn from. None: it takes as long as it takes.
    pub service_time: Option<Distribution>,
    /// What it is hit by now and then, on top.
    pub hiccup: Option<Hiccup>,
    /// Draws hiccups in strata: of every 1/p queries whose keys end in consecutive numbers, one has a
    /// hiccup. So runs of few queries have their share; each query has one as often as before.
    pub stratified: bool,
    /// When it is slower than that, in all but its hiccups.
    pub slow: Option<Slowdown>,
    /// What it does with a query whose client goes away.
    pub cancel: Cancel,
    /// How many queries may wait for a slot; further ones get 503.
    pub queue: u32,
    /// Decides all draws. Give all leaves of a service the same.
    pub seed: u64,
}

/// What a leaf does with a query whose client closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// The query leaves the queue, or its slot is free at once. Only the real search cannot be
    /// stopped; where it is under way, the slot is free when it ends.
    Honor,
    /// The query runs to its end and holds its slot.
    Ignore,
}

/// A delay that hits a replica now and then: `0.003:75ms`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hiccup {
    /// Per query, 0 to 1.
    pub probability: f64,
    /// How long it lasts, in nanoseconds.
    pub duration_ns: u64,
}

/// Why a text is not a hiccup.
#[allow(missing_docs, reason = "the messages say it")]
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

/// Why a leaf does not start.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeafServerError {
    #[error("{slots} slots: give a leaf 1 to {SLOTS_MAX}")]
    Slots { slots: u32 },
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("cannot listen on {address}: {source}; use another address, or port 0 for a free one")]
    Bind { address: SocketAddr, source: io::Error },
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

    /// One line that says what is real and what is not.
    pub(super) fn announce(&self, address: SocketAddr, documents: u64) -> String {
        let Self { shard, replica, index, .. } = self;
        let mut line = format!(
            "leaf {shard}.{replica} on http://{address}: real are the index ({}, {documents} \
             documents), the scoring (BM25) and the sockets; ",
            index.display()
        );
        let mut stretched = Vec::new();
        if let Some(time) = &self.service_time {
            stretched.push(format!("service times ({} in the mean)", Mean(time.mean())));
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
            false => write!(line, "stretched by waiting are {}", stretched.join(" and ")),
        };
        line
    }
}

/// A mean in nanoseconds, which some distributions do not have.
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
    fn the_announcement_says_what_is_stretched() {
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
        assert!(line.starts_with("leaf 2.1 on http://127.0.0.1:0: real are the index"), "{line}");
        let end = "service times (5ms in the mean) and hiccups (75ms with probability 0.003)";
        assert!(line.ends_with(end), "{line}");
        (config.service_time, config.hiccup) = (None, None);
        config.slow = Some(Slowdown { factor: 3.0, period_ns: 10_000_000_000 });
        let line = config.announce(config.listen, 9);
        assert!(line.ends_with("are speed (3 times slower for every other 10s)"), "{line}");
        config.slow = None;
        assert!(config.announce(config.listen, 9).ends_with("nothing is stretched"));
    }
}
