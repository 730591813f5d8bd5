//! Actions that a cell orders its driver to perform.

use crate::id::{CopyId, QueryId, ServerId};

/// Whether a copy is the query's primary or a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The copy that every query gets.
    Primary,
    /// A further copy.
    Duplicate,
}

impl Role {
    /// Every variant, in the order of the declaration.
    pub const ALL: [Self; 2] = [Self::Primary, Self::Duplicate];

    /// Returns the name, for labels of metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Duplicate => "duplicate",
        }
    }
}

/// Why a copy starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StartReason {
    /// A server had room when the query arrived.
    Arrival,
    /// The query waited in the queue until a server had room.
    Queue,
    /// An earlier copy failed.
    Retry,
    /// A duplicate that is sent immediately.
    Hedge,
    /// A duplicate that is sent because the first copy took a long time.
    Delay,
    /// A duplicate that is sent because a server would otherwise have been idle.
    Idle,
    /// A duplicate that is sent because the query is probably stuck.
    Rescue,
    /// A duplicate that tests whether queries of this age are stuck.
    Explore,
}

impl StartReason {
    /// Every variant, in the order of the declaration.
    pub const ALL: [Self; 8] = [
        Self::Arrival,
        Self::Queue,
        Self::Retry,
        Self::Hedge,
        Self::Delay,
        Self::Idle,
        Self::Rescue,
        Self::Explore,
    ];

    /// Returns the name, for labels of metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Queue => "queue",
            Self::Retry => "retry",
            Self::Hedge => "hedge",
            Self::Delay => "delay",
            Self::Idle => "idle",
            Self::Rescue => "rescue",
            Self::Explore => "explore",
        }
    }
}

/// Why a copy is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The copy's response is no longer needed.
    Cleanup,
    /// The copy's slot is needed for a waiting query.
    Preemption,
    /// Another copy of the same query does the work.
    Purge,
    /// The rescue did not respond in the time allowed for it, so one of the query's two copies is
    /// given up.
    GiveUp,
}

impl StopReason {
    /// Every variant, in the order of the declaration.
    pub const ALL: [Self; 4] = [Self::Cleanup, Self::Preemption, Self::Purge, Self::GiveUp];

    /// Returns the name, for labels of metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cleanup => "cleanup",
            Self::Preemption => "preemption",
            Self::Purge => "purge",
            Self::GiveUp => "give_up",
        }
    }
}

/// Why a query failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailReason {
    /// The query's last copy failed, and the query cannot or must not be retried.
    CopyFailed,
    /// The query's deadline passed while the query ran.
    Timeout,
}

/// Why a query was not served at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShedReason {
    /// The queue of the query's group is full.
    QueueFull,
    /// The query's deadline passed while the query waited.
    Expired,
}

/// Why a server was ejected: the kind of its last failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EjectReason {
    /// The server accepted no connection.
    ConnectFailed,
    /// The server closed or reset the connection before the response was complete.
    Reset,
    /// The server sent something that is not a response.
    Malformed,
    /// The server's response has a status that indicates a server failure.
    Status,
    /// The server refused the work.
    Refused,
    /// The server did not respond within the attempt timeout.
    Timeout,
    /// A cancelled copy stayed silent past the cancel timeout.
    Silent,
}

/// An action for the driver.
#[allow(missing_docs, reason = "the names of the fields document them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a copy of the query to the server.
    Start { copy: CopyId, query: QueryId, server: ServerId, role: Role, why: StartReason },
    /// Order the server to stop a copy. Report [`crate::Event::Stopped`] when it has stopped.
    Stop { copy: CopyId, why: StopReason },
    /// The query has ended: the client gets this copy's response.
    Answer { query: QueryId, copy: CopyId },
    /// The query has ended without a response.
    Fail {
        query: QueryId,
        why: FailReason,
        /// The copy that failed last, if any. If the driver still has the bad response of that
        /// copy, it may pass it on to the client.
        copy: Option<CopyId>,
    },
    /// The query has ended without being served.
    Shed { query: QueryId, why: ShedReason },
    /// A copy was lost and has ended: either its server went down, or the copy stayed silent past
    /// the cancel timeout. Close its connection.
    Lose { copy: CopyId },
    /// Probe a server for its load, and report [`crate::Event::Probed`]. The driver need not report
    /// a probe without a response.
    Probe { server: ServerId },
    /// The cell ejected a server: it gets no new copies, but its running copies continue. Probe the
    /// server, and send [`crate::Event::ServerUp`] when a probe succeeds.
    Eject { server: ServerId, why: EjectReason },
    /// A server that was ejected, unhealthy, draining or down gets new copies again, or a server has
    /// joined.
    Restore { server: ServerId },
}
