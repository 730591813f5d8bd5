//! Cicero: what one process of a service lets in, of every workflow, so that neither it nor anything downstream is
//! overloaded; sans I/O.
//!
//! Source: document 002 §5.2. A *workflow* is a tenant or a class of requests; a *resource* is what sub-tasks hold for
//! a time (threads, connections, a disk). Every interval ([`Config::interval_ns`]) a process
//!
//! 1. reduces what the instances of each downstream service announced to one rate per workflow ([`downstream`]),
//! 2. finds what its own resources bear ([`share`]),
//! 3. admits at most the smaller of both ([`limiter`]) and announces it to its callers, each its part ([`upstream`]).
//!
//! So rates bubble up, and what cannot be served is turned away where it enters. Inside, sub-tasks are scheduled by
//! what their requests still need ([`crate::schedule`]).
//!
//! # The methods of a [`Process`], by class
//!
//! - *requests*: [`Process::arrive`], [`Process::release`] until it is none, [`Process::withdraw`],
//!   [`Process::completed`];
//! - *resources*: [`Process::subtask`], [`Process::schedule`] until it is none, [`Process::done`],
//!   [`Process::give_back`], [`Process::purge`];
//! - *calls*: [`Process::called`], [`Process::returned`], [`Process::announced`], [`Process::wants`];
//! - *callers*: [`Process::arrived_from`], [`Process::wanted`], [`Process::announce`], [`Process::forget_caller`];
//! - *time*: [`Process::next_deadline`], when to call [`Process::tick`] at the latest.
//!
//! ```
//! use curtail_kernel::Timestamp;
//! use curtail_kernel::flow::{Admission, Config, Process, RequestId, ResourceId, ResourceSpec, Workflow, WorkflowId};
//! use curtail_kernel::schedule::Standing;
//! use curtail_kernel::stage::JobId;
//! use curtail_kernel::flow::Turn;
//!
//! let disk = ResourceSpec { slots: 1, queue: 100 };
//! let mut process = Process::new(Config::default(), &[Workflow::default()], &[disk]);
//! let (now, read, disk) = (Timestamp(0), WorkflowId(0), ResourceId(0));
//! assert_eq!(process.arrive(now, RequestId(0), read, Timestamp::NEVER), Admission::Admitted);
//! process.subtask(now, disk, JobId(0), read, &Standing::default(), None).expect("there is room");
//! assert_eq!(process.schedule(now, disk), Some(Turn::Starts(JobId(0))));
//! assert_eq!(process.done(Timestamp(5), disk, JobId(0)), Some(5));
//! process.completed(Timestamp(5), read, 5);
//! ```
//!
//! Deviations from the source, each with its reason where it is made: what callers claim is bounded by what they send
//! ([`upstream`]); α is measured per instance ([`downstream`]);
//! loads count what waits, new rates come from the cost of a request, and a process that is no leaf returns to the
//! downstream rate step by step ([`share`]); rates of silent instances are inferred ([`downstream`]); cycles are broken
//! ([`Via`]); those that wait for admission keep a margin ([`Config::margin`]), and sub-tasks that cannot be in time
//! leave the queues of resources ([`Config::expiry`]).
//!
//! Cost: O(log n) per request and sub-task, O(workflows) per request that waited for admission; per interval
//! O(workflows · (resources + instances), sorted): `cargo xtask accept flow --line layers`.
//! Memory: O(workflows · (resources + instances + callers)), and what waits, which is bounded.

pub mod downstream;
pub mod limiter;
mod meter;
mod process;
mod resource;
pub mod share;
pub mod upstream;
mod via;

pub use downstream::Announcement;
pub use limiter::{Admission, Drop};
pub use process::{Process, View};
pub use resource::{ResourceSpec, Turn};
pub use share::Sharing;
pub use via::Via;

pub use crate::schedule::{Progress, Spent, Totals};

use crate::schedule::Discipline;

/// A request at a process: a dense index that the caller chooses, unique among those that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u32);

/// A workflow: a dense index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkflowId(pub u32);

/// A resource of the process: a dense index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResourceId(pub u32);

/// A process of a downstream service: a dense index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstanceId(pub u32);

/// A process that calls this one: a dense index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallerId(pub u32);

/// What operators say of a workflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workflow {
    /// Its part of a resource that is short, relative to others; above 0.
    pub weight: f64,
    /// So many requests per second it gets in any case, while it asks for them; 0 for none.
    pub guarantee: f64,
    /// At most so many requests per second.
    pub limit: f64,
    /// Under strict priority: larger ones come first.
    pub priority: u32,
}

impl Default for Workflow {
    fn default() -> Self {
        Self { weight: 1.0, guarantee: 0.0, limit: f64::INFINITY, priority: 0 }
    }
}

