//! Scenarios that are written down step by step, and what a cell decides in them.
//!
//! A [`Script`] says when queries arrive, how long each of their copies takes, when servers go and
//! come and when clients leave; nothing in it is drawn but the ties of the cell, from its seed.
//! [`play`] plays it in virtual time and returns the log of all that the cell heard and decided.
//! Anything else that drives cells can play it as well, over [`Script::cell`], and must then come to
//! the same log.
//!
//! ```
//! use curtail_kernel::hedge::Snapshot;
//! use curtail_kernel::{Limits, Policy};
//! use curtail_sim::script::{Script, Step, What, play};
//!
//! const MS: u64 = 1_000_000;
//! let query = What::Arrive { service_ns: 5 * MS, jitter_ns: [20 * MS, 0] };
//! let script = Script {
//!     policy: Policy::parse("laedge", None)?,
//!     servers: 2,
//!     slots: 1,
//!     limits: Limits::default(),
//!     seed: 1,
//!     learned: Snapshot::NOTHING,
//!     steps: vec![Step { at_ns: 0, what: query }],
//! };
//! let log: Vec<String> = play(&script)?.iter().map(|entry| entry.to_string()).collect();
//! assert!(log[4].ends_with("5.000000 ms  -> answer q0 by c1"), "its second copy has no hiccup");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What comes first
//!
//! What happens at the same time happens in this order, one thing after the other:
//!
//! 1. copies end, by place: server by server, and slot by slot of a server;
//! 2. the cell is woken, if it wished for it;
//! 3. the next step of the script happens; steps of one time come as they are written.
//!
//! What an event brings about at once (copies start, copies stop) is done before anything else ends,
//! in the order in which the cell decided it. A server that has a free slot takes a copy into the
//! first one; else the copy waits there, first come, first served.

mod record;

use curtail_kernel::hedge::Snapshot;
use curtail_kernel::{Limits, NEVER_NS, Policy, Scheduler, Topology, rng};

pub use record::{Entry, Log, Note, Recorder};

use crate::error::Error;
use crate::shard::Shard;

/// No step comes later and nothing takes longer, so that the sum of all times fits a clock.
const MOST_NS: u64 = 1 << 60;

/// A scenario, step by step, for one cell whose servers all serve one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Of the cell.
    pub policy: Policy,
    /// How many servers there are.
    pub servers: u32,
    /// Queries that a server executes at once.
    pub slots: u32,
    /// Of the cell.
    pub limits: Limits,
    /// Of the cell: decides its ties.
    pub seed: u64,
    /// What the cell's service has learned before, with a policy that learns.
    pub learned: Snapshot,
    /// In order of time; those of one time happen as written.
    pub steps: Vec<Step>,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, in ns from the beginning.
    pub at_ns: u64,
    /// What.
    pub what: What,
}

/// What happens in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A query arrives.
    Arrive {
        /// P: what its copies share.
        service_ns: u64,
        /// J: of its first copy and of its second; further ones have none.
        jitter_ns: [u64; 2],
    },
    /// The client of a query leaves; of the query with this number, in order of arrival from 0.
    /// Nothing happens if it has its answer.
    Leave(u32),
    /// A server can be used again.
    Up(u32),
    /// The probes of a server fail, though it works.
    Unhealthy(u32),
    /// A server gets no new copies.
    Drain(u32),
    /// A server fails: its copies are lost, and the cell knows at once.
    Down(u32),
}

impl Script {
    /// The cell of the script, and the log of what it will hear and decide.
    pub fn cell(&self) -> Result<(Box<dyn Scheduler>, Log), Error> {
        let topology = Topology::replicated(self.servers, self.slots);
        let cell = self.policy.build(&topology, self.limits, rng(self.seed));
        let mut cell = cell.map_err(|error| self.unfit(&error.to_string()))?;
        cell.adopt(&self.learned);
        let (recorder, log) = Recorder::new(cell);
        Ok((Box::new(recorder), log))
    }

    fn unfit(&self, why: &str) -> Error {
        Error::Unfit { policy: self.policy.to_string(), why: why.to_owned() }
    }

    /// How many queries arrive.
    pub fn queries(&self) -> usize {
        let arrives = |step: &&Step| matches!(step.what, What::Arrive { .. });
        self.steps.iter().filter(arrives).count()
    }

    /// Checks that the script can be played, in the simulator and elsewhere.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(why) = self.policy.simulator_only() {
            return Err(self.unfit(why));
        }
        if self.limits.cancel_timeout_ns != NEVER_NS {
            return Err(self.unfit("a simulated server is never silent; use no cancel time-out"));
        }
        for (name, value) in [("servers", self.servers), ("slots", self.slots)] {
            within(name, value.into(), 1, 1_024)?;
        }
        let (mut before, mut arrived) = (0, 0);
        for step in &self.steps {
            within("the time of a step, in ns,", step.at_ns, before, MOST_NS)?;
            before = step.at_ns;
            match step.what {
                What::Arrive { service_ns, jitter_ns: [first, second] } => {
                    for ns in [service_ns, first, second] {
                        within("the time of a copy, in ns,", ns, 0, MOST_NS)?;
                    }
                    arrived += 1;
                }
                What::Leave(_) if arrived == 0 => {
                    let allowed = "a query to leave; none has arrived".to_owned();
                    return Err(Error::OutOfRange {
                        name: "a step",
                        value: "leave".into(),
                        allowed,
                    });
                }
                What::Leave(query) => within("a query that leaves", query.into(), 0, arrived - 1)?,
                What::Up(server)
                | What::Unhealthy(server)
                | What::Drain(server)
                | What::Down(server) => {
                    within("a server", server.into(), 0, u64::from(self.servers) - 1)?;
                }
            }
        }
        Ok(())
    }
}

fn within(name: &'static str, value: u64, least: u64, most: u64) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let allowed = format!("a number from {least} to {most}");
    Err(Error::OutOfRange { name, value: value.to_string(), allowed })
}

/// Plays a script in virtual time, to the end of its last copy.
pub fn play(script: &Script) -> Result<Vec<Entry>, Error> {
    script.check()?;
    let (cell, log) = script.cell()?;
    Shard::scripted(script, cell).play(script);
    Ok(log.take())
}
