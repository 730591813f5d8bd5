//! Cicero: limits the rate at which a process admits each workflow, so that neither the process nor
//! anything downstream is overloaded. Sans I/O.
//!
//! Source: document 002 §5.2. A *workflow* is a tenant or a class of requests; a *resource* is
//! something that sub-tasks hold for some time (threads, connections, a disk). In every interval
//! ([`Config::interval_ns`]), a process
//!
//! 1. takes the rates announced by the instances of each downstream service, and reduces them to
//!    one rate per workflow ([`downstream`]),
//! 2. computes the rates that its own resources can sustain ([`share`]),
//! 3. admits requests at no more than the lower of the two rates ([`limiter`]), and announces a
//!    part of that rate to each of its callers ([`upstream`]).
//!
//! So the rates propagate upstream, and requests that cannot be served are rejected at the entry.
//! Inside a process, sub-tasks are scheduled by the remaining work of their requests
//! ([`crate::schedule`]).
//!
//! # The methods of a [`Process`], by class
//!
//! - *requests*: [`Process::arrive`], [`Process::release`] until it returns `None`,
//!   [`Process::withdraw`], [`Process::completed`];
//! - *resources*: [`Process::subtask`], [`Process::schedule`] until it returns `None`,
//!   [`Process::done`], [`Process::give_back`], [`Process::purge`];
//! - *calls*: [`Process::called`], [`Process::returned`], [`Process::announced`],
//!   [`Process::wants`];
//! - *callers*: [`Process::arrived_from`], [`Process::wanted`], [`Process::announce`],
//!   [`Process::forget_caller`];
//! - *time*: [`Process::next_deadline`], the latest time at which to call [`Process::tick`].
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
//! Deviations from the source, each with its reason at the link: The claims of callers are bounded
//! by their traffic ([`upstream`]). α is measured per instance ([`downstream`]). Loads include
//! waiting work, new rates are computed from the cost of a request, and a process that is not a
//! leaf returns to the downstream rate step by step ([`share`]). The rates of silent instances are
//! inferred ([`downstream`]). Cycles are broken ([`Via`]). Requests that wait for admission keep a
//! margin ([`Config::margin`]). Sub-tasks that cannot meet their deadline leave the queues of
//! resources ([`Config::expiry`]).
//!
//! Cost: O(log n) per request and sub-task, O(workflows) per request that waited for admission; per
//! interval, O(workflows · (resources + instances)) and a sort (`cargo xtask accept flow --line
//! layers`). Memory: O(workflows · (resources + instances + callers)), plus the waiting requests
//! and sub-tasks, which are bounded.

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

/// A request at a process: a dense index that the caller chooses, unique among the requests at the
/// process.
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

/// The operator's settings for a workflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workflow {
    /// Its share of a contended resource, relative to other workflows. Above 0.
    pub weight: f64,
    /// The rate that the workflow is guaranteed if it needs that much, in requests per second. 0 if
    /// there is no guarantee.
    pub guarantee: f64,
    /// The highest rate, in requests per second.
    pub limit: f64,
    /// The workflow's priority under [`Discipline::Strict`]. Larger values come first.
    pub priority: u32,
}

impl Default for Workflow {
    fn default() -> Self {
        Self { weight: 1.0, guarantee: 0.0, limit: f64::INFINITY, priority: 0 }
    }
}

