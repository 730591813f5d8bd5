//! Events for metrics. Most methods are called under the cell's lock, so they should only count and
//! return.

use curtail_http::grpc::CODES;
use curtail_kernel::{
    EjectReason, Fault, GroupId, Outcome, Role, ServerId, StartReason, StopReason,
};

use crate::failure::{Cause, Failure};

/// Identifies the kind of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyInfo {
    /// The group of its query.
    pub group: GroupId,
    /// The server that it was sent to.
    pub server: ServerId,
    /// Whether it is the first copy or a second one.
    pub role: Role,
    /// Why it started.
    pub why: StartReason,
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// Its server has sent a complete response.
    Finished(Outcome),
    /// It has no complete response.
    Failed(Failure),
    /// It stopped after it was cancelled for this reason. `None` if its task was dropped without
    /// being cancelled.
    Stopped(Option<StopReason>),
    /// Its server went down, or was silent past the cancel timeout.
    Lost,
}

impl CopyEnd {
    /// Returns the name, for labels of metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Finished(outcome) => outcome.name(),
            Self::Failed(why) => why.outcome().name(),
            Self::Stopped(_) => "stopped",
            Self::Lost => "lost",
        }
    }
}

/// The reason why a probe failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFailure {
    /// There was no response.
    #[error("{0}")]
    Failed(Failure),
    /// There was no response within the timeout.
    #[error("no response in time")]
    Silent,
    /// The server responded with a status that means refusal or failure.
    #[error("status {0}")]
    Status(u16),
    /// The server responded with a gRPC status code other than OK.
    #[error("gRPC status {}", CODES.get(usize::from(*.0)).unwrap_or(&"of an unknown code"))]
    GrpcStatus(u16),
    /// The server's health service responded with a status other than SERVING.
    #[error("grpc.health.v1 does not report SERVING")]
    NotServing,
    /// A check of one's own failed.
    #[error("the health check failed")]
    Check,
}

impl ProbeFailure {
    /// Returns the kind of the failure, for labels of metrics.
    #[must_use]
    pub fn cause(self) -> Cause {
        match self {
            Self::Failed(why) => why.cause(),
            Self::Silent => Cause::Silent,
            Self::Status(_) | Self::GrpcStatus(_) | Self::NotServing | Self::Check => {
                Cause::BadStatus
            }
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
    /// The kernel ejected it, because of its copies.
    Ejected(EjectReason),
    /// Its probes failed. This is the last failure.
    Probes(ProbeFailure),
}

/// Observes a cell. All times are in ns.
pub trait Observer: Send + Sync + 'static {
    /// A copy started.
    fn copy_started(&self, _copy: CopyInfo, _why: StartReason) {}

    /// A copy was cancelled.
    fn copy_cancelled(&self, _copy: CopyInfo, _why: StopReason) {}

    /// A copy ended, `ran_ns` after its start. `won`: whether its response is the query's.
    fn copy_ended(&self, _copy: CopyInfo, _end: CopyEnd, _won: bool, _ran_ns: u64) {}

    /// A copy ended without a complete response. Not called under the lock.
    fn copy_failed(&self, _copy: CopyInfo, _why: Failure) {}

    /// A query got its first copy, `queued_ns` after its arrival.
    fn query_started(&self, _group: GroupId, _queued_ns: u64) {}

    /// A server gets no new copies from now on. Not called under the lock.
    fn ejected(&self, _server: ServerId, _why: EjectionCause) {}

    /// A probe of a server failed. Not called under the lock.
    fn probe_failed(&self, _server: ServerId, _why: ProbeFailure) {}

    /// A load probe was sent. `answered`: whether the server reported its load in time. Not called
    /// under the lock.
    fn load_probed(&self, _server: ServerId, _answered: bool) {}

    /// A server gets copies again. Not called under the lock.
    fn restored(&self, _server: ServerId) {}
}

/// Ignores all events.
impl Observer for () {}
