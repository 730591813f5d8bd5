//! The possible outcomes of a copy, and the table that maps each status to an outcome.
//!
//! | outcome | may go to the client | latency sample | its slot is free | retried elsewhere | evidence |
//! |---|---|---|---|---|---|
//! | good | yes | yes | immediately | – | ends the server's run of failures |
//! | about the request | yes | no | immediately | – | ends the server's run of failures |
//! | refused | if nothing better comes | at least the typical time | after the typical time | yes | refusals in a row |
//! | failed | if nothing better comes | at least the typical time | after the typical time | yes | failures in a row |
//! | local | no | no | immediately | yes | none |
//! | over a limit | no | at least the typical time | after the typical time | no | none |
//!
//! **A refusal is not evidence of a fast server.** A server that refuses or fails immediately is
//! idle again right away. Every pick that counts outstanding copies or measures response times
//! would prefer it to its peers. So the slot of a refused or failed copy remains occupied until a
//! good response from that server would typically have arrived (see [`crate::Core`] and
//! `cell/typical.rs`). To every pick, gate and hedge, the server is as busy as if it had done the
//! work.
//!
//! Source of the default table: RFC 9110 §15, RFC 6585 §4; what Envoy retries (`retry_on: 5xx`) and
//! what gRPC calls `UNAVAILABLE` and `RESOURCE_EXHAUSTED`. Cost: one array lookup.

use alloc::boxed::Box;
use core::ops::RangeInclusive;

use crate::action::EjectReason;

/// How a copy ended, as its sender saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A complete response that may go to the client.
    Good,
    /// A complete response about the request, not the server: any replica would send it. It may go
    /// to the client.
    Request,
    /// The server refused to do the work.
    Refused,
    /// The server failed.
    Failed(Fault),
    /// The copy ended on this side: no descriptor or port was left, or the rest of the response was
    /// no longer wanted. That is not evidence about the server, and another server may succeed.
    Local,
    /// The response exceeded a limit on this side. That is not evidence about the server, and
    /// another server would send the same response.
    OverLimit,
}

/// How a server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A complete response whose status is a failure of the server (HTTP 500).
    Status,
    /// The connection ended before the response was complete.
    Reset,
    /// The connection failed, so no part of the request was sent.
    ConnectFailed,
    /// The server sent something that is not a response.
    Malformed,
}

impl Outcome {
    /// Returns the name, for labels of metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Request => "request",
            Self::Refused => "refused",
            Self::Failed(Fault::Status) => "bad",
            Self::Failed(Fault::Reset) => "reset",
            Self::Failed(Fault::ConnectFailed) => "connect_failed",
            Self::Failed(Fault::Malformed) => "malformed",
            Self::Local => "local",
            Self::OverLimit => "over_limit",
        }
    }

    /// Whether the response may go to the client as soon as its head arrives.
    #[must_use]
    pub fn wins(self) -> bool {
        matches!(self, Self::Good | Self::Request)
    }

    /// Whether a copy with this outcome can end sooner than a good response would. If it can, the
    /// copy's slot is not freed immediately.
    pub(crate) fn is_early(self) -> bool {
        matches!(self, Self::Refused | Self::Failed(_) | Self::OverLimit)
    }

    /// Returns the kind of server failure that this outcome indicates, if any.
    pub(crate) fn failure(self) -> Option<EjectReason> {
        match self {
            Self::Good | Self::Request | Self::Local | Self::OverLimit => None,
            Self::Refused => Some(EjectReason::Refused),
            Self::Failed(Fault::Status) => Some(EjectReason::Status),
            Self::Failed(Fault::Reset) => Some(EjectReason::Reset),
            Self::Failed(Fault::ConnectFailed) => Some(EjectReason::ConnectFailed),
            Self::Failed(Fault::Malformed) => Some(EjectReason::Malformed),
        }
    }
}

/// The range of HTTP statuses (RFC 9110 §15).
pub const STATUSES: RangeInclusive<u16> = 100..=599;

const COUNT: usize = (*STATUSES.end() - *STATUSES.start() + 1) as usize;

/// Number of gRPC status codes, from OK (0) to UNAUTHENTICATED (16).
pub const GRPC_CODES: usize = 17;

/// Maps the status of a complete response to its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeTable {
    statuses: Box<[Outcome; COUNT]>,
    grpc: [Outcome; GRPC_CODES],
}

