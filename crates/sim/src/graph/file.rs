//! File format of a graph of services.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A graph of services and its clients, as written in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphFile {
    /// Simulated time, such as `60s`.
    pub duration: String,
    /// Requests sent before this time are not counted, nor are those sent less than one timeout
    /// before the end.
    #[serde(default = "zero")]
    pub warmup: String,
    /// Interval at which rates and counts are sampled.
    #[serde(default = "one_second")]
    pub sample: String,
    /// One-way latency between two processes: a distribution.
    #[serde(default = "zero_network")]
    pub network: String,
    /// Time after which a client gives up.
    #[serde(default = "ten_seconds")]
    pub timeout: String,
    /// Parameters of the flow control, with the names of [`curtail_kernel::flow::Config::NAMES`].
    /// In addition, `loss` is the share of announcements that are lost, and `delay` is the delay of
    /// the others. Times are in seconds.
    #[serde(default)]
    pub flow: BTreeMap<String, f64>,
    /// Services. The first one is the entry.
    pub service: Vec<ServiceFile>,
    /// Workflows.
    pub workflow: Vec<WorkflowFile>,
}

/// A service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceFile {
    /// Its name.
    pub name: String,
    /// Number of processes.
    pub instances: u32,
    /// How calls choose a process: `random`; `key` for the process of the request's partition;
    /// `key:N` for the process of one of the partition's N blocks; or a pick of the kernel, such as
    /// `c3`, which each caller runs by itself.
    #[serde(default = "random")]
    pub route: String,
    /// Fluctuating speed of its processes.
    pub fluctuates: Option<FluctuationFile>,
    /// Faults of single processes.
    #[serde(default)]
    pub fault: Vec<FaultFile>,
    /// Resources of each process.
    #[serde(default)]
    pub resource: Vec<ResourceFile>,
}

/// A resource of each process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceFile {
    /// Its name.
    pub name: String,
    /// Number of sub-tasks that can hold it at the same time.
    pub slots: u32,
    /// Maximum number of waiting sub-tasks.
    #[serde(default = "ten_thousand")]
    pub queue: u32,
    /// Time at which its number of slots changes to `then_slots`.
    pub changes_at: Option<String>,
    /// See `changes_at`.
    pub then_slots: Option<u32>,
}

/// Fluctuating speed: each process is fast or slow with equal probability, drawn again after each
/// interval.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FluctuationFile {
    /// Length of the interval, such as `500ms`.
    pub every: String,
    /// Factor by which all work takes longer at a slow process.
    pub times: f64,
}

/// A temporary fault of a process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultFile {
    /// Index of the process in its service, from 0.
    pub instance: u32,
    /// Start of the fault.
    pub at: String,
    /// End of the fault.
    pub until: String,
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Factor by which all work takes longer, for a slow process.
    #[serde(default = "four_times")]
    pub times: f64,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultKind {
    /// It dies, loses all its requests, refuses connections, and then restarts empty.
    Down,
    /// Its work takes longer.
    Slow,
    /// It serves, but announces no rates.
    Silent,
    /// It serves, but announces 0, impossibly large rates, or NaN.
    Nonsense,
}

/// A workflow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowFile {
    /// Its name.
    pub name: String,
    /// Time after which a request is late. `4x` means four times the mean time that a request takes
    /// when it is the only one in the graph. The default is the timeout.
    pub deadline: Option<String>,
    /// Number of partitions of its data.
    #[serde(default = "four")]
    pub partitions: u32,
    /// Its share of capacity, relative to other workflows.
    #[serde(default = "one")]
    pub weight: f64,
    /// Guaranteed requests per second.
    #[serde(default)]
    pub guarantee: f64,
    /// Priority under the strict discipline, and for admission by priority. Larger values come
    /// first.
    #[serde(default)]
    pub priority: u32,
    /// Its clients.
    pub clients: Vec<ClientsFile>,
    /// Steps by service or `service/endpoint`.
    pub at: BTreeMap<String, Vec<String>>,
}

/// A set of identical clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsFile {
    /// Open clients: requests per second, as a Poisson process.
    pub open: Option<f64>,
    /// Closed clients: the number of clients, each of which waits for its response before it sends
    /// again.
    pub closed: Option<u32>,
    /// Pause of a closed client after a response.
    #[serde(default = "zero")]
    pub think: String,
    /// Additional pause of a closed client after a request that failed.
    #[serde(default = "backoff")]
    pub backoff: String,
    /// Time at which they begin.
    #[serde(default = "zero")]
    pub from: String,
    /// Time at which they stop sending. The default is the end of the run.
    pub until: Option<String>,
    /// Whether these clients keep their load when the load of the graph is multiplied.
    #[serde(default)]
    pub fixed: bool,
}

fn zero() -> String {
    "0s".to_owned()
}
fn one_second() -> String {
    "1s".to_owned()
}
fn zero_network() -> String {
    "det:250us".to_owned()
}
fn ten_seconds() -> String {
    "10s".to_owned()
}
fn backoff() -> String {
    "100ms".to_owned()
}
fn random() -> String {
    "random".to_owned()
}
fn ten_thousand() -> u32 {
    10_000
}
fn four() -> u32 {
    4
}
fn one() -> f64 {
    1.0
}
fn four_times() -> f64 {
    4.0
}
