//! What metrics want to know. Mostly called under the cell's lock: count, and return.

use curtail_kernel::{
    EjectReason, Fault, GroupId, Outcome, Role, ServerId, StartReason, StopReason,
};

use crate::failure::{Cause, Failure};

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
    /// Its server has sent a whole response.
    Finished(Outcome),
    /// There is no whole response.
    Failed(Failure),
    /// It has stopped, as it was cancelled; none: with its task, which was dropped.
    Stopped(Option<StopReason>),
    /// Its server went down, or was silent past the cancel timeout.
    Lost,
}

/// What a probe met instead of a healthy server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFailure {
    /// There is no response.
    #[error("{0}")]
    Failed(Failure),
    /// No response in time.
    #[error("no response in time")]
    Silent,
    /// A response by which the server refuses or fails.
    #[error("status {0}")]
    Status(u16),
}

impl ProbeFailure {
    /// Its kind in one word, for labels of metrics.
    #[must_use]
    pub fn cause(self) -> Cause {
        match self {
            Self::Failed(why) => why.cause(),
            Self::Silent => Cause::Silent,
            Self::Status(_) => Cause::BadStatus,
        }
    }

    /// Does nothing listen there?
    pub(crate) fn is_unreachable(self) -> bool {
        matches!(self, Self::Failed(why) if why.outcome() == Outcome::Failed(Fault::ConnectFailed))
    }
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

    /// A copy ended without a whole response. Not called under the lock.
    fn copy_failed(&self, _copy: CopyInfo, _why: Failure) {}

    /// A query got its first copy.
    fn query_started(&self, _group: GroupId, _queued_ns: u64) {}

    /// A server gets no new copies from now on. Not called under the lock.
    fn ejected(&self, _server: ServerId, _why: EjectionCause) {}

    /// A probe of a server failed. Not called under the lock.
    fn probe_failed(&self, _server: ServerId, _why: ProbeFailure) {}

    /// A server was asked for its load; `answered`: it said so within the time. Not called under the lock.
    fn load_probed(&self, _server: ServerId, _answered: bool) {}

    /// A server gets copies again. Not called under the lock.
    fn restored(&self, _server: ServerId) {}
}

/// Watches nothing.
impl Observer for () {}
