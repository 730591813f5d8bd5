//! A graph of services as it is written in a file.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A graph of services and who sends to it, as in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphFile {
    /// How long it is simulated, as `60s`.
    pub duration: String,
    /// What starts before that is not counted, nor what starts less than a time-out before the end.
    #[serde(default = "zero")]
    pub warmup: String,
    /// How often rates and counts are sampled.
    #[serde(default = "one_second")]
    pub sample: String,
    /// One way between two processes: a distribution.
    #[serde(default = "zero_network")]
    pub network: String,
    /// A client gives up after that.
    #[serde(default = "ten_seconds")]
    pub timeout: String,
    /// Parameters of the flow control, by the names of [`curtail_kernel::flow::Config::NAMES`], and `loss` and `delay`:
    /// the part of all announcements that is lost, and when the others arrive. Times are in seconds.
    #[serde(default)]
    pub flow: BTreeMap<String, f64>,
    /// Services; the first is the entry.
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
    /// How many processes it has.
    pub instances: u32,
    /// Which of them gets a call: `random`, or `key` or `key:N` for that which holds the request's partition, or one of
    /// N blocks of it; or `c3` or another of the kernel's picks, by which each caller chooses.
    #[serde(default = "random")]
    pub route: String,
    /// They are fast at times, and slow at others.
    pub fluctuates: Option<FluctuationFile>,
    /// What befalls single ones.
    #[serde(default)]
    pub fault: Vec<FaultFile>,
    /// What its processes have.
    #[serde(default)]
    pub resource: Vec<ResourceFile>,
}

/// A resource of each process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceFile {
    /// Its name.
    pub name: String,
    /// So many sub-tasks hold it at once.
    pub slots: u32,
    /// So many wait.
    #[serde(default = "ten_thousand")]
    pub queue: u32,
    /// From this time on it has `then_slots`.
    pub changes_at: Option<String>,
    /// See `changes_at`.
    pub then_slots: Option<u32>,
}

/// Every process is fast or slow, each with even chances, and drawn anew after a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FluctuationFile {
    /// That time, as `500ms`.
    pub every: String,
    /// How many times as long all work takes at a slow one.
    pub times: f64,
}

/// What befalls a process for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultFile {
    /// Which of the service, from 0.
    pub instance: u32,
    /// From when.
    pub at: String,
    /// Until when.
    pub until: String,
    /// What.
    pub kind: FaultKind,
    /// How many times as long all work takes at one that is slow.
    #[serde(default = "four_times")]
    pub times: f64,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultKind {
    /// It dies with all that it holds, refuses connections, and begins anew.
    Down,
    /// Its work takes longer.
    Slow,
    /// It serves, and announces nothing.
    Silent,
    /// It serves, and announces 0, more than there can be, or what is no number.
    Nonsense,
}

/// A workflow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowFile {
    /// Its name.
    pub name: String,
    /// After which a request is late: a time, or `4x` their mean time in isolation. The time-out, where it is not given.
    pub deadline: Option<String>,
    /// In how many partitions its data are.
    #[serde(default = "four")]
    pub partitions: u32,
    /// Its share, relative to others.
    #[serde(default = "one")]
    pub weight: f64,
    /// Requests per second that it gets in any case.
    #[serde(default)]
    pub guarantee: f64,
    /// Under strict priority, and for admission by priority: larger ones come first.
    #[serde(default)]
    pub priority: u32,
    /// Who sends.
    pub clients: Vec<ClientsFile>,
    /// By service or `service/endpoint`: the steps there.
    pub at: BTreeMap<String, Vec<String>>,
}

/// Clients that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsFile {
    /// So many requests per second, as a Poisson process.
    pub open: Option<f64>,
    /// Or so many clients, each of which waits for its response before it sends again.
    pub closed: Option<u32>,
    /// That pause in between.
    #[serde(default = "zero")]
    pub think: String,
    /// After a request that failed, a closed client pauses for so long.
    #[serde(default = "backoff")]
    pub backoff: String,
    /// When they begin.
    #[serde(default = "zero")]
    pub from: String,
    /// When they end.
    pub until: Option<String>,
    /// Other loads than 1 are of other clients, not of these.
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
