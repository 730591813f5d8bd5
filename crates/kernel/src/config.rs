//! The configuration of a cell: its servers, groups and limits.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::id::ServerId;
use crate::time::NEVER_NS;
use crate::tuning::Tuning;

/// A server of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Number of queries that it serves at the same time, 1 to [`Topology::MAX_GATE`].
    pub slots: u32,
}

/// The servers of a cell and the groups that they serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The servers, indexed by [`ServerId`].
    pub servers: Vec<Server>,
    /// The servers of each group, indexed by [`crate::GroupId`].
    pub groups: Vec<Vec<ServerId>>,
}

impl Topology {
    /// The largest number of copies that any gate may let a server hold.
    pub const MAX_GATE: u32 = 65_535;

    /// Returns one group of `replicas` servers with `slots` slots each.
    #[must_use]
    pub fn replicated(replicas: u32, slots: u32) -> Self {
        Self {
            servers: vec![Server { slots }; replicas as usize],
            groups: vec![(0..replicas).map(ServerId).collect()],
        }
    }

    /// Checks that the topology is valid.
    ///
    /// # Errors
    /// A group is empty, contains a server twice, or contains a server that does not exist; a
    /// number of slots is out of range; or there is no group or no server.
    pub fn check(&self) -> Result<(), ConfigError> {
        let fail = |text| Err(ConfigError(text));
        if self.groups.is_empty() || self.servers.is_empty() {
            return fail(String::from("a cell needs at least one server and one group"));
        }
        let most = Self::MAX_GATE;
        for (at, Server { slots }) in self.servers.iter().enumerate() {
            if !(1..=most).contains(slots) {
                return fail(format!("server {at} has {slots} slots; use 1 to {most}"));
            }
        }
        for (at, group) in self.groups.iter().enumerate() {
            if group.is_empty() {
                return fail(format!("group {at} has no servers; add at least one"));
            }
            let mut seen = vec![false; self.servers.len()];
            for &ServerId(id) in group {
                let why = match seen.get_mut(id as usize) {
                    None => "which does not exist",
                    Some(true) => "twice",
                    Some(seen) => {
                        *seen = true;
                        continue;
                    }
                };
                return fail(format!("group {at} contains server {id}, {why}"));
            }
        }
        Ok(())
    }
}

/// The number of copies that a server may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// [`Limits::max_outstanding`]: push.
    Outstanding,
    /// As many copies as the server has slots (pull). Queries wait in the cell.
    Slots,
    /// This number of copies, which is at least the server's number of slots. This is a pull policy
    /// in which some queries wait at the server (JBSQ).
    Bound(u32),
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outstanding => f.write_str("max_outstanding"),
            Self::Slots => f.write_str("psq"),
            Self::Bound(n) => write!(f, "bounded:{n}"),
        }
    }
}

/// The limits of a cell, fixed when it is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Number of copies that a push policy lets a server hold, 1 to [`Topology::MAX_GATE`].
    pub max_outstanding: u32,
    /// Number of queries that may wait per group. Further queries are shed.
    pub queue: u32,
    /// Time from the arrival of a query to its deadline, in ns.
    pub timeout_ns: u64,
    /// Time without a response after which a copy counts as failed, in ns.
    pub attempt_timeout_ns: u64,
    /// Duration of silence after which a cancelled copy counts as lost, in ns.
    pub cancel_timeout_ns: u64,
    /// Whether servers can stop a copy. The kernel does not check whether they can.
    pub cancel: bool,
    /// Maximum number of retries per query.
    pub retries: u8,
    /// Number of retries that each arrival adds to the budget: 0.1 allows one retry per ten
    /// queries.
    pub retry_budget: f64,
    /// Maximum number of retries that the budget can accumulate. It starts full.
    pub retry_reserve: u32,
    /// Number of duplicates that each arrival adds to the budget, 0 to 1. At 1 there is no limit.
    pub hedge_budget: f64,
    /// Maximum number of duplicates that the budget can accumulate. It starts full.
    pub hedge_burst: u32,
    /// The maximum fraction of queries that may be rescued without success, 0 to 1.
    pub rescue_budget: f64,
    /// Number of consecutive failures after which a server is ejected. 0 disables this kind of
    /// ejection.
    pub eject_after: u32,
    /// Number of consecutive refusals after which a server is ejected. 0 disables this kind of
    /// ejection. A server that refuses some of its requests is overloaded rather than broken, and
    /// each good response restarts the count.
    pub eject_after_refusals: u32,
    /// The longest pause that a server can request when it refuses work, in ns.
    pub retry_after_max_ns: u64,
    /// The fraction of a group's servers that may be ejected, 0 to 1. At least one server of each
    /// group stays up.
    pub max_ejected: f64,
    /// Minimum duration of a server's first ejection, in ns. It doubles with each ejection that
    /// follows soon after the previous one.
    pub ejection_ns: u64,
    /// Upper bound of the minimum duration of an ejection, in ns.
    pub ejection_max_ns: u64,
    /// Parameters of the policies that adapt to feedback.
    pub tuning: Tuning,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_outstanding: 128,
            queue: 1024,
            timeout_ns: NEVER_NS,
            attempt_timeout_ns: NEVER_NS,
            cancel_timeout_ns: NEVER_NS,
            cancel: false,
            retries: 1,
            retry_budget: 0.1,
            retry_reserve: 128,
            hedge_budget: 0.2,
            hedge_burst: 32,
            rescue_budget: 0.05,
            eject_after: 5,
            eject_after_refusals: 20,
            retry_after_max_ns: 5_000_000_000,
            max_ejected: 0.5,
            ejection_ns: 1_000_000_000,
            ejection_max_ns: 60_000_000_000,
            tuning: Tuning::default(),
        }
    }
}

impl Limits {
    /// Checks that the limits are valid.
    ///
    /// # Errors
    /// `max_outstanding` is out of range, a fraction is not a number from 0 to 1, or a tuning
    /// parameter is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (gate, most) = (self.max_outstanding, Topology::MAX_GATE);
        if !(1..=most).contains(&gate) {
            return Err(ConfigError(format!("max_outstanding is {gate}; use 1 to {most}")));
        }
        let shares = [
            ("retry_budget", self.retry_budget),
            ("hedge_budget", self.hedge_budget),
            ("rescue_budget", self.rescue_budget),
            ("max_ejected", self.max_ejected),
        ];
        for (name, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                let why = format!("{name} is {share}; use a fraction from 0 to 1");
                return Err(ConfigError(why));
            }
        }
        self.tuning.check().map_err(ConfigError)
    }
}

/// The cell for which a pick or a hedge is built.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// Its servers and groups.
    pub topology: &'a Topology,
    /// Its limits.
    pub limits: &'a Limits,
    /// The number of copies that its servers may hold.
    pub gate: Gate,
}

/// The reason why a cell cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for ConfigError {}
