//! The label values that are known in advance.

use curtail_kernel::{EjectReason, Outcome, Role, StartReason, StopReason};
use curtail_runtime::{CopyEnd, TakenOut};

use crate::route::NoTarget;

/// A label with a fixed set of values, each of which has its own counter.
pub trait Kind: Copy + 'static {
    /// All values, in the order of [`Kind::index`].
    const ALL: &'static [Self];

    /// The value of the label.
    fn text(self) -> &'static str;

    /// Its place in [`Kind::ALL`].
    fn index(self) -> usize;
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The client has all of a replica's good answer.
    Answered,
    /// No good answer came, and the client was told so.
    Failed,
    /// It was not served at all, and the client was told so.
    Shed,
    /// The answer began and broke off: its replica did, or its time was up.
    Cut,
    /// The client left before the end of its answer, or did not read it.
    Abandoned,
}

/// The class of an answer's status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusClass {
    /// 1xx, and what is no status code.
    Informational,
    /// 2xx
    Success,
    /// 3xx
    Redirection,
    /// 4xx
    ClientError,
    /// 5xx
    ServerError,
}

impl StatusClass {
    /// The class of a status code.
    #[must_use]
    pub fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            300..=399 => Self::Redirection,
            400..=499 => Self::ClientError,
            500..=599 => Self::ServerError,
            _ => Self::Informational,
        }
    }
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// A complete answer that the client may have.
    Good,
    /// A complete answer that says that the server failed.
    Bad,
    /// The connection ended before the answer did.
    Reset,
    /// The server could not be connected to.
    ConnectFailed,
    /// Something that is no answer.
    Malformed,
    /// It ended on the proxy's side, for a reason that says nothing about the server.
    Local,
    /// It was told to stop, and did.
    Stopped,
    /// Its server went down, or was silent past `cancel_timeout`.
    Lost,
}

impl From<Outcome> for CopyOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Good => Self::Good,
            Outcome::Bad => Self::Bad,
            Outcome::Reset => Self::Reset,
            Outcome::ConnectFailed => Self::ConnectFailed,
            Outcome::Malformed => Self::Malformed,
            Outcome::Local => Self::Local,
        }
    }
}

/// What came of a second copy of a query that was probably stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RescueOutcome {
    /// The client got its answer.
    Won,
    /// Another copy answered first, or nobody did.
    Lost,
    /// It took as long as the first copy, and was stopped: the query is long, and not stuck.
    GivenUp,
}

impl RescueOutcome {
    /// Of a copy that has ended.
    #[must_use]
    pub fn of(end: CopyEnd, won: bool) -> Self {
        match end {
            _ if won => Self::Won,
            CopyEnd::Stopped(Some(StopReason::GiveUp)) => Self::GivenUp,
            _ => Self::Lost,
        }
    }
}

/// What came of a second copy that was tried in order to learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplorationOutcome {
    /// The client got its answer: the first copy was probably stuck.
    Won,
    /// Another copy answered first, or nobody did.
    Lost,
    /// It made room for a query that waited, and tells nothing.
    Displaced,
}

impl ExplorationOutcome {
    /// Of a copy that has ended.
    #[must_use]
    pub fn of(end: CopyEnd, won: bool) -> Self {
        match end {
            _ if won => Self::Won,
            CopyEnd::Stopped(Some(StopReason::Preemption)) => Self::Displaced,
            _ => Self::Lost,
        }
    }
}

/// What a service that rescues is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RescueState {
    /// It is not known that rescues pay: few second copies are tried, to learn.
    Exploring,
    /// It is.
    Rescuing,
}

/// Why a server was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutReason {
    /// It accepted no connections.
    ConnectFailed,
    /// It broke connections off.
    Reset,
    /// What it sent was no response.
    Malformed,
    /// The statuses of its responses said that it failed.
    Status,
    /// It did not respond within `attempt_timeout`.
    Timeout,
    /// Cancelled copies stayed silent past `cancel_timeout`.
    Silent,
    /// Its probes failed.
    Probes,
}

impl From<TakenOut> for OutReason {
    fn from(why: TakenOut) -> Self {
        match why {
            TakenOut::Probes(_) => Self::Probes,
            TakenOut::Ejected(why) => match why {
                EjectReason::ConnectFailed => Self::ConnectFailed,
                EjectReason::Reset => Self::Reset,
                EjectReason::Malformed => Self::Malformed,
                EjectReason::Status => Self::Status,
                EjectReason::Timeout => Self::Timeout,
                EjectReason::Silent => Self::Silent,
            },
        }
    }
}