/// The parameters of a process. The source leaves all but the interval and the quantile open; how much depends on
/// them is printed by `cargo xtask accept flow`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Whether rates are limited at all.
    pub rate_control: bool,
    /// Whether requests that cannot meet their deadline any more are dropped.
    pub drops_late: bool,
    /// A sub-task whose turn comes is turned away, too, if it is late, or if others wait and less time is left than so
    /// many times what such sub-tasks take; below 0, never: the source drops requests at admission only.
    pub expiry: f64,
    /// What orders the sub-tasks of a workflow at a resource.
    pub discipline: Discipline,
    /// Whether workflows take turns at a resource, by deficit round robin.
    pub is_fair: bool,
    /// How a resource that is short is shared.
    pub sharing: Sharing,
    /// Rates change so often, in ns (Algorithm 3: 100 ms).
    pub interval_ns: u64,
    /// q, 0 to 1: which of the rates of a service's instances counts (§5.3.5: 0.5).
    pub quantile: f64,
    /// β: a rate that could be higher rises by this part of itself per interval.
    pub probe: f64,
    /// And by this part of what its share of the spare capacity is worth.
    pub spare_gain: f64,
    /// The utilization of a resource that counts as full, above 0, up to 1.
    pub target: f64,
    /// What waits at a resource is to be worked off in this time, in ns.
    pub drain_ns: u64,
    /// What is left per interval of the weight of an observation of rates and costs.
    pub decay: f64,
    /// The same of calls and sub-tasks per request, which change with code and not with load.
    pub slow_decay: f64,
    /// Costs are averages over so many sub-tasks at least.
    pub memory: f64,
    /// A process with callers that keep to its rates lets in by this part more than it announces: a limiter behind a
    /// limiter of the same rate would only make a queue.
    pub slack: f64,
    /// Where requests enter, those that wait for admission keep a margin of so many mean deviations of latency.
    pub margin: f64,
    /// No rate falls below this, per second: a workflow whose requests all fail is heard of again.
    pub least_rate: f64,
    /// An instance that has announced nothing for so long is silent, in ns.
    pub stale_ns: u64,
    /// So many requests of a workflow wait for admission at most.
    pub queue: u32,
}

impl Config {
    /// The parameters where nothing is said.
    pub const DEFAULT: Self = Self {
        rate_control: true,
        drops_late: true,
        expiry: 1.0,
        discipline: Discipline::Fifo,
        is_fair: true,
        sharing: Sharing::Bottleneck,
        interval_ns: 100_000_000,
        quantile: 0.5,
        probe: 0.02,
        spare_gain: 0.5,
        target: 0.95,
        drain_ns: 500_000_000,
        decay: 0.8,
        slow_decay: 0.95,
        memory: 100.0,
        slack: 0.2,
        margin: 4.0,
        least_rate: 1.0,
        stale_ns: 1_000_000_000,
        queue: 1_000,
    };

    /// The names of the parameters that [`Self::set`] knows.
    pub const NAMES: [&str; 13] = [
        "interval",
        "quantile",
        "probe",
        "spare-gain",
        "target",
        "drain",
        "decay",
        "slow-decay",
        "least-rate",
        "memory",
        "slack",
        "margin",
        "expiry",
    ];

    /// Sets a parameter by its name; times are in seconds.
    ///
    /// # Errors
    /// What would be right: a known name, or the range of its values.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), &'static str> {
        let ns = (value * 1e9) as u64;
        let part = (0.0..=1.0).contains(&value);
        match name {
            "interval" if (0.001..=10.0).contains(&value) => self.interval_ns = ns,
            "interval" => return Err("interval is 0.001 to 10 s"),
            "drain" if (0.001..=60.0).contains(&value) => self.drain_ns = ns,
            "drain" => return Err("drain is 0.001 to 60 s"),
            "least-rate" if value > 0.0 && value <= 1e6 => self.least_rate = value,
            "least-rate" => return Err("least-rate is above 0, up to 1000000 per second"),
            "memory" if (1.0..=1e6).contains(&value) => self.memory = value,
            "memory" => return Err("memory is 1 to 1000000 sub-tasks"),
            "margin" if (0.0..=100.0).contains(&value) => self.margin = value,
            "margin" => return Err("margin is 0 to 100 deviations"),
            "expiry" if (-1.0..=100.0).contains(&value) => self.expiry = value,
            "expiry" => return Err("expiry is -1 to 100 times the cost of a sub-task"),
            "slack" if part => self.slack = value,
            "quantile" if part => self.quantile = value,
            "probe" if part => self.probe = value,
            "spare-gain" if part => self.spare_gain = value,
            "target" if part && value > 0.0 => self.target = value,
            "decay" if part && value < 1.0 => self.decay = value,
            "slow-decay" if part && value < 1.0 => self.slow_decay = value,
            "slack" | "quantile" | "probe" | "spare-gain" | "target" | "decay" | "slow-decay" => {
                return Err("it is between 0 and 1");
            }
            _ => {
                return Err("write interval, quantile, probe, spare-gain, target, drain, decay, \
                            slow-decay, memory, slack, margin, expiry or least-rate");
            }
        }
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}
