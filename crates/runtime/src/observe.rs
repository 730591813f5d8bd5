//! What metrics want to know. Called under the cell's lock: count, and return.

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
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// Its server is done with it.
    Finished(Outcome),
    /// It was told to stop, and has.
    Stopped,
    /// Its server went down.
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

    /// The kernel took a server down.
    fn ejected(&self, _server: ServerId, _why: EjectReason) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
