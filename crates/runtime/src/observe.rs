//! What metrics want to know. Mostly called under the cell's lock: count, and return.

use curtail_kernel::{
    EjectReason, FailReason, GroupId, Outcome, Role, ServerId, ShedReason, StartReason, StopReason,
};

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
    /// It has stopped, as it was told; none: with its task, which nobody told.
    Stopped(Option<StopReason>),
    /// Its server went down, or was silent past the drain time-out.
    Lost,
}

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryEnd {
    /// With an answer of this server.
    Answered {
        /// Which server.
        server: ServerId,
        /// Its first copy or a second one.
        role: Role,
    },
    /// Without one.
    Failed(FailReason),
    /// Unserved.
    Shed(ShedReason),
    /// Its client went away.
    Abandoned,
}

/// What a probe met instead of a healthy server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFailure {
    /// It accepts no connections.
    #[error("no connection")]
    ConnectFailed,
    /// The way to it is broken, or the connection broke.
    #[error("connection broken")]
    Reset,
    /// No answer in time.
    #[error("no answer in time")]
    Silent,
    /// Something that is no answer.
    #[error("not an HTTP answer")]
    Malformed,
    /// An answer that says that the server failed.
    #[error("status {0}")]
    Status(u16),
}

/// Why a server was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenOut {
    /// By the kernel, for what its copies met.
    Ejected(EjectReason),
    /// Its probes failed, the last one like this.
    Probes(ProbeFailure),
}

/// Watches a cell. All spans in ns.
pub trait Observer: Send + Sync + 'static {
    /// A copy started.
    fn copy_started(&self, _copy: CopyInfo, _why: StartReason) {}

    /// A copy was told to stop.
    fn copy_told_to_stop(&self, _copy: CopyInfo, _why: StopReason) {}

    /// A copy ended, `ran_ns` after its start. `won`: its answer was the query's.
    fn copy_ended(&self, _copy: CopyInfo, _end: CopyEnd, _won: bool, _ran_ns: u64) {}

    /// A query got its first copy.
    fn query_started(&self, _group: GroupId, _queued_ns: u64) {}

    /// A query ended, `took_ns` after its arrival.
    fn query_ended(&self, _group: GroupId, _end: QueryEnd, _took_ns: u64) {}

    /// A server gets no new copies from now on. Not called under the lock.
    fn taken_out(&self, _server: ServerId, _why: TakenOut) {}

    /// A server gets copies again. Not called under the lock.
    fn returned(&self, _server: ServerId) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
