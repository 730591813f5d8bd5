//! The file format of a graph of services.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A graph of services and its clients, as written in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphFile {
    /// The length of the simulated time, such as `60s`.
    pub duration: String,
    /// Requests that are sent before this time are not counted. The same applies to those sent less
    /// than one timeout before the end.
    #[serde(default = "zero")]
    pub warmup: String,
    /// The interval at which rates and counts are sampled.
    #[serde(default = "one_second")]
    pub sample: String,
    /// One-way latency between two processes: a distribution.
    #[serde(default = "zero_network")]
    pub network: String,
    /// The time after which a client gives up.
    #[serde(default = "ten_seconds")]
    pub timeout: String,
    /// Parameters of the flow control, with the names of [`curtail_kernel::flow::Config::NAMES`].
    /// In addition, `loss` is the share of the announcements that are lost, and `delay` is the
    /// delay of the other announcements. Times are in seconds.
    #[serde(default)]
    pub flow: BTreeMap<String, f64>,
    /// Services. The first service is the entry.
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
    /// The number of processes.
    pub instances: u32,
    /// How calls to the service choose a process: `random`; `key` for the process of the request's
    /// partition; `key:N` for the process of one of the partition's N blocks; or a pick of the
    /// kernel, such as `c3`, which each caller runs by itself.
    #[serde(default = "random")]
    pub route: String,
    /// The fluctuating speed of its processes.
    pub fluctuates: Option<FluctuationFile>,
    /// The faults of individual processes.
    #[serde(default)]
    pub fault: Vec<FaultFile>,
    /// The resources of each process.
    #[serde(default)]
    pub resource: Vec<ResourceFile>,
}

/// A resource of each process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceFile {
    /// Its name.
    pub name: String,
    /// The number of sub-tasks that can hold the resource at the same time.
    pub slots: u32,
    /// The maximum number of waiting sub-tasks.
    #[serde(default = "ten_thousand")]
    pub queue: u32,
    /// The time at which the number of slots changes to `then_slots`.
    pub changes_at: Option<String>,
    /// See `changes_at`.
    pub then_slots: Option<u32>,
}

/// A fluctuating speed: in each interval, a process is fast or slow with equal probability.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FluctuationFile {
    /// The length of the interval, such as `500ms`.
    pub every: String,
    /// The factor by which all work takes longer at a slow process.
    pub times: f64,
}

/// A temporary fault of a process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultFile {
    /// The index of the process in its service, from 0.
    pub instance: u32,
    /// The start of the fault.
    pub at: String,
    /// The end of the fault.
    pub until: String,
    /// The kind of fault.
    pub kind: FaultKind,
    /// The factor by which all work takes longer, if the fault is a slow process.
    #[serde(default = "four_times")]
    pub times: f64,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultKind {
    /// The process dies, loses all its requests, refuses connections, and then restarts without any
    /// state.
    Down,
    /// The work of the process takes longer.
    Slow,
    /// The process serves requests, but does not announce any rates.
    Silent,
    /// The process serves requests, but announces 0, impossibly large rates, or NaN.
    Nonsense,
}

/// A workflow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowFile {
    /// Its name.
    pub name: String,
    /// The time after which a request is late. `4x` means four times the mean time that a request
    /// takes when it is the only one in the graph. The default is the timeout.
    pub deadline: Option<String>,
    /// The number of partitions of the workflow's data.
    #[serde(default = "four")]
    pub partitions: u32,
    /// The workflow's share of the capacity, relative to other workflows.
    #[serde(default = "one")]
    pub weight: f64,
    /// The guaranteed number of requests per second.
    #[serde(default)]
    pub guarantee: f64,
    /// The priority under the strict discipline and for admission by priority. Workflows with
    /// larger values come first.
    #[serde(default)]
    pub priority: u32,
    /// Its clients.
    pub clients: Vec<ClientsFile>,
    /// The steps for each service or `service/endpoint`.
    pub at: BTreeMap<String, Vec<String>>,
}

/// A set of identical clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsFile {
    /// For open clients, the number of requests per second. They form a Poisson process.
    pub open: Option<f64>,
    /// For closed clients, the number of clients. Each of them waits for its response before it
    /// sends its next request.
    pub closed: Option<u32>,
    /// The pause of a closed client after a response.
    #[serde(default = "zero")]
    pub think: String,
    /// Additional pause of a closed client after a request that failed.
    #[serde(default = "backoff")]
    pub backoff: String,
    /// The time at which the clients begin to send.
    #[serde(default = "zero")]
    pub from: String,
    /// The time at which the clients stop sending. The default is the end of the run.
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
