//! The first minute: rescues before it is known whether they pay.
//!
//! Explorations wait for idle servers and give way to every query, so what they learn comes late, and the queries that
//! are stuck meanwhile stay stuck. So from [`FEW`] run times on, a query is a suspect at the age that 2 % of run times
//! reach, or earlier where more queries than that are stuck: where a query still has nearly the longest time to run. It is
//! rescued as later ones are, within the same budget, and given up at the same age. What comes of it counts as an
//! exploration that nothing could have stopped. Three wins, and the threshold of `threshold.rs` takes over.
//!
//! Where nothing is ever stuck, such rescues only cost. A credit bounds that, in mean run times: a rescue in vain costs
//! its run time and half of a mean one, a win earns [`WIN`]. Without credit suspects overtake no queue any more. In debt,
//! and after [`TRIES`] of them, only a few of the oldest queries are suspects: at high loads idle servers are so rare that
//! explorations would take hours to find hiccups that are rare, too. One that runs for long blocks a server for longer,
//! and more queries with it, so there are the fewer the longer it may run.
//!
//! Cost: O(1) per record and epoch.

use super::Version;

/// No conclusions from fewer run times.
pub(super) const FEW: f32 = 50.0;

/// The share of run times that reach T, unless more are stuck.
pub(super) const TAIL: f32 = 0.02;

/// The share of run times that reach T in debt.
pub(super) const LAST: f32 = 0.002;

/// What such rescues may cost, per query, if one that runs for twice the mean run time costs 4.
const TRICKLE: f32 = 0.001;

/// What there is to spend at first, at most, and per win; in mean run times.
const CREDIT: (f32, f32) = (4.0, 8.0);
const WIN: f32 = 8.0;

/// What a rescue in vain costs besides its run time: it delayed a query that waited.
const DELAY: f32 = 0.5;

/// Below this credit there are few of them, in mean run times: on heavy tails each takes long.
const DEBT: f32 = -16.0;
const TRIES: u32 = 128;

/// Which queries are suspects until the next epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspects {
    /// From this age on.
    pub(super) age_ns: u64,
    /// How many queries they may overtake.
    pub(super) overtakes: u32,
    /// The share of queries that may be suspects is 1 over this.
    pub(super) every: u32,
}

/// Ages that few run times reach, in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ages {
    pub(super) late_ns: u64,
    pub(super) last_ns: u64,
    pub(super) mean_ns: f32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cold {
    over: bool,
    /// No other age is known, and the first minute is not over.
    rules: bool,
    tries: u32,
    credit: f32,
}

impl Cold {
    /// Where servers cannot stop, a rescue in vain costs too much; and the budget must allow what is tried.
    pub(super) fn new(version: Version, budget: f32) -> Self {
        let over = version == Version::NoCancel || budget < TAIL;
        Self { over, rules: false, tries: 0, credit: CREDIT.0 }
    }

    /// Are the rescues that end in this time its own?
    pub(super) fn rules(&self) -> bool {
        self.rules
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

    /// None where a `learned` age is known, or the first minute is over.
    pub(super) fn suspects(&mut self, ages: Ages, learned: bool) -> Option<Suspects> {
        self.rules = !(self.over || learned);
        let Ages { late_ns, last_ns, mean_ns } = ages;
        let age_ns = if self.is_spent() { last_ns } else { late_ns };
        let overtakes = if self.credit >= 1.0 { u32::MAX } else { 0 };
        let runs = last_ns as f32 / mean_ns.max(1.0);
        let every = if self.is_spent() { (LAST * runs * runs / TRICKLE) as u32 } else { 1 };
        self.rules.then_some(Suspects { age_ns, overtakes, every: every.max(1) })
    }

    fn is_spent(&self) -> bool {
        self.credit < DEBT || self.tries >= TRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGES: Ages = Ages { late_ns: 700, last_ns: 900, mean_ns: 100.0 };

    #[test]
    fn without_credit_suspects_overtake_nothing() {
        let late = |overtakes| Some(Suspects { age_ns: 700, overtakes, every: 1 });
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
    fn in_debt_few_of_the_oldest_queries_are_suspects() {
        let mut cold = Cold::new(Version::Cleanup, TAIL);
        (0..20).for_each(|_| cold.lost(1.0));
        // Nine mean run times each: 81 times the share of 0.2 % is to be 0.1 %.
        assert_eq!(
            cold.suspects(AGES, false),
            Some(Suspects { age_ns: 900, overtakes: 0, every: 162 })
        );
        let heavy = Ages { last_ns: 9_000, ..AGES };
        assert_eq!(cold.suspects(heavy, false).map(|suspects| suspects.every), Some(16_200));
    }
}