impl OutcomeTable {
    /// Returns the outcome of a status. A status outside the valid range is a failure.
    #[must_use]
    pub fn status(&self, status: u16) -> Outcome {
        let at = usize::from(status).checked_sub(usize::from(*STATUSES.start()));
        let found = at.and_then(|at| self.statuses.get(at));
        found.copied().unwrap_or(Outcome::Failed(Fault::Status))
    }

    /// Returns the outcome of a gRPC status code. An unknown code is about the request.
    #[must_use]
    pub fn grpc(&self, code: u16) -> Outcome {
        self.grpc.get(usize::from(code)).copied().unwrap_or(Outcome::Request)
    }

    /// Sets the outcome of a gRPC status code. Ignores unknown codes.
    pub fn set_grpc(&mut self, code: u16, outcome: Outcome) {
        if let Some(entry) = self.grpc.get_mut(usize::from(code)) {
            *entry = outcome;
        }
    }

    /// Sets the outcome of a range of statuses. Ignores statuses outside [`STATUSES`].
    pub fn set(&mut self, statuses: RangeInclusive<u16>, outcome: Outcome) {
        let from = *STATUSES.start();
        for status in statuses.filter(|status| STATUSES.contains(status)) {
            self.statuses[usize::from(status - from)] = outcome;
        }
    }
}

impl Default for OutcomeTable {
    /// - below 400: good.
    /// - 4xx: about the request. Also 501 and 505: the server does not support the method or the
    ///   version of the request.
    /// - 429 and 503: refused. RFC 6585 §4 and RFC 9110 §15.6.4: the server did not do the work.
    /// - every other 5xx: failed. The server, or the server behind it (502, 504), could not do the
    ///   work.
    ///
    /// For gRPC, a status that the application chose is not a failure of the server:
    ///
    /// - OK (0): good.
    /// - RESOURCE_EXHAUSTED (8) and UNAVAILABLE (14): refused.
    /// - INTERNAL (13): failed.
    /// - all others: about the request.
    fn default() -> Self {
        let (statuses, grpc) = (Box::new([Outcome::Good; COUNT]), [Outcome::Request; GRPC_CODES]);
        let mut table = Self { statuses, grpc };
        for (code, outcome) in [
            (0, Outcome::Good),
            (8, Outcome::Refused),
            (14, Outcome::Refused),
            (13, Outcome::Failed(Fault::Status)),
        ] {
            table.set_grpc(code, outcome);
        }
        table.set(400..=499, Outcome::Request);
        table.set(500..=599, Outcome::Failed(Fault::Status));
        for status in [429, 503] {
            table.set(status..=status, Outcome::Refused);
        }
        for status in [501, 505] {
            table.set(status..=status, Outcome::Request);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_table_follows_the_standards_and_every_status_can_be_changed() {
        let mut table = OutcomeTable::default();
        let failed = Outcome::Failed(Fault::Status);
        for (statuses, outcome) in [
            (&[100, 200, 204, 304, 399][..], Outcome::Good),
            (&[400, 404, 428, 430, 499, 501, 505], Outcome::Request),
            (&[429, 503], Outcome::Refused),
            (&[500, 502, 504, 506, 599, 600, 99, 0, u16::MAX], failed),
        ] {
            assert!(statuses.iter().all(|&status| table.status(status) == outcome), "{outcome:?}");
        }
        table.set(0..=u16::MAX, Outcome::Refused);
        table.set(404..=404, Outcome::Good);
        assert_eq!([403, 404, 405].map(|status| table.status(status).wins()), [false, true, false]);
        assert_eq!(table.status(600), failed, "no status");
    }

    #[test]
    fn a_grpc_status_of_the_application_is_not_a_failure() {
        let mut table = OutcomeTable::default();
        assert_eq!(table.grpc(0), Outcome::Good);
        assert_eq!([8, 14].map(|code| table.grpc(code)), [Outcome::Refused; 2]);
        assert_eq!(table.grpc(13), Outcome::Failed(Fault::Status));
        for code in [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 15, 16, 99] {
            assert_eq!(table.grpc(code), Outcome::Request, "{code}");
        }
        table.set_grpc(8, Outcome::Request);
        table.set_grpc(99, Outcome::Good);
        assert_eq!([8, 99].map(|code| table.grpc(code)), [Outcome::Request; 2]);
    }
}
