//! What metrics want to know. Mostly called under the cell's lock: count, and return.

use curtail_kernel::{EjectReason, GroupId, Outcome, Role, ServerId, StartReason, StopReason};

/// Which copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyInfo {
    /// The group of its query.
    pub group: GroupId,
    /// Where it went.
    pub server: ServerId,
    /// First or second.
    pub role: Role,
    /// Why it started.
    pub why: StartReason,
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// Its server is done with it.
    Finished(Outcome),
    /// It has stopped, as it was cancelled; none: with its task, which was dropped.
    Stopped(Option<StopReason>),
    /// Its server went down, or was silent past the cancel timeout.
    Lost,
}

/// What a probe met instead of a healthy server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFailure {
    /// It accepts no connections.
    #[error("no connection: {0}")]
    ConnectFailed(std::io::ErrorKind),
    /// The way to it is broken, or the connection broke.
    #[error("connection broken")]
    Reset,
    /// No response in time.
    #[error("no response in time")]
    Silent,
    /// Something that is no response.
    #[error("not an HTTP response")]
    Malformed,
    /// A response that says that the server failed.
    #[error("status {0}")]
    Status(u16),
}

/// Why a server was ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EjectionCause {
    /// By the kernel, for what its copies met.
    Ejected(EjectReason),
    /// Its probes failed, the last one like this.
    Probes(ProbeFailure),
}

/// Watches a cell. All spans in ns.
pub trait Observer: Send + Sync + 'static {
    /// A copy started.
    fn copy_started(&self, _copy: CopyInfo, _why: StartReason) {}

    /// A copy was cancelled.
    fn copy_cancelled(&self, _copy: CopyInfo, _why: StopReason) {}

    /// A copy ended, `ran_ns` after its start. `won`: its response was the query's.
    fn copy_ended(&self, _copy: CopyInfo, _end: CopyEnd, _won: bool, _ran_ns: u64) {}

    /// A query got its first copy.
    fn query_started(&self, _group: GroupId, _queued_ns: u64) {}

    /// A server gets no new copies from now on. Not called under the lock.
    fn ejected(&self, _server: ServerId, _why: EjectionCause) {}

    /// A server was asked for its load; `answered`: it said so within the time. Not called under the lock.
    fn load_probed(&self, _server: ServerId, _answered: bool) {}

    /// A server gets copies again. Not called under the lock.
    fn restored(&self, _server: ServerId) {}
}

/// Watches nothing.
impl Observer for () {}
