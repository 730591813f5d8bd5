//! The decisions of Curtail, sans I/O.
//!
//! A [`Cell`] is a set of servers and the replica groups (shards) that they serve. It is a pure
//! state machine: events and the time go in, actions come out. It owns no clock, socket, thread or
//! ambient randomness. So the simulator drives it with virtual time, the proxy with real time, and
//! both run the same code.
//!
//! # The one invariant
//!
//! **Feed one event, take every action, then feed the next.**
//!
//! ```
//! use curtail_kernel::{Action, Arrive, Event, GroupId, Limits, Outcome, Policy, QueryId};
//! use curtail_kernel::{Timestamp, Topology, rng};
//!
//! let topology = Topology::replicated(2, 1); // one group of two servers with one slot each
//! let mut cell = Policy::PSQ.build(&topology, Limits::default(), rng(42))?;
//!
//! let query = QueryId(0); // dense, chosen by the caller, free again when the query has ended
//! let arrive = Event::Arrive(Arrive::new(query, GroupId(0)));
//! let &[Action::Start { copy, .. }] = cell.handle(Timestamp(0), &arrive) else {
//!     panic!("an idle server takes it")
//! };
//!
//! let good = Event::Finished { copy, outcome: Outcome::Good };
//! let actions = cell.handle(Timestamp(1_000_000), &good);
//! assert_eq!(actions, [Action::Answer { query, copy }]);
//! # Ok::<(), curtail_kernel::ConfigError>(())
//! ```
//!
//! # The methods of a cell, by class
//!
//! - *events*: [`Scheduler::handle`], the only method that returns actions;
//! - *time*: [`Scheduler::next_deadline`], the latest time at which to send [`Event::Tick`];
//! - *learning*: [`Scheduler::publish`] and [`Scheduler::adopt`], once per epoch;
//! - *getters*: [`Scheduler::core`] and the getters of [`Core`].
//!
//! # The parts of a policy
//!
//! A policy is a *gate* ([`Topology`] and [`Policy`]: how many copies a server may hold), a *pick*
//! ([`balance::Pick`]: which server takes a copy) and a *hedge* ([`hedge::Hedge`]: when a query
//! gets further copies, and when a copy is given up). [`Policy`] names the combinations.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod action;
pub mod balance;
mod cell;
mod config;
mod descriptor;
pub mod duration;
mod event;
pub mod flow;
mod heap;
pub mod hedge;
mod id;
mod levels;
mod math;
mod order;
mod outcome;
mod policy;
pub mod rate;
pub mod research;
pub mod schedule;
mod servers;
pub mod stage;
pub mod time;
mod tuning;

pub use action::{Action, EjectReason, FailReason, Role, ShedReason, StartReason, StopReason};
pub use cell::{Cell, CopyView, Core, Inline, Parts, Scheduler};
pub use config::{ConfigError, Gate, Limits, Server, Site, Topology};
pub use descriptor::{Arguments, Compiled, Conduct, Descriptor, Needs, Part};
pub use event::{Arrive, Event, Feedback, Probed};
pub use heap::Heaps;
pub use id::{CopyId, GroupId, QueryId, ServerId};
pub use levels::Levels;
pub use order::Avoid;
pub use outcome::{Fault, GRPC_CODES, Outcome, OutcomeTable, STATUSES};
pub use policy::{Catalog, Driver, Misfit, Policy, PolicyError, Settings};
pub use servers::ServerView;
pub use time::{NEVER_NS, Timestamp};
pub use tuning::Tuning;

/// The traits of [`Rng`], for picks and hedges that draw random numbers.
pub use rand_core;

/// The random number generator of a cell, passed in at construction. Its seed determines how every
/// tie is broken.
pub type Rng = rand_pcg::Pcg64Mcg;

/// Creates a generator from a seed.
#[must_use]
pub fn rng(seed: u64) -> Rng {
    use rand_core::SeedableRng;
    Rng::seed_from_u64(seed)
}
