//! The first minute: rescues before it is known whether they pay.
//!
//! Explorations wait for idle servers and give way to every query, so what they learn comes late, and the queries that
//! are stuck meanwhile stay stuck. So from [`FEW`] run times on, a query is a suspect at the age that 2 % of run times
//! reach, or earlier where more queries than that are stuck: where a query still has nearly the longest time to run. It is
//! rescued as later ones are, within the same budget, and given up at the same age. What comes of it counts as an
//! exploration that nothing could have stopped. Three wins, and the threshold of `threshold.rs` takes over.
//!
//! Where nothing is ever stuck, such rescues only cost. A credit bounds that, in mean run times: a rescue in vain costs
//! its run time and half of a mean one, a win earns [`WIN`]. Without credit suspects overtake no queue any more.
//!
//! In debt, and after [`TRIES`] of them, a query is a suspect only at an age that hardly any reaches, and only if there are
//! *means* for one more rescue in vain. That costs the square of its run time, in mean run times, as it blocks a server for longer,
//! and more queries with it. Each query earns a little, and a win restores all. So a few hiccups that are rare and long
//! are enough to learn of them, also at high loads, where idle servers are so rare that explorations would take hours.
//!
//! Cost: O(1) per record and epoch.

use super::Version;
use crate::math::root;
use crate::time::NEVER_NS;

/// No conclusions from fewer run times.
pub(super) const FEW: f32 = 50.0;

/// The share of run times that reach T, unless more are stuck.
pub(super) const TAIL: f32 = 0.02;

/// The shares of run times that reach T in debt: at most, and at least.
pub(super) const RARE: (f32, f32) = (0.002, 0.000_06);

/// What rescues in debt may cost: at first and at most, and per query.
const MEANS: f32 = 64.0;
const EARNED: f32 = 0.0002;

/// What there is to spend at first, at most, and per win; in mean run times.
const CREDIT: (f32, f32) = (4.0, 8.0);
const WIN: f32 = 8.0;

/// What a rescue in vain costs besides its run time: it delayed a query that waited.
const DELAY: f32 = 0.5;

/// Below this credit it is in debt, in mean run times.
const DEBT: f32 = -16.0;
const TRIES: u32 = 128;

/// Which queries are suspects until the next epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspects {
    /// From this age on.
    pub(super) age_ns: u64,
    /// How many queries they may overtake.
    pub(super) overtakes: u32,
}

impl Suspects {
    pub(super) const NONE: Self = Self { age_ns: NEVER_NS, overtakes: 0 };
}

/// Ages that few run times reach, in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ages {
    pub(super) late_ns: u64,
    pub(super) rare_ns: u64,
    pub(super) rarest_ns: u64,
    pub(super) mean_ns: f32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cold {
    over: bool,
    /// No other age is known, and the first minute is not over.
    rules: bool,
    tries: u32,
    credit: f32,
    means: f32,
}

impl Cold {
    /// Where servers cannot stop, a rescue in vain costs too much; and the budget must allow what is tried.
    pub(super) fn new(version: Version, budget: f32) -> Self {
        let over = version == Version::NoCancel || budget < TAIL;
        Self { over, rules: false, tries: 0, credit: CREDIT.0, means: MEANS }
    }

    /// Are the rescues that end in this time its own?
    pub(super) fn rules(&self) -> bool {
        self.rules
    }

    /// A rescue of its own was in vain. It ran for so many mean run times.
    pub(super) fn lost(&mut self, ran: f32) {
        if self.is_in_debt() {
            self.means -= ran * ran;
        }
        self.tries += 1;
        self.credit -= DELAY + ran;
    }

    /// So many queries have ended.
    pub(super) fn earn(&mut self, queries: usize) {
        self.means = (self.means + EARNED * queries as f32).min(MEANS);
    }

    /// A rescue of its own won.
    pub(super) fn won(&mut self) {
        self.tries += 1;
        self.means = MEANS;
        self.credit = (self.credit + WIN).min(CREDIT.1);
    }

    /// For good.
    pub(super) fn end(&mut self) {
        self.over = true;
    }

    /// None where a `learned` age is known, or the first minute is over.
    pub(super) fn suspects(&mut self, ages: Ages, learned: bool) -> Option<Suspects> {
        self.rules = !(self.over || learned);
        self.rules.then(|| if self.is_in_debt() { self.rare(ages) } else { self.late(ages) })
    }

    fn late(&self, ages: Ages) -> Suspects {
        let overtakes = if self.credit >= 1.0 { u32::MAX } else { 0 };
        Suspects { age_ns: ages.late_ns, overtakes }
    }

    /// A rescue is given up at the age T, so T bounds what one in vain costs.
    fn rare(&self, ages: Ages) -> Suspects {
        let affordable_ns = (root(self.means.max(0.0)) * ages.mean_ns) as u64;
        if affordable_ns < ages.rare_ns {
            return Suspects::NONE;
        }
        Suspects { age_ns: ages.rarest_ns.min(affordable_ns), overtakes: u32::MAX }
    }

    fn is_in_debt(&self) -> bool {
        self.credit < DEBT || self.tries >= TRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGES: Ages = Ages { late_ns: 400, rare_ns: 600, rarest_ns: 900, mean_ns: 100.0 };

    #[test]
    fn without_credit_suspects_overtake_nothing() {
        let late = |overtakes| Some(Suspects { age_ns: 400, overtakes });
        let mut cold = Cold::new(Version::Cleanup, TAIL);
        assert_eq!(cold.suspects(AGES, false), late(u32::MAX));
        (0..3).for_each(|_| cold.lost(1.0));
        assert_eq!(cold.suspects(AGES, false), late(0));
        cold.won();
        assert_eq!(cold.suspects(AGES, false), late(u32::MAX));
        assert_eq!(cold.suspects(AGES, true), None);
        assert!(!cold.rules());
        assert_eq!(Cold::new(Version::NoCancel, TAIL).suspects(AGES, false), None);
        cold.end();
        assert_eq!(cold.suspects(AGES, false), None);
    }

    #[test]
    fn in_debt_a_rescue_is_tried_if_there_are_means_for_one_in_vain() {
        let mut cold = Cold::new(Version::Cleanup, TAIL);
        (0..14).for_each(|_| cold.lost(1.0));
        let at = |age_ns| Some(Suspects { age_ns, overtakes: u32::MAX });
        assert_eq!(cold.suspects(AGES, false), at(800), "8 mean run times are affordable");
        let heavy = Ages { rare_ns: 900, rarest_ns: 9_000, ..AGES };
        assert_eq!(cold.suspects(heavy, false), Some(Suspects::NONE), "9 are not");
        cold.lost(6.0);
        assert_eq!(cold.suspects(AGES, false), Some(Suspects::NONE));
        cold.earn(100_000);
        assert_eq!(cold.suspects(AGES, false), at(692), "20 have been earned");
        cold.earn(usize::MAX);
        assert_eq!(cold.suspects(AGES, false), at(800), "no more than at first");
    }
}
