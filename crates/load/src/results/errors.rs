//! Requests without a good response, counted by kind.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::session::Status;
use crate::session::fault::{Fault, Left};

/// The number of requests without a good response, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// No connection could be opened.
    pub connect: u64,
    /// The connection opened, but the TLS handshake or a TLS record failed.
    pub tls: u64,
    /// No complete response arrived in time. This time includes the wait for a connection and the
    /// time to open it.
    pub timeout: u64,
    /// The server closed or reset the connection before the end of its response.
    pub reset: u64,
    /// The bytes from the server are not a valid response, or the response is too long.
    pub malformed: u64,
    /// The response was complete and had a status of 500 to 599.
    pub status_5xx: u64,
    /// The response was complete and had any other status outside 200 to 299.
    pub status_other: u64,
    /// The server sent an error reply in a protocol other than HTTP: a gRPC status other than OK,
    /// memcached's `ERROR`, or Redis's `-ERR`.
    pub refused: u64,
    /// The request was never sent, because all connections were busy and the backlog was full.
    pub dropped: u64,
    /// When the run ended early, the request had been sent or was about to be sent on a connection.
    pub in_flight: u64,
    /// When the run ended early, the request was due but had not been sent, because no connection
    /// was free or the sending thread was late.
    pub overdue: u64,
    /// The request was due on an agent that was lost, and none of the agent's records contains it.
    pub unreported: u64,
}

impl Errors {
    /// Returns the number of errors of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.kinds().map(|(count, _)| count).iter().sum()
    }

    /// Returns the number of requests that had no outcome when the run ended.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.in_flight + self.overdue + self.unreported
    }

    /// Returns the errors of requests that ended without a good response, excluding unfinished
    /// requests.
    #[must_use]
    pub fn ended(&self) -> Errors {
        Errors { in_flight: 0, overdue: 0, unreported: 0, ..*self }
    }

    /// Returns the count and the description of each kind, most informative first, such as `3` and
    /// `with a bad status (5xx)`.
    #[must_use]
    pub fn kinds(&self) -> [(u64, &'static str); 12] {
        [
            (self.status_5xx, "with a bad status (5xx)"),
            (self.status_other, "with a bad status (3xx or 4xx)"),
            (self.refused, "with an error response"),
            (self.timeout, "without a response in time"),
            (self.connect, "without a connection"),
            (self.tls, "without TLS"),
            (self.reset, "cut off by the server"),
            (self.malformed, "with a malformed response"),
            (self.dropped, "never sent"),
            (self.in_flight, "in flight when the run ended"),
            (self.overdue, "due but not sent when the run ended"),
            (self.unreported, "lost with an agent"),
        ]
    }

    /// Returns the name and the counter of this kind of fault.
    pub(crate) fn of_fault(&mut self, fault: &Fault) -> (&'static str, &mut u64) {
        match fault {
            Fault::Connect(_) => ("connect", &mut self.connect),
            Fault::Timeout(_) => ("timeout", &mut self.timeout),
            Fault::Unfinished(Left::InFlight) => ("in_flight", &mut self.in_flight),
            Fault::Unfinished(Left::Overdue) => ("overdue", &mut self.overdue),
            Fault::Tls(_) => ("tls", &mut self.tls),
            Fault::Closed
            | Fault::IncompleteMessage
            | Fault::Reset(_)
            | Fault::Unprocessed(_)
            | Fault::Io(_) => ("reset", &mut self.reset),
            _ => ("malformed", &mut self.malformed),
        }
    }

    pub(crate) fn of_status(&mut self, status: &Status) -> &mut u64 {
        match status {
            Status::Http(500..) => &mut self.status_5xx,
            Status::Http(_) => &mut self.status_other,
            Status::Fine | Status::Refused(_) => &mut self.refused,
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Errors) {
        let Errors { connect, tls, timeout, reset, malformed, .. } = *other;
        let Errors { status_5xx, status_other, refused, dropped, .. } = *other;
        let Errors { in_flight, overdue, unreported, .. } = *other;
        self.connect += connect;
        self.tls += tls;
        self.timeout += timeout;
        self.reset += reset;
        self.malformed += malformed;
        self.status_5xx += status_5xx;
        self.status_other += status_other;
        self.refused += refused;
        self.dropped += dropped;
        self.in_flight += in_flight;
        self.overdue += overdue;
        self.unreported += unreported;
    }
}

/// Lists the kinds that occurred: `3 with a bad status (5xx), 1 never sent`.
impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.kinds().into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = found.map(|(count, kind)| format!("{count} {kind}")).collect();
        f.write_str(&parts.join(", "))
    }
}