/// Why a client was turned away before its request reached a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// `max_connections` are open.
    Connections,
    /// Not a request that the proxy understands.
    Malformed,
    /// The head is longer than `max_header_bytes`, or has too many fields.
    HeadTooLarge,
    /// The body is longer than `max_request_body`.
    BodyTooLarge,
    /// The head did not arrive within `header_timeout`.
    HeadTimeout,
    /// The body did not arrive within `body_timeout`.
    BodyTimeout,
    /// It came through proxies like this one too often.
    Loop,
    /// No service takes the path and method.
    NoService,
    /// The key of the shard is missing.
    MissingKey,
    /// The key of the shard is given more than once.
    AmbiguousKey,
    /// No shard has that name.
    UnknownShard,
}

impl From<NoTarget> for Rejection {
    fn from(why: NoTarget) -> Self {
        match why {
            NoTarget::Service => Self::NoService,
            NoTarget::MissingKey => Self::MissingKey,
            NoTarget::AmbiguousKey => Self::AmbiguousKey,
            NoTarget::UnknownShard => Self::UnknownShard,
        }
    }
}

impl From<&curtail_http1::Reject> for Rejection {
    fn from(reject: &curtail_http1::Reject) -> Self {
        match reject.status() {
            408 if matches!(reject, curtail_http1::Reject::BodyTimeout { .. }) => Self::BodyTimeout,
            408 => Self::HeadTimeout,
            413 => Self::BodyTooLarge,
            414 | 431 => Self::HeadTooLarge,
            _ => Self::Malformed,
        }
    }
}

/// Says the label's text of each variant, in the order of the enum's declaration.
macro_rules! kinds {
    ($($kind:ty { $($variant:ident => $text:literal),* $(,)? })*) => {$(
        impl Kind for $kind {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}

kinds! {
    RequestOutcome {
        Answered => "answered",
        Failed => "failed",
        Shed => "shed",
        Cut => "cut",
        Abandoned => "abandoned",
    }
    StatusClass {
        Informational => "1xx",
        Success => "2xx",
        Redirection => "3xx",
        ClientError => "4xx",
        ServerError => "5xx",
    }
    CopyOutcome {
        Good => "good",
        Bad => "bad",
        Reset => "reset",
        ConnectFailed => "connect_failed",
        Malformed => "malformed",
        Local => "local",
        Stopped => "stopped",
        Lost => "lost",
    }
    Rejection {
        Connections => "connections",
        Malformed => "malformed",
        HeadTooLarge => "head_too_large",
        BodyTooLarge => "body_too_large",
        HeadTimeout => "head_timeout",
        BodyTimeout => "body_timeout",
        Loop => "loop",
        NoService => "no_service",
        MissingKey => "missing_key",
        AmbiguousKey => "ambiguous_key",
        UnknownShard => "unknown_shard",
    }
    StartReason {
        Arrival => "arrival",
        Queue => "queue",
        Retry => "retry",
        Hedge => "hedge",
        Delay => "delay",
        Idle => "idle",
        Rescue => "rescue",
        Explore => "explore",
    }
    RescueOutcome { Won => "won", Lost => "lost", GivenUp => "given_up" }
    ExplorationOutcome { Won => "won", Lost => "lost", Displaced => "displaced" }
    RescueState { Exploring => "exploring", Rescuing => "rescuing" }
    Role { Primary => "primary", Duplicate => "duplicate" }
    StopReason {
        Cleanup => "cleanup",
        Preemption => "preemption",
        Purge => "purge",
        GiveUp => "give_up",
    }
    OutReason {
        ConnectFailed => "connect_failed",
        Reset => "reset",
        Malformed => "malformed",
        Status => "status",
        Timeout => "timeout",
        Silent => "silent",
        Probes => "probes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered<K: Kind + PartialEq + std::fmt::Debug>() {
        for (at, kind) in K::ALL.iter().enumerate() {
            assert_eq!(kind.index(), at, "{kind:?}");
        }
    }

    #[test]
    fn every_kind_has_its_own_place() {
        ordered::<RequestOutcome>();
        ordered::<StatusClass>();
        ordered::<CopyOutcome>();
        ordered::<Rejection>();
        ordered::<StartReason>();
        ordered::<RescueOutcome>();
        ordered::<ExplorationOutcome>();
        ordered::<RescueState>();
        ordered::<Role>();
        ordered::<StopReason>();
        ordered::<OutReason>();
    }
}
