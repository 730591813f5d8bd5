//! The first minute: rescues before it is known whether they pay.
//!
//! Explorations wait for idle servers and give way to every query, so what they learn comes late, and the queries that
//! are stuck meanwhile stay stuck. So from [`FEW`] run times on, a query is a suspect at the age that 2 % of run times
//! reach, or earlier where more queries than that are stuck: where a query still has nearly the longest time to run. It is rescued as later ones are, within the same budget, and given up at the same age. What comes of it counts
//! as an exploration that nothing could have stopped. Three wins, and the threshold of `threshold.rs` takes over.
//!
//! Where nothing is ever stuck, such rescues only cost. A credit bounds that, in mean run times: a rescue in vain costs
//! its run time and half of a mean one, a win earns [`WIN`]. Without credit suspects overtake no queue any more.
//!
//! Cost: O(1) per record and epoch.

use super::Version;

/// No conclusions from fewer run times.
pub(super) const FEW: f32 = 50.0;

/// The share of run times that reach T, unless more are stuck.
pub(super) const TAIL: f32 = 0.02;

/// What there is to spend at first, at most, and per win; in mean run times.
const CREDIT: (f32, f32) = (4.0, 8.0);
const WIN: f32 = 8.0;

/// What a rescue in vain costs besides its run time: it delayed a query that waited.
const DELAY: f32 = 0.5;

/// Below this credit there are no such rescues, in mean run times: on heavy tails each takes long.
const DEBT: f32 = -16.0;

/// After so many tries without a threshold there is none.
const TRIES: u32 = 128;

#[derive(Clone, Copy, Debug)]
pub(super) struct Cold {
    over: bool,
    /// The last snapshot has its age.
    acts: bool,
    tries: u32,
    credit: f32,
}

impl Cold {
    /// Where servers cannot stop, a rescue in vain costs too much; and the budget must allow what is tried.
    pub(super) fn new(version: Version, budget: f32) -> Self {
        let over = version == Version::NoCancel || budget < TAIL;
        Self { over, acts: false, tries: 0, credit: CREDIT.0 }
    }

    /// Are the rescues of this time its own?
    pub(super) fn acts(&self) -> bool {
        self.acts
    }

    /// A rescue of its own was in vain. It ran for so many mean run times.
    pub(super) fn lost(&mut self, ran: f32) {
        self.tries += 1;
        self.credit -= DELAY + ran;
    }

    /// A rescue of its own won.
    pub(super) fn won(&mut self) {
        self.tries += 1;
        self.credit = (self.credit + WIN).min(CREDIT.1);
    }

    /// For good.
    pub(super) fn end(&mut self) {
        self.over = true;
    }

    /// The age of suspects until the next epoch, which is `late_ns` in this time, and how many queries they may overtake;
    /// none where a `learned` age is known, or the first minute is over.
    pub(super) fn suspects(&mut self, late_ns: u64, learned: bool) -> Option<(u64, u32)> {
        self.over |= self.tries >= TRIES;
        self.acts = !(self.over || learned || self.credit < DEBT);
        let overtakes = if self.credit >= 1.0 { u32::MAX } else { 0 };
        self.acts.then_some((late_ns, overtakes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_credit_suspects_overtake_nothing() {
        let mut cold = Cold::new(Version::Cleanup, TAIL);
        assert_eq!(cold.suspects(7, false), Some((7, u32::MAX)));
        (0..3).for_each(|_| cold.lost(1.0));
        assert_eq!(cold.suspects(7, false), Some((7, 0)));
        cold.won();
        assert_eq!(cold.suspects(7, false), Some((7, u32::MAX)));
        assert_eq!(cold.suspects(7, true), None);
        assert!(!cold.acts());
        (0..TRIES).for_each(|_| cold.won());
        assert_eq!(cold.suspects(7, false), None, "it has an end");
        assert_eq!(Cold::new(Version::NoCancel, TAIL).suspects(7, false), None);
    }
}
