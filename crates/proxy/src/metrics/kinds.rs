//! Metric labels that have a fixed set of values.

use curtail_kernel::{EjectReason, Fault, Outcome, Role, StartReason, StopReason};
use curtail_runtime::{Cause, EjectionCause};

use crate::route::NoTarget;

/// A label with a fixed set of values, each with its own counter.
pub(crate) trait Kind: Copy + 'static {
    /// All values, in the order of [`Kind::index`].
    const ALL: &'static [Self];

    /// Returns the value of the label.
    fn text(self) -> &'static str;

    /// Returns the position in [`Kind::ALL`].
    fn index(self) -> usize;
}

/// Assigns a label value to each variant, in the order of the enum's declaration. With `enum`, it
/// also declares the enum.
macro_rules! kinds {
    ($($(#[$doc:meta])* pub(crate) enum $kind:ident {
        $($(#[$about:meta])* $variant:ident => $text:literal,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $kind { $($(#[$about])* $variant),* }

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

        // Checks that the values are in the order of the declaration.
        const _: () = {
            let mut at = 0;
            $(
                assert!(<$kind>::$variant as usize == at);
                at += 1;
            )*
            assert!(at > 0);
        };
    )*};
}

kinds! {
    pub(crate) enum RequestOutcome {
        /// The client received a complete, good response from a replica.
        Answered => "answered",
        /// No good response arrived, and the client got an error.
        Failed => "failed",
        /// The request was not served at all, and the client got an error.
        Shed => "shed",
        /// The response began but was cut off, on the replica's or the proxy's side.
        Cut => "cut",
        /// The client disconnected before the end of its response, or did not read it.
        Abandoned => "abandoned",
    }

    pub(crate) enum StatusClass {
        Informational => "1xx",
        Success => "2xx",
        Redirection => "3xx",
        ClientError => "4xx",
        ServerError => "5xx",
    }

    pub(crate) enum CopyOutcome {
        Good => "good",
        /// A complete response whose status is caused by the request, not by the server.
        Request => "request",
        /// A complete response in which the server refuses the work.
        Refused => "refused",
        /// A complete response that reports a failure of the server.
        Bad => "bad",
        Reset => "reset",
        ConnectFailed => "connect_failed",
        Malformed => "malformed",
        /// The copy ended on the proxy's side, for a reason unrelated to the server.
        Local => "local",
        /// The response exceeded a limit of the proxy.
        OverLimit => "over_limit",
        Stopped => "stopped",
        /// The copy's server went down, or stayed silent for longer than `cancel_timeout`.
        Lost => "lost",
    }

    /// The result of a second copy of a query that was probably stuck.
    pub(crate) enum RescueOutcome {
        /// The client received the response of this copy.
        Won => "won",
        Lost => "lost",
        /// The proxy gave up on it, because it had run longer than nearly all queries do. Such a
        /// query is not stuck, but takes a long time.
        GivenUp => "given_up",
    }

    /// The result of a second copy that was sent in order to learn.
    pub(crate) enum ExplorationOutcome {
        /// The client received the response of this copy, so the first copy was probably stuck.
        Won => "won",
        Lost => "lost",
        Displaced => "displaced",
    }

    pub(crate) enum RescueState {
        /// The service has not learned yet that rescues pay off. It sends a few second copies to
        /// learn.
        Exploring => "exploring",
        Rescuing => "rescuing",
    }

    pub(crate) enum ProbeOutcome {
        Answered => "answered",
        /// No response arrived in time, or the response contained no load report.
        Unanswered => "unanswered",
    }

    pub(crate) enum EjectionReason {
        ConnectFailed => "connect_failed",
        Reset => "reset",
        Malformed => "malformed",
        Status => "status",
        Refused => "refused",
        Timeout => "timeout",
        Silent => "silent",
        Probes => "probes",
    }

    pub(crate) enum Rejection {
        Connections => "connections",
        /// The request is not valid.
        Malformed => "malformed",
        /// The head is longer than `max_header_bytes`, or has too many fields.
        HeadTooLarge => "head_too_large",
        /// The body is longer than `max_request_body`.
        BodyTooLarge => "body_too_large",
        /// The head did not arrive within `header_timeout`.
        HeadTimeout => "head_timeout",
        /// The body did not arrive within `body_timeout`.
        BodyTimeout => "body_timeout",
        Loop => "loop",
        NoService => "no_service",
        MissingKey => "missing_key",
        AmbiguousKey => "ambiguous_key",
        UnknownShard => "unknown_shard",
        /// The service permits no such tunnel, or has `tunnels.max` of them.
        Tunnels => "tunnels",
        /// Bodies of `max_buffered` bytes wait in the proxy.
        Buffers => "buffers",
    }
}

kinds! {
    Cause {
        ConnectFailed => "connect_failed",
        ConnectTimeout => "connect_timeout",
        Reset => "reset",
        Incomplete => "incomplete",
        Stalled => "stalled",
        NotHttp => "not_http",
        Malformed => "malformed",
        Status => "status",
        Framing => "framing",
        Chunks => "chunks",
        HeadTooLarge => "head_too_large",
        BodyTooLarge => "body_too_large",
        BadStatus => "bad_status",
        Silent => "silent",
        Local => "local",
    }
}

/// Labels whose values are those of an enum of the kernel.
macro_rules! named {
    ($($kind:ty),*) => {$(
        impl Kind for $kind {
            const ALL: &'static [Self] = &<$kind>::ALL;

            fn text(self) -> &'static str {
                self.name()
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}

named!(StartReason, Role, StopReason);

impl StatusClass {
    pub(crate) fn of(status: u16) -> Self {
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
            Outcome::Request => Self::Request,
            Outcome::Refused => Self::Refused,
            Outcome::Failed(Fault::Status) => Self::Bad,
            Outcome::Failed(Fault::Reset) => Self::Reset,
            Outcome::Failed(Fault::ConnectFailed) => Self::ConnectFailed,
            Outcome::Failed(Fault::Malformed) => Self::Malformed,
            Outcome::Local => Self::Local,
            Outcome::OverLimit => Self::OverLimit,
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
                EjectReason::Refused => Self::Refused,
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
            NoTarget::AboveRoot => Self::Malformed,
        }
    }
}

impl From<&curtail_http::h1::Reject> for Rejection {
    fn from(reject: &curtail_http::h1::Reject) -> Self {
        match reject.status() {
            408 if matches!(reject, curtail_http::h1::Reject::BodyTimeout(..)) => Self::BodyTimeout,
            408 => Self::HeadTimeout,
            413 => Self::BodyTooLarge,
            414 | 431 => Self::HeadTooLarge,
            _ => Self::Malformed,
        }
    }
}