/// The parameters of a process. The source specifies only the interval and the quantile. `cargo
/// xtask accept flow` prints how much the results depend on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Whether rates are limited.
    pub rate_control: bool,
    /// Whether requests that can no longer meet their deadline are dropped.
    pub drops_late: bool,
    /// When the turn of a sub-task comes, the sub-task is dropped if it is late. If others wait, it
    /// is also dropped if the time left until its deadline is less than this number of mean service
    /// times of such sub-tasks. If this number is below 0, no sub-task is dropped, as in the
    /// source, which drops requests only at admission.
    pub expiry: f64,
    /// The order of the sub-tasks of a workflow at a resource.
    pub discipline: Discipline,
    /// Whether workflows take turns at a resource, by deficit round robin.
    pub is_fair: bool,
    /// How a contended resource is shared.
    pub sharing: Sharing,
    /// How often rates change, in ns (Algorithm 3: 100 ms).
    pub interval_ns: u64,
    /// q, 0 to 1: the rate of a service is this quantile of the rates of its instances (§5.3.5:
    /// 0.5).
    pub quantile: f64,
    /// β: without contention, the rate of a workflow exceeds its admitted rate by this fraction.
    pub probe: f64,
    /// Without contention, a rate also includes this fraction of the workflow's share of the spare
    /// capacity, converted to requests.
    pub spare_gain: f64,
    /// The utilization at which a resource counts as full, above 0 and at most 1.
    pub target: f64,
    /// The time in which a resource is to work off its backlog, in ns.
    pub drain_ns: u64,
    /// The factor by which the weight of an observed rate or cost is multiplied in each interval.
    pub decay: f64,
    /// The decay factor for the numbers of calls and sub-tasks per request, which change with the
    /// code and not with the load.
    pub slow_decay: f64,
    /// Costs are averages over at least about this number of sub-tasks.
    pub memory: f64,
    /// The fraction by which a process admits more than it announces, if its callers stay within
    /// its rates. Two limiters in series with the same rate would only build up a queue.
    pub slack: f64,
    /// The margin that a request keeps while it waits for admission at the entry, in mean
    /// deviations of the latency.
    pub margin: f64,
    /// Lower bound on a rate, in requests per second, so that a workflow whose requests all fail
    /// still gets some through.
    pub least_rate: f64,
    /// Time without an announcement after which an instance is silent, in ns.
    pub stale_ns: u64,
    /// Number of requests of a workflow that may wait for admission.
    pub queue: u32,
}

impl Config {
    /// The default parameters.
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

    /// The names of the parameters that [`Self::set`] accepts.
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

    /// Sets a parameter by its name. Times are in seconds.
    ///
    /// # Errors
    /// The name is unknown, or the value is out of range. The message contains the valid names or
    /// the range.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), &'static str> {
        let ns = (value * 1e9) as u64;
        let part = (0.0..=1.0).contains(&value);
        match name {
            "interval" if (0.001..=10.0).contains(&value) => self.interval_ns = ns,
            "interval" => return Err("interval must be 0.001 to 10 s"),
            "drain" if (0.001..=60.0).contains(&value) => self.drain_ns = ns,
            "drain" => return Err("drain must be 0.001 to 60 s"),
            "least-rate" if value > 0.0 && value <= 1e6 => self.least_rate = value,
            "least-rate" => {
                return Err("least-rate must be above 0 and at most 1000000 per second");
            }
            "memory" if (1.0..=1e6).contains(&value) => self.memory = value,
            "memory" => return Err("memory must be 1 to 1000000 sub-tasks"),
            "margin" if (0.0..=100.0).contains(&value) => self.margin = value,
            "margin" => return Err("margin must be 0 to 100 deviations"),
            "expiry" if (-1.0..=100.0).contains(&value) => self.expiry = value,
            "expiry" => return Err("expiry must be -1 to 100 times the cost of a sub-task"),
            "slack" if part => self.slack = value,
            "quantile" if part => self.quantile = value,
            "probe" if part => self.probe = value,
            "spare-gain" if part => self.spare_gain = value,
            "target" if part && value > 0.0 => self.target = value,
            "decay" if part && value < 1.0 => self.decay = value,
            "slow-decay" if part && value < 1.0 => self.slow_decay = value,
            "slack" | "quantile" | "probe" | "spare-gain" | "target" | "decay" | "slow-decay" => {
                return Err("must be between 0 and 1");
            }
            _ => {
                return Err(
                    "use interval, quantile, probe, spare-gain, target, drain, decay, slow-decay, \
                     memory, slack, margin, expiry or least-rate",
                );
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
