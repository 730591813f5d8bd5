//! A pick from outside of this crate, whose choices are checked: a copy never goes to a server that
//! is full, closed, out of service or to be avoided, or that does not serve the group. If the choice
//! is none of the others, the copy goes to the least loaded one. Cost: O(servers) per copy.

use alloc::boxed::Box;

use super::pick::{Ended, Pick, Wanted};
use super::seen::Seen;
use crate::Rng;
use crate::event::{Feedback, Probed};
use crate::id::ServerId;
use crate::levels::Levels;
use crate::time::Timestamp;

#[derive(Debug)]
pub(crate) struct Checked(pub(crate) Box<dyn Pick>);

impl Pick for Checked {
    fn pick(&mut self, copy: Wanted, levels: Levels<'_>, rng: &mut Rng) -> Option<ServerId> {
        let chosen = self.0.pick(copy, levels, rng).filter(|server| {
            levels.servers().contains(server)
                && levels.is_available(*server)
                && !copy.avoid.contains(*server)
        });
        chosen.or_else(|| levels.least(rng, copy.avoid))
    }

    fn started(&mut self, server: ServerId, now: Timestamp) {
        self.0.started(server, now);
    }

    fn ended(&mut self, copy: Ended) {
        self.0.ended(copy);
    }

    fn restored(&mut self, server: ServerId) {
        self.0.restored(server);
    }

    fn forget(&mut self, server: ServerId) {
        self.0.forget(server);
    }

    fn feedback(&mut self, server: ServerId, now: Timestamp, feedback: Feedback) {
        self.0.feedback(server, now, feedback);
    }

    fn probes(&mut self, levels: Levels<'_>, rng: &mut Rng, probe: &mut dyn FnMut(ServerId)) {
        let mut known = |server| {
            if levels.servers().contains(&server) {
                probe(server);
            }
        };
        self.0.probes(levels, rng, &mut known);
    }

    fn probed(&mut self, now: Timestamp, probed: Probed) {
        self.0.probed(now, probed);
    }

    fn seen(&mut self) -> Option<&mut Seen> {
        self.0.seen()
    }

    fn score(&self, server: ServerId, levels: Levels<'_>) -> Option<f64> {
        self.0.score(server, levels)
    }
}
