//! One request, with all of its times.

use crate::results::outcome::Outcome;
use crate::results::record::Errors;
use crate::session::Status;
use crate::session::fault::Fault;

/// What became of a measured request, and when. Times are nanoseconds since the start of the schedule.
///
/// A request that was dropped because the backlog was full is no sample: nothing happened to it.
/// [`Errors::dropped`] counts those.
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
    /// Made into text only where it is read, for the threads that send have no time for it.
    result: Result<Status, Fault>,
}

impl Sample {
    pub(crate) fn of(outcome: Outcome) -> Sample {
        let good = outcome.good();
        let Outcome { slot, taken_ns, sent_ns, done_ns, result, .. } = outcome;
        let body_bytes = result.as_ref().map_or(0, |whole| whole.body_bytes);
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
            result: result.map(|whole| whole.status),
        }
    }

    /// How it ended: the status of a whole answer, such as `200`, or what another protocol than HTTP says
    /// instead; or the kind of its failure as [`Errors`] have them: `connect`, `tls`, `timeout`, `reset` or
    /// `malformed`.
    #[must_use]
    pub fn ending(&self) -> String {
        match &self.result {
            // A number needs no noun.
            Ok(status) => status.to_string().trim_start_matches("status ").to_owned(),
            Err(fault) => Errors::default().of_fault(fault).0.to_owned(),
        }
    }
}
