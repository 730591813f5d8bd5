//! The label values that are known in advance.

use curtail_kernel::{EjectReason, Outcome, Role, StartReason, StopReason};
use curtail_runtime::{CopyEnd, EjectionCause};

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

/// Says the label's text of each variant, in the order of the enum's declaration; with `pub enum`, it
/// declares the enum, too.
macro_rules! kinds {
    ($($(#[$doc:meta])* pub enum $kind:ident {
        $($(#[$about:meta])* $variant:ident => $text:literal,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind { $($(#[$about])* $variant),* }

        kinds! { $kind { $($variant => $text,)* } }
    )*};
    ($($kind:ty { $($variant:ident => $text:literal,)* })*) => {$(
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
    /// How a request ended.
    pub enum RequestOutcome {
        /// The client has all of a replica's good response.
        Answered => "answered",
        /// No good response came, and the client got an error.
        Failed => "failed",
        /// It was not served at all, and the client got an error.
        Shed => "shed",
        /// The response began and broke off: its replica did, or its time was up.
        Cut => "cut",
        /// The client left before the end of its response, or did not read it.
        Abandoned => "abandoned",
    }

    /// The class of a response's status code.
    pub enum StatusClass {
        /// 1xx, and what is no status code.
        Informational => "1xx",
        /// 2xx
        Success => "2xx",
        /// 3xx
        Redirection => "3xx",
        /// 4xx
        ClientError => "4xx",
        /// 5xx
        ServerError => "5xx",
    }

    /// How a copy ended.
    pub enum CopyOutcome {
        /// A complete response that the client may have.
        Good => "good",
        /// A complete response that says that the server failed.
        Bad => "bad",
        /// The connection ended before the response did.
        Reset => "reset",
        /// The server could not be connected to.
        ConnectFailed => "connect_failed",
        /// Something that is no response.
        Malformed => "malformed",
        /// It ended on the proxy's side, for a reason that says nothing about the server.
        Local => "local",
        /// It was cancelled, and stopped.
        Stopped => "stopped",
        /// Its server went down, or was silent past `cancel_timeout`.
        Lost => "lost",
    }

    /// What came of a second copy of a query that was probably stuck.
    pub enum RescueOutcome {
        /// The client got its response.
        Won => "won",
        /// Another copy answered first, or none did.
        Lost => "lost",
        /// It took as long as the first copy, and was stopped: the query is long, and not stuck.
        GivenUp => "given_up",
    }

    /// What came of a second copy that was tried in order to learn.
    pub enum ExplorationOutcome {
        /// The client got its response: the first copy was probably stuck.
        Won => "won",
        /// Another copy answered first, or none did.
        Lost => "lost",
        /// It made room for a query that waited, and says nothing.
        Displaced => "displaced",
    }

    /// What a service that rescues is about.
    pub enum RescueState {
        /// It is not known that rescues pay: few second copies are tried, to learn.
        Exploring => "exploring",
        /// It is.
        Rescuing => "rescuing",
    }

    /// Why a server was ejected.
    pub enum EjectionReason {
        /// It accepted no connections.
        ConnectFailed => "connect_failed",
        /// It broke connections off.
        Reset => "reset",
        /// What it sent was no response.
        Malformed => "malformed",
        /// The statuses of its responses said that it failed.
        Status => "status",
        /// It did not respond within `attempt_timeout`.
        Timeout => "timeout",
        /// Cancelled copies stayed silent past `cancel_timeout`.
        Silent => "silent",
        /// Its probes failed.
        Probes => "probes",
    }

    /// Why a client was turned away before its request reached a service.
    pub enum Rejection {
        /// `max_connections` are open.
        Connections => "connections",
        /// Not a request that the proxy understands.
        Malformed => "malformed",
        /// The head is longer than `max_header_bytes`, or has too many fields.
        HeadTooLarge => "head_too_large",
        /// The body is longer than `max_request_body`.
        BodyTooLarge => "body_too_large",
        /// The head did not arrive within `header_timeout`.
        HeadTimeout => "head_timeout",
        /// The body did not arrive within `body_timeout`.
        BodyTimeout => "body_timeout",
        /// It came through proxies like this one too often.
        Loop => "loop",
        /// No service takes the path and method.
        NoService => "no_service",
        /// The key of the shard is missing.
        MissingKey => "missing_key",
        /// The key of the shard is given more than once.
        AmbiguousKey => "ambiguous_key",
        /// No shard has that name.
        UnknownShard => "unknown_shard",
    }
}

kinds! {
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
    Role {
        Primary => "primary",
        Duplicate => "duplicate",
    }
    StopReason {
        Cleanup => "cleanup",
        Preemption => "preemption",
        Purge => "purge",
        GiveUp => "give_up",
    }
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

impl From<EjectionCause> for EjectionReason {
    fn from(why: EjectionCause) -> Self {
        match why {
            EjectionCause::Probes(_) => Self::Probes,
            EjectionCause::Ejected(why) => match why {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered<K: Kind + PartialEq + std::fmt::Debug>() {
        for (at, kind) in K::ALL.iter().enumerate() {
            assert_eq!(kind.index(), at, "{kind:?}");
        }
    }

    #[test]
    fn the_order_is_that_of_the_declaration() {
        ordered::<StartReason>();
        ordered::<Role>();
        ordered::<StopReason>();
    }
}
