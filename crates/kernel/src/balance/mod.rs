//! Picks the server for a copy.

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

/// A strategy that picks a server for a copy from the servers of a group.
pub trait Pick {
    /// Whether the pick uses [`Self::started`] or [`Self::ended`]. If it does not, a cell that is
    /// compiled for this pick skips these calls.
    const OBSERVES: bool = false;

    /// Whether the pick uses the feedback of servers ([`crate::Event::Feedback`]).
    const READS_FEEDBACK: bool = false;

    /// Returns an available server that the copy does not have to avoid. If there is such a server,
    /// a pick must return one, because the cell relies on this for work conservation. Even then,
    /// the copy does not always start, for example if a budget is exhausted.
    fn pick(
        &mut self,
        group: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId>;

    /// Handles the start of a copy, even if neither this pick nor a hedge chose its server. Starts
    /// are reported after the event that caused them. If one event starts several copies, for example because a
    /// server went down, the later calls to [`Self::pick`] do not know about the earlier starts.
    fn started(&mut self, _server: ServerId, _now: Timestamp) {}

    /// Handles the feedback of a server. The response that carried the feedback is reported next.
    fn feedback(&mut self, server: ServerId, now: Timestamp, feedback: Feedback) {
        if let Some(seen) = self.seen() {
            seen.add_feedback(server, now, feedback);
        }
    }

    /// The averages by which the pick ranks servers, if it uses averages. In that case, [`Seen`]
    /// handles feedback, ended copies, and servers that return.
    fn seen(&mut self) -> Option<&mut Seen> {
        None
    }

    /// The score of a server, for metrics: lower is better. `None` if the pick keeps no score.
    fn score(&self, _server: ServerId, _levels: Levels<'_>) -> Option<f64> {
        None
    }

    /// [`Self::READS_FEEDBACK`], or that of the pick that this one stands for. If it is false, the
    /// driver need not report any feedback.
    fn reads_feedback(&self) -> bool {
        Self::READS_FEEDBACK
    }

    /// Whether the pick also chooses the server for a query that has waited. If it does not, a
    /// server that has room takes the oldest waiting query that it may serve.
    fn ranks(&self) -> bool {
        false
    }

    /// Handles the arrival of a query for this group, and calls `probe` for each server that is to
    /// be probed.
    fn probes(&mut self, _: Levels<'_>, _: &mut Rng, _probe: impl FnMut(ServerId)) {}

    /// Handles the result of a probe.
    fn probed(&mut self, _now: Timestamp, _probed: Probed) {}

    /// Handles a server that gets new copies again after it was ejected or down.
    fn restored(&mut self, server: ServerId) {
        if let Some(seen) = self.seen() {
            seen.restored(server);
        }
    }

    /// Handles the end of a copy, `took_ns` after it was sent. The outcome is `None` if the copy
    /// was stopped or lost. In that case, its response would have taken at least `took_ns`. For a
    /// copy that was refused or failed, `took_ns` is at least the typical time of a good response
    /// from its server.
    fn ended(&mut self, server: ServerId, now: Timestamp, took_ns: u64, outcome: Option<Outcome>) {
        if let Some(seen) = self.seen() {
            seen.ended(server, now, took_ns, outcome);
        }
    }
}
