//! What a cell is built from: its servers and groups, and its limits.

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
    /// How many queries it serves at once, 1 to [`Topology::MAX_GATE`].
    pub slots: u32,
}

/// The servers of a cell and the groups that they serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The servers; a [`ServerId`] is an index here.
    pub servers: Vec<Server>,
    /// The servers of each group; a [`crate::GroupId`] is an index here.
    pub groups: Vec<Vec<ServerId>>,
}

impl Topology {
    /// The largest number of copies that any gate may let a server hold.
    pub const MAX_GATE: u32 = 65_535;

    /// One group of `replicas` servers with `slots` slots each.
    #[must_use]
    pub fn replicated(replicas: u32, slots: u32) -> Self {
        Self {
            servers: vec![Server { slots }; replicas as usize],
            groups: vec![(0..replicas).map(ServerId).collect()],
        }
    }

    /// Checks that the topology makes sense.
    ///
    /// # Errors
    /// A group without servers, with a server twice or with one that does not exist; slots out of
    /// range; no group or no server at all.
    pub fn check(&self) -> Result<(), ConfigError> {
        let fail = |text| Err(ConfigError(text));
        if self.groups.is_empty() || self.servers.is_empty() {
            return fail(String::from("a cell needs at least one server and one group"));
        }
        let most = Self::MAX_GATE;
        for (at, Server { slots }) in self.servers.iter().enumerate() {
            if !(1..=most).contains(slots) {
                return fail(format!("server {at} has {slots} slots; give it 1 to {most}"));
            }
        }
        for (at, group) in self.groups.iter().enumerate() {
            if group.is_empty() {
                return fail(format!("group {at} has no servers; give it at least one"));
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
                return fail(format!("group {at} names server {id}, {why}"));
            }
        }
        Ok(())
    }
}

/// The bounds of a cell, fixed when it is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Copies that a push policy lets a server hold, 1 to [`Topology::MAX_GATE`].
    pub max_outstanding: u32,
    /// Queries that may wait per group; beyond it they are shed.
    pub queue: u32,
    /// From arrival to the end of anybody's interest, in ns.
    pub timeout_ns: u64,
    /// A copy without a response for so long has failed, in ns.
    pub attempt_timeout_ns: u64,
    /// A cancelled copy that stays silent for so long is lost, in ns.
    pub cancel_timeout_ns: u64,
    /// Can a server stop a copy? The kernel believes this.
    pub cancel: bool,
    /// Retries per query.
    pub retries: u8,
    /// Retries that each arrival pays for: 0.1 allows one retry per ten queries.
    pub retry_budget: f64,
    /// Retries that may be saved up, and are there at the start.
    pub retry_reserve: u32,
    /// Duplicates that each arrival pays for, 0 to 1; 1 is no limit.
    pub hedge_budget: f64,
    /// Duplicates that may be saved up, and are there at the start.
    pub hedge_burst: u32,
    /// The share of queries that may be rescued in vain, 0 to 1.
    pub rescue_budget: f64,
    /// Failures in a row that eject a server; 0 never does.
    pub eject_after: u32,
    /// Refusals in a row that eject a server; 0 never does. A server that refuses a part of its requests is overloaded
    /// rather than broken, and its good responses end the row.
    pub eject_after_refusals: u32,
    /// The longest pause that a server gets for which it asks when it refuses work, in ns.
    pub retry_after_max_ns: u64,
    /// The share of a group's servers that may be ejected, 0 to 1; at least one stays.
    pub max_ejected: f64,
    /// The least time of a first ejection, in ns; doubled for each one that follows soon.
    pub ejection_ns: u64,
    /// The longest least time of an ejection, in ns.
    pub ejection_max_ns: u64,
    /// Of the policies that adapt to feedback.
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
    /// Checks that the limits make sense.
    ///
    /// # Errors
    /// `max_outstanding` out of range, or a share that is no number from 0 to 1.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (gate, most) = (self.max_outstanding, Topology::MAX_GATE);
        if !(1..=most).contains(&gate) {
            return Err(ConfigError(format!("max_outstanding is {gate}; give it 1 to {most}")));
        }
        let shares = [
            ("retry_budget", self.retry_budget),
            ("hedge_budget", self.hedge_budget),
            ("rescue_budget", self.rescue_budget),
            ("max_ejected", self.max_ejected),
        ];
        for (name, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                let why = format!("{name} is {share}; give it a fraction from 0 to 1");
                return Err(ConfigError(why));
            }
        }
        self.tuning.check().map_err(ConfigError)
    }
}

/// A cell that cannot be built, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for ConfigError {}
