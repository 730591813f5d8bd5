//! What a response is worth: the outcomes of a copy, and the table that maps a status to one.
//!
//! | outcome | the client may have it | latency sample | its slot is free | sent elsewhere | evidence |
//! |---|---|---|---|---|---|
//! | good | yes | yes | at once | – | ends the server's failures in a row |
//! | about the request | yes | no | at once | – | ends the server's failures in a row |
//! | refused | if nothing better comes | typical time at least | after the typical time | yes | refusals in a row |
//! | failed | if nothing better comes | typical time at least | after the typical time | yes | failures in a row |
//! | local | no | no | at once | yes | none |
//! | over a limit | no | typical time at least | after the typical time | no | none |
//!
//! **A refusal is no evidence of a fast server.** A server that refuses or fails at once is idle at once. Every pick
//! that counts what is outstanding or how long it took would prefer it to its peers. So the slot of such a copy stays
//! taken until the time that a good response of that server typically takes (see [`crate::Core`] and
//! `cell/typical.rs`): to every pick, gate and hedge the server is as busy as if it had done the work.
//!
//! Source of the default table: RFC 9110 §15, RFC 6585 §4; what Envoy retries (`retry_on: 5xx`) and what gRPC calls
//! `UNAVAILABLE` and `RESOURCE_EXHAUSTED`. Cost: one look into an array.

use alloc::boxed::Box;
use core::ops::RangeInclusive;

use crate::action::EjectReason;

/// How a copy ended, as its caller saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A complete response that the client may have.
    Good,
    /// A complete response about the request, not the server: any replica would send it. The client may have it.
    Request,
    /// The server refused to do the work.
    Refused,
    /// The server failed.
    Failed(Fault),
    /// It ended on this side: no descriptor or port was left, or the rest of the response was unwanted. That says
    /// nothing about the server, and another one may do.
    Local,
    /// The response broke a limit of this side. That says nothing about the server, and another one would send the same.
    OverLimit,
}

/// How a server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A complete response whose status is a failure of the server (HTTP 500).
    Status,
    /// The connection ended before the response did.
    Reset,
    /// There was no connection, so nothing of the request was sent.
    ConnectFailed,
    /// What it sent is no response.
    Malformed,
}

impl Outcome {
    /// May the client have the response as soon as its head is there?
    #[must_use]
    pub fn wins(self) -> bool {
        matches!(self, Self::Good | Self::Request)
    }

    /// Does it end sooner than a good response would? Then its server is not free at once.
    pub(crate) fn is_early(self) -> bool {
        matches!(self, Self::Refused | Self::Failed(_) | Self::OverLimit)
    }

    /// The fault of the server that it is evidence of, if it is.
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

/// The lowest and the highest status of HTTP (RFC 9110 §15).
pub const STATUSES: RangeInclusive<u16> = 100..=599;

const COUNT: usize = (*STATUSES.end() - *STATUSES.start() + 1) as usize;

/// Maps the status of a complete response to its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeTable {
    statuses: Box<[Outcome; COUNT]>,
}

impl OutcomeTable {
    /// The outcome of a status; one out of range is a failure.
    #[must_use]
    pub fn status(&self, status: u16) -> Outcome {
        let at = usize::from(status).checked_sub(usize::from(*STATUSES.start()));
        let found = at.and_then(|at| self.statuses.get(at));
        found.copied().unwrap_or(Outcome::Failed(Fault::Status))
    }

    /// Gives the statuses of a range an outcome. Statuses out of [`STATUSES`] are left out.
    pub fn set(&mut self, statuses: RangeInclusive<u16>, outcome: Outcome) {
        let from = *STATUSES.start();
        for status in statuses.filter(|status| STATUSES.contains(status)) {
            self.statuses[usize::from(status - from)] = outcome;
        }
    }
}

impl Default for OutcomeTable {
    /// - below 400: good.
    /// - 4xx: about the request. 501 and 505, too: they name a method or a version that the server does not know.
    /// - 429 and 503: refused. RFC 6585 §4 and RFC 9110 §15.6.4: the server says that it did not do the work.
    /// - every other 5xx: failed. The server, or what stands behind it (502, 504), could not do the work.
    fn default() -> Self {
        let mut table = Self { statuses: Box::new([Outcome::Good; COUNT]) };
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
}
