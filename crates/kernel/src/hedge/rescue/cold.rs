//! The first minute: rescues queries before it is known whether rescues pay off.
//!
//! Explorations wait for idle servers and give way to every query, so their evidence comes late,
//! and queries that get stuck in the meantime stay stuck. Therefore, once [`FEW`] run times are
//! known, a query becomes a suspect at an age that only 2 % of run times reach. If more queries
//! than that are stuck, a query becomes a suspect earlier, namely at the last age at which the mean
//! remaining run time is still close to its maximum. Such a query is rescued like later suspects:
//! the same budget applies, and the rescue is given up at the same age. The result counts like that
//! of an exploration that could not be stopped. After three wins, the threshold of `threshold.rs`
//! takes over.
//!
//! If no query is ever stuck, these rescues are pure cost. A credit, in mean run times, bounds the
//! cost: a lost rescue costs its run time plus half of a mean run time, and a win earns [`WIN`].
//! Without credit, suspects are no longer served before the queue.
//!
//! When the policy is in debt or has made [`TRIES`] rescues, a query becomes a suspect only at an
//! age that hardly any query reaches. There must also be enough *means* for one more lost rescue. A
//! lost rescue costs the square of its run time, measured in mean run times, because a longer one
//! blocks a server for longer and delays more queries. Each query adds a little to the means, and a
//! win restores them to the maximum. So a few rare, long hiccups are enough evidence even at high
//! loads, where idle servers are so rare that explorations would take hours.
//!
//! Cost: O(1) per record and epoch.

use super::Version;
use crate::math::root;
use crate::time::NEVER_NS;

/// The number of run times below which nothing is concluded.
pub(super) const FEW: f32 = 50.0;

/// The share of run times that reach T, unless more queries are stuck.
pub(super) const TAIL: f32 = 0.02;

/// The share of run times that reach T while the policy is in debt: the maximum and the minimum.
pub(super) const RARE: (f32, f32) = (0.002, 0.000_06);

/// The means for rescues while the policy is in debt, in squared mean run times: the initial
/// amount, which is also the maximum, and the amount earned per query.
const MEANS: f32 = 64.0;
const EARNED: f32 = 0.0002;

/// The initial and the maximum credit, and the credit earned per win, in mean run times.
const CREDIT: (f32, f32) = (4.0, 8.0);
const WIN: f32 = 8.0;

/// The cost of a lost rescue in addition to its run time, because it delayed a waiting query.
const DELAY: f32 = 0.5;

/// The credit below which the policy is in debt, in mean run times.
const DEBT: f32 = -16.0;
const TRIES: u32 = 128;

/// The queries that are suspects until the next epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspects {
    /// The age from which a query is a suspect.
    pub(super) age_ns: u64,
    /// The number of waiting queries that a suspect may overtake.
    pub(super) overtakes: u32,
}

impl Suspects {
    pub(super) const NONE: Self = Self { age_ns: NEVER_NS, overtakes: 0 };
}

/// Ages that few run times reach, and the mean run time, in ns.
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
    /// Whether the cold start sets the age from which a query is a suspect. It does while no other
    /// age is known and the first minute is not over.
    rules: bool,
    tries: u32,
    credit: f32,
    means: f32,
}

impl Cold {
    /// A cold start. It is over from the start if the budget does not allow its rescues. The same
    /// holds if servers cannot stop copies, because a lost rescue then costs too much.
    pub(super) fn new(version: Version, budget: f32) -> Self {
        let over = version == Version::NoCancel || budget < TAIL;
        Self { over, rules: false, tries: 0, credit: CREDIT.0, means: MEANS }
    }

    /// Whether the rescues that are ending now were started by the cold start.
    pub(super) fn rules(&self) -> bool {
        self.rules
    }

    /// Counts a lost cold-start rescue that ran for `ran` mean run times.
    pub(super) fn lost(&mut self, ran: f32) {
        if self.is_in_debt() {
            self.means -= ran * ran;
        }
        self.tries += 1;
        self.credit -= DELAY + ran;
    }

    /// Adds the means that this number of ended queries earns.
    pub(super) fn earn(&mut self, queries: usize) {
        self.means = (self.means + EARNED * queries as f32).min(MEANS);
    }

    /// Counts a cold-start rescue that won.
    pub(super) fn won(&mut self) {
        self.tries += 1;
        self.means = MEANS;
        self.credit = (self.credit + WIN).min(CREDIT.1);
    }

    /// Ends the cold start permanently.
    pub(super) fn end(&mut self) {
        self.over = true;
    }

    /// The suspects of the cold start. `None` if an age is `learned`, or the first minute is over.
    pub(super) fn suspects(&mut self, ages: Ages, learned: bool) -> Option<Suspects> {
        self.rules = !(self.over || learned);
        self.rules.then(|| if self.is_in_debt() { self.rare(ages) } else { self.late(ages) })
    }

    fn late(&self, ages: Ages) -> Suspects {
        let overtakes = if self.credit >= 1.0 { u32::MAX } else { 0 };
        Suspects { age_ns: ages.late_ns, overtakes }
    }

    /// A rescue is given up after it has run for T, so T bounds the cost of a lost rescue.
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
