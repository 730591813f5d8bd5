//! The interface of a pick: a strategy that chooses the server for a copy.

use alloc::boxed::Box;
use core::fmt;
use core::num::NonZeroU64;

use super::seen::Seen;
use crate::Rng;
use crate::config::Site;
use crate::descriptor::{Arguments, Descriptor, Needs};
use crate::event::{Feedback, Probed};
use crate::id::{GroupId, ServerId};
use crate::levels::Levels;
use crate::order::Avoid;
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// Builds the pick of a cell.
pub type NewPick = fn(&Arguments, Site<'_>) -> Box<dyn Pick>;

impl Descriptor<NewPick> {
    /// A pick whose only form is its name.
    pub const fn pick(
        name: &'static str,
        about: &'static str,
        needs: fn(&Arguments) -> Needs,
        builds: NewPick,
    ) -> Self {
        Self { name, forms: &[], about, needs, builds }
    }
}

/// A copy for which a server is to be picked.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The group whose servers can serve its query.
    pub group: GroupId,
    /// The servers that it must not go to.
    pub avoid: Avoid,
    /// The expected cost of its query. `None` if it is unknown, or if the pick does not declare
    /// [`crate::Needs::hints`].
    pub cost_hint: Option<NonZeroU64>,
}

/// A copy that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The server that held it.
    pub server: ServerId,
    /// The time of its end.
    pub now: Timestamp,
    /// The time since it was sent, in ns. For a copy that was refused or failed, this is at least
    /// the typical time of a good response from its server. For a copy that was stopped or lost, a
    /// response would have taken at least this time.
    pub took_ns: u64,
    /// `None` if the copy was stopped or lost.
    pub outcome: Option<Outcome>,
    /// The size of its response in bytes, without the head. It is 0 if the driver has not reported
    /// it ([`crate::Event::Received`]).
    pub bytes: u64,
}

/// A strategy that picks a server for a copy from the servers of a group. All hooks but
/// [`Self::pick`] do nothing by default, and are called only if the [descriptor](crate::Descriptor)
/// of the pick declares that the pick [needs](crate::Needs) them.
pub trait Pick: fmt::Debug + Send {
    /// Returns an available server that the copy does not have to avoid. If there is such a server,
    /// a pick must return one, because the cell relies on this for work conservation. Even then,
    /// the copy does not always start, for example if a budget is exhausted.
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId>;

    /// Handles the start of a copy, even if neither this pick nor a hedge chose its server. Starts
    /// are reported after the event that caused them. If one event starts several copies, for
    /// example because a server went down, the later calls to [`Self::pick`] do not know about the
    /// earlier starts. Needs [`crate::Needs::copies`].
    fn started(&mut self, _server: ServerId, _now: Timestamp) {}

    /// Handles the end of a copy. Needs [`crate::Needs::copies`].
    fn ended(&mut self, copy: Ended) {
        if let Some(seen) = self.seen() {
            seen.ended(copy.server, copy.now, copy.took_ns, copy.outcome);
        }
    }

    /// Handles a server that gets new copies again after it was ejected or down. Needs
    /// [`crate::Needs::copies`].
    fn restored(&mut self, server: ServerId) {
        if let Some(seen) = self.seen() {
            seen.restored(server);
        }
    }

    /// Forgets a server that has left the cell, and forgets it again when another one takes its
    /// place, because copies may have ended in the meantime. It is called whatever the pick needs.
    fn forget(&mut self, server: ServerId) {
        self.restored(server);
    }

    /// Handles the feedback of a server. The response that carried the feedback is reported next.
    /// Needs [`crate::Needs::feedback`].
    fn feedback(&mut self, server: ServerId, now: Timestamp, feedback: Feedback) {
        if let Some(seen) = self.seen() {
            seen.add_feedback(server, now, feedback);
        }
    }

    /// Handles the arrival of a query for this group, and calls `probe` for each server that is to
    /// be probed. Needs [`crate::Needs::probes`].
    fn probes(&mut self, _: Levels<'_>, _: &mut Rng, _probe: &mut dyn FnMut(ServerId)) {}

    /// Handles the result of a probe. Needs [`crate::Needs::probes`].
    fn probed(&mut self, _now: Timestamp, _probed: Probed) {}

    /// The averages by which the pick ranks servers, if it uses averages. In that case, [`Seen`]
    /// handles feedback, ended copies, and servers that return.
    fn seen(&mut self) -> Option<&mut Seen> {
        None
    }

    /// The score of a server, for metrics: lower is better. `None` if the pick keeps no score.
    fn score(&self, _server: ServerId, _levels: Levels<'_>) -> Option<f64> {
        None
    }
}
