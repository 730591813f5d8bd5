//! Plays scripted scenarios, and logs the decisions that a cell makes in them.
//!
//! A [`Script`] defines when queries arrive, how long each of their copies takes, when servers go
//! down and come up, and when clients leave. Nothing is random except the cell's choices among
//! ties, which depend on its seed. [`play`] plays a script in virtual time and returns the log of
//! all events and actions of the cell. Other drivers of cells can play it with [`Script::cell`],
//! and must produce the same log.
//!
//! ```
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
//!     learned: None,
//!     steps: vec![Step { at_ns: 0, what: query }],
//! };
//! let log: Vec<String> = play(&script)?.iter().map(|entry| entry.to_string()).collect();
//! assert!(log[4].ends_with("5.000000 ms  -> answer q0 by c1"), "its second copy has no hiccup");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Order of simultaneous events
//!
//! 1. Copies end, server by server and slot by slot.
//! 2. The cell receives a tick if its deadline has passed.
//! 3. The next step of the script happens. Simultaneous steps happen in the order of the script.
//!
//! The immediate effects of an event (copies that start or stop) happen in the order of the cell's
//! actions, before any other copy ends. A server starts a copy in its first free slot. If no slot
//! is free, the copy waits in a first-come, first-served queue.

mod record;

use curtail_kernel::hedge::Snapshot;
use curtail_kernel::{Limits, NEVER_NS, Policy, Scheduler, Topology, rng};

pub use crate::part::RESPONSE_BYTES;
pub use record::{Entry, Log, Note, Recorder};

use crate::error::{Error, wrong};
use crate::shard::Shard;

/// Limit on the times of steps and copies, so that the clock can represent the sum of all times.
const MOST_NS: u64 = 1 << 60;

/// A scenario for one cell whose servers all serve one group.
#[derive(Clone, Debug)]
pub struct Script {
    /// The policy of the cell.
    pub policy: Policy,
    /// The number of servers.
    pub servers: u32,
    /// The number of queries that a server executes simultaneously.
    pub slots: u32,
    /// The limits of the cell.
    pub limits: Limits,
    /// The seed of the cell, for its choices among ties.
    pub seed: u64,
    /// What the cell's service has learned before, for a policy that learns.
    pub learned: Option<Snapshot>,
    /// The steps in order of time. Simultaneous steps happen in this order.
    pub steps: Vec<Step>,
}

/// A step of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time in ns since the beginning.
    pub at_ns: u64,
    /// The event.
    pub what: What,
}

/// The event of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A query arrives.
    Arrive {
        /// The P of the query, which its copies share.
        service_ns: u64,
        /// The J of its first and second copies. Further copies have no jitter.
        jitter_ns: [u64; 2],
    },
    /// The client of a query leaves. Queries are numbered in order of arrival, from 0. Nothing
    /// happens if the query already has a response.
    Leave(u32),
    /// A server can be used again.
    Up(u32),
    /// The probes of a server fail, although it works.
    Unhealthy(u32),
    /// A server begins to drain, so it receives no new copies.
    Drain(u32),
    /// A server fails. The server's copies are lost, and the cell receives the event immediately.
    Down(u32),
}

impl Script {
    /// Returns the cell of the script. It records its events and actions.
    pub fn cell(&self) -> Result<Recorder, Error> {
        let topology = Topology::replicated(self.servers, self.slots);
        let cell = self.policy.build(&topology, self.limits, rng(self.seed));
        let mut cell = cell.map_err(|error| self.unfit(&error.to_string()))?;
        if let Some(learned) = &self.learned {
            cell.adopt(learned);
        }
        Ok(Recorder::new(cell))
    }

    fn unfit(&self, why: &str) -> Error {
        Error::Unfit { policy: self.policy.to_string(), why: why.to_owned() }
    }

    /// Returns the number of queries.
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
            return Err(self.unfit("a simulated server is never silent; remove the cancel timeout"));
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
                    let allowed = "a query that has arrived; none has";
                    return Err(wrong("a step", "leave", allowed));
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
    Err(wrong(name, value.to_string(), allowed))
}

/// Plays a script in virtual time until its last copy has ended.
pub fn play(script: &Script) -> Result<Vec<Entry>, Error> {
    script.check()?;
    let cell = script.cell()?;
    let log = cell.log();
    Shard::scripted(script, cell).play(script);
    Ok(log.take())
}
