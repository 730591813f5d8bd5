//! What a cell tells its driver to do.

use crate::id::{CopyId, QueryId, ServerId};

/// Is a copy the query's own, or one that hedges it?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The copy that every query has.
    Primary,
    /// A further one.
    Duplicate,
}

/// Why a copy starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StartReason {
    /// On arrival a server had room.
    Arrival,
    /// It waited, and a server got room.
    Queue,
    /// An earlier copy failed.
    Retry,
    /// A duplicate at once.
    Hedge,
    /// A duplicate because the first copy took long.
    Delay,
    /// A duplicate because a server would have been idle.
    Idle,
    /// A duplicate because the query is probably stuck.
    Rescue,
    /// A duplicate to learn whether queries of that age are stuck.
    Explore,
}

/// Why a copy is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// Its answer is of no use any more.
    Cleanup,
    /// Its slot is needed for a query that waits.
    Preemption,
    /// Another copy of its query is to do the work.
    Purge,
    /// It was to rescue its query, and takes as long: the query is long, and not stuck.
    GiveUp,
}

/// Why a query failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailReason {
    /// Its last copy failed and it may not, or can not, be sent again.
    CopyFailed,
    /// Its deadline passed while it ran.
    Timeout,
}

/// Why a query was not served at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShedReason {
    /// The waiting queue of its group is full.
    QueueFull,
    /// Its deadline passed while it waited.
    Expired,
}

/// Why a server was ejected: the last one of its failures in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EjectReason {
    /// It accepted no connection.
    ConnectFailed,
    /// It closed or reset the connection before the response was complete.
    Reset,
    /// It sent something that is no response.
    Malformed,
    /// The status of its response says that it failed.
    Status,
    /// It refused the work.
    Refused,
    /// It did not respond within the attempt timeout.
    Timeout,
    /// A cancelled copy stayed silent past the cancel timeout.
    Silent,
}

/// One thing to do.
#[allow(missing_docs, reason = "the fields say what they are")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a copy of the query to the server.
    Start { copy: CopyId, query: QueryId, server: ServerId, role: Role, why: StartReason },
    /// Tell the server to stop a copy; report [`crate::Event::Stopped`] when it has.
    Stop { copy: CopyId, why: StopReason },
    /// The query has ended: this copy's response is the response.
    Answer { query: QueryId, copy: CopyId },
    /// The query has ended without a response.
    Fail {
        query: QueryId,
        why: FailReason,
        /// The copy that failed last, if one did: a driver that holds its bad response may pass it.
        copy: Option<CopyId>,
    },
    /// The query has ended unserved.
    Shed { query: QueryId, why: ShedReason },
    /// A copy is lost and has ended: its server went down, or it stayed silent past the cancel
    /// timeout. Close its connection.
    Lose { copy: CopyId },
    /// Ask a server how it is, and report [`crate::Event::Probed`]; nothing is lost with a probe that is
    /// not answered.
    Probe { server: ServerId },
    /// The cell ejected a server: it gets no new copies, those that run go on. Probe it, and send
    /// [`crate::Event::ServerUp`] when a probe succeeds.
    Eject { server: ServerId, why: EjectReason },
    /// A server that was ejected, unhealthy, draining or down gets new copies again.
    Restore { server: ServerId },
}
