//! Which server takes a copy.

mod c3;
mod c3_two_choices;
mod els;
mod least_outstanding;
mod least_response_time;
mod peak_ewma;
mod prequal;
mod random;
mod round_robin;
mod seen;
mod two_choices;
mod weighted_random;

pub use c3::C3;
pub use c3_two_choices::C3TwoChoices;
pub use els::Els;
pub use least_outstanding::LeastOutstanding;
pub use least_response_time::LeastResponseTime;
pub use peak_ewma::PeakEwma;
pub use prequal::Prequal;
pub use random::Random;
pub use round_robin::RoundRobin;
pub use seen::{Estimate, Seen};
pub use two_choices::TwoChoices;
pub use weighted_random::WeightedRandom;

use crate::Rng;
use crate::event::{Feedback, Probed};
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// Picks a server of a group for a copy.
pub trait Pick {
    /// Is it to hear of the starts and ends of copies? Where not, a cell spends nothing on telling it.
    const OBSERVES: bool = false;

    /// A server that is available and not to be avoided, or none. A picker must find one where
    /// there is one: the cell counts on it for work conservation.
    fn pick(
        &mut self,
        group: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId>;

    /// A server was sent a copy, by this pick or by a hedge.
    fn started(&mut self, _server: ServerId, _now: Timestamp) {}

    /// A server has said something of itself, on a response that comes next.
    fn heard(&mut self, server: ServerId, now: Timestamp, feedback: Feedback) {
        if let Some(seen) = self.seen() {
            seen.heard(server, now, feedback);
        }
    }

    /// What it keeps of what is heard, where it ranks by that: [`Seen`] then hears of feedback, ends and
    /// returns.
    fn seen(&mut self) -> Option<&mut Seen> {
        None
    }

    /// By what it ranks a server, for metrics: less is better. None where it keeps no score.
    fn score(&self, _server: ServerId, _levels: Levels<'_>) -> Option<f64> {
        None
    }

    /// Does it listen to that? Else a driver may spare the cell the event.
    fn reads_feedback(&self) -> bool {
        false
    }

    /// Is it to be asked about queries that waited, too? Else a server that gets room takes the oldest
    /// that it may serve.
    fn ranks(&self) -> bool {
        false
    }

    /// A query has arrived for this group: the servers to probe, each with a call.
    fn probes(&mut self, _: Levels<'_>, _: &mut Rng, _probe: impl FnMut(ServerId)) {}

    /// A server has answered a probe.
    fn probed(&mut self, _now: Timestamp, _probed: Probed) {}

    /// A server gets new copies again, after it was ejected or down.
    fn restored(&mut self, server: ServerId) {
        if let Some(seen) = self.seen() {
            seen.restored(server);
        }
    }

    /// A copy has ended `took_ns` after it was sent. None: it was stopped or lost, so a response would have taken at
    /// least that long. `took_ns` of a copy that was refused or failed is at least what a good response of its server
    /// typically takes.
    fn ended(&mut self, server: ServerId, now: Timestamp, took_ns: u64, outcome: Option<Outcome>) {
        if let Some(seen) = self.seen() {
            seen.ended(server, now, took_ns, outcome);
        }
    }
}
