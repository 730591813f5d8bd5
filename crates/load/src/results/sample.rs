//! One request, with all of its times.

use crate::results::outcome::Outcome;
use crate::session::Status;
use crate::session::fault::Fault;

/// What became of a measured request, and when. Times are nanoseconds since the start of the schedule.
///
/// A request that was dropped because the backlog was full is no sample: nothing happened to it.
/// [`Errors::dropped`](crate::Errors::dropped) counts those.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The request's place in the schedule, warm-up included. Runs of one plan ask the same at the
    /// same place.
    pub index: u64,
    /// Which of the plan's queries, counted from 0.
    pub query: usize,
    /// When it was to be sent.
    pub intended_ns: u64,
    /// When a connection took it up; or when it was given up, if none did.
    pub taken_ns: u64,
    /// When the system had taken its last byte; none if that never happened.
    pub sent_ns: Option<u64>,
    /// When its answer was whole, or it failed.
    pub done_ns: u64,
    /// When its last byte left, by the kernel's stamp, where that was asked for.
    pub kernel_sent_ns: Option<u64>,
    /// When the last byte of its answer came, by the kernel's stamp, where that was asked for.
    pub kernel_received_ns: Option<u64>,
    /// It has a whole answer that says that all is well, and so a latency.
    pub good: bool,
    /// The length of the answer's body, in bytes; 0 without a whole answer.
    pub body_bytes: u64,
    ending: Ending,
}

/// Made into text only where it is read, for the threads that send have no time for it.
#[derive(Debug, Clone)]
enum Ending {
    Answered(Status),
    Failed(&'static str),
}

impl Sample {
    pub(crate) fn of(outcome: Outcome) -> Sample {
        let good = outcome.good();
        let Outcome { slot, taken_ns, sent_ns, done_ns, result, .. } = outcome;
        let (ending, body_bytes) = match result {
            Ok(whole) => (Ending::Answered(whole.status), whole.body_bytes),
            Err(fault) => (Ending::Failed(kind(&fault)), 0),
        };
        Sample {
            index: slot.index,
            query: slot.query,
            intended_ns: slot.at_ns,
            taken_ns,
            sent_ns,
            done_ns,
            kernel_sent_ns: outcome.left_ns,
            kernel_received_ns: outcome.came_ns,
            good,
            body_bytes,
            ending,
        }
    }

    /// How it ended: the status of a whole answer, such as `200`, or what another protocol than HTTP says
    /// instead; or the kind of its failure as
    /// [`Errors`](crate::Errors) has them: `connect`, `tls`, `timeout`, `reset` or
    /// `malformed`.
    #[must_use]
    pub fn ending(&self) -> String {
        match &self.ending {
            Ending::Answered(status) => {
                let text = status.to_string();
                // A number needs no noun.
                text.strip_prefix("status ").map_or(text.clone(), str::to_owned)
            }
            Ending::Failed(kind) => (*kind).to_owned(),
        }
    }
}

/// As [`Errors`](crate::Errors) counts it.
fn kind(fault: &Fault) -> &'static str {
    match fault {
        Fault::Connect(_) => "connect",
        Fault::Timeout(_) => "timeout",
        Fault::Tls(_) => "tls",
        Fault::Garbage(_)
        | Fault::Malformed(_)
        | Fault::Mismatch(_)
        | Fault::TooLarge { .. }
        | Fault::Surplus => "malformed",
        Fault::Closed
        | Fault::HalfAnswer
        | Fault::Reset(_)
        | Fault::Unprocessed(_)
        | Fault::Io(_) => "reset",
    }
}
