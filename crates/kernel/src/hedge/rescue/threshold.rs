//! From which age on a rescue pays.
//!
//! With survival functions F_S of how long first copies run, F_P of how long they would without
//! hiccups, D = F_S − F_P the share of queries that are stuck at an age e, and μ the mean time of a
//! second copy that wins, T is the least age at which, in server time per query,
//!
//! - *cleanup, pre-empt*: ∫ₑ^∞ D − 2 μ D ≥ κ ∫ₑ^(e+g) F_P. Of a stuck query the rest of the first copy is
//!   saved, and the second one is run; of a long one a second copy runs until the first ends, or until
//!   it is given up, at its age g. That is T, or the age that few long queries reach, if it is greater: at a low T a
//!   rescue that takes its time is not stuck;
//! - *no cancel*: ∫ₑ^∞ D − μ D ≥ κ (e F_P + ∫ₑ^∞ F_P + μ D). What is gained is the stuck query's time
//!   only, and every second copy runs to its end.
//!
//! κ is what time that is spent is worth more than time that is saved, as it is spent where a server
//! is blocked already. For cleanup κ is 24 w from 1 to 3, if a share w of queries ends while others wait: where none
//! waits, time that is spent delays no query, and at 3 even the median gains. It is 2 w for pre-empt, whose second
//! copies run in slots that no query wants; 3 / 2 (1 − w)²
//! for no cancel, where few may wait besides. Besides, the queries that are rescued in vain stay within the budget.

use super::Version;
use super::tries::Tries;
use crate::hedge::histogram::{BINS, PerBin, bin, edge};

/// κ of cleanup, at least, per share of the queries that end while others wait, and at most. The last one is κ of no
/// cancel, too, before it is weighed by how many wait.
const ALONE: f32 = 1.0;
const CROWDED: f32 = 24.0;
const CAUTION: f32 = 3.0;

/// How many times the expected number of rescues in vain the budget must cover. Chance is to leave some of it, or the
/// next query that is stuck finds none.
const MARGIN: f32 = 1.25;

/// The share of long queries that may reach the age at which rescues are given up.
const LONG: f32 = 0.003;

/// More than such a share does not count.
const CROWD: f32 = 0.95;

#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) version: Version,
    pub(super) budget: f32,
    /// w.
    pub(super) crowded: f32,
    /// F_S.
    pub(super) survival: &'a PerBin,
    /// F_P, but for stuck queries that were not rescued.
    pub(super) own: &'a PerBin,
    pub(super) tries: &'a Tries,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pays {
    /// From this age on.
    pub(super) age_ns: u64,
    /// A rescue has run for long at this age.
    pub(super) give_up_ns: u64,
    /// It is given up as long at this one, which is the later the fewer queries wait.
    pub(super) long_ns: u64,
    /// If no more queries wait.
    pub(super) overtakes: u32,
    /// D at that age.
    pub(super) stuck: f32,
}

struct Age {
    ns: f32,
    /// D, and its integral from here.
    stuck: f32,
    stuck_ns: f32,
    /// F_P, its integral from here, and the part of that before a rescue is given up.
    long: f32,
    long_ns: f32,
    bounded_ns: f32,
}

impl Question<'_> {
    /// The first age at which it pays, with D believed to be `trust` times what was seen.
    pub(super) fn ask(&self, trust: f32) -> Option<Pays> {
        let mean = self.tries.mean_second_ns();
        let reached = self.survival.iter().rposition(|&above| above > 0.0)?.min(BINS - 2);
        let mut long_ns = [0.0_f32; BINS + 1];
        let mut pays = None;
        let wait = (CROWDED / CAUTION * self.crowded).clamp(0.25, 1.0);
        let rare = LONG * wait * wait;
        // The first of the last bins that only few long queries reach.
        let (mut give_up, mut last) = (reached + 1, reached + 1);
        for at in (0..=reached).rev() {
            let (stuck, stuck_ns) = self.tries.stuck(edge(at));
            let others = self.survival[at] - stuck * trust.max(1.0);
            let long = others.max(0.0).min(self.own[at]);
            if long <= LONG && give_up == at + 1 {
                give_up = at;
            }
            if long <= rare && last == at + 1 {
                last = at;
            }
            long_ns[at] = long_ns[at + 1] + long * (edge(at + 1) - edge(at)) as f32;
            let give_up_ns = edge(at.max(give_up));
            let ends = bin(edge(at).saturating_add(give_up_ns)).min(BINS);
            let age = Age {
                ns: edge(at) as f32,
                stuck,
                stuck_ns,
                long,
                long_ns: long_ns[at],
                bounded_ns: long_ns[at] - long_ns[ends],
            };
            let (gain, cost) = self.balance(&age, mean);
            if stuck > 0.0 && trust * gain >= cost && self.is_affordable(&age) {
                let overtakes = self.overtakes(&age, mean);
                let long_ns = edge(at.max(last));
                pays = Some(Pays { age_ns: edge(at), give_up_ns, long_ns, overtakes, stuck });
            }
        }
        pays
    }

    /// Does the budget allow it?
    fn is_affordable(&self, age: &Age) -> bool {
        match self.version {
            Version::Cleanup | Version::Preempt => MARGIN * age.long <= self.budget,
            Version::NoCancel => age.long + age.stuck <= self.budget,
        }
    }

    /// What rescues from this age on gain, and what they cost.
    fn balance(&self, age: &Age, mean: f32) -> (f32, f32) {
        let Age { ns, stuck, stuck_ns, long, long_ns, bounded_ns } = *age;
        match self.version {
            Version::Cleanup => {
                let kappa = (CROWDED * self.crowded).clamp(ALONE, CAUTION);
                (stuck_ns - 2.0 * mean * stuck, kappa * bounded_ns)
            }
            Version::Preempt => (stuck_ns - 2.0 * mean * stuck, 2.0 * bounded_ns * self.crowded),
            Version::NoCancel => {
                let spent = ns * long + long_ns + mean * stuck;
                let free = 1.0 - self.crowded.min(CROWD);
                (stuck_ns - mean * stuck, CAUTION / 2.0 * spent / (free * free))
            }
        }
    }

    /// How many queries may wait that a suspect overtakes. Where servers stop, a rescue frees one
    /// sooner than it would be free, and all gain; where they do not, each waits for the rescue, and so
    /// do those that come before the queue is empty.
    fn overtakes(&self, age: &Age, mean: f32) -> u32 {
        if self.version != Version::NoCancel {
            return u32::MAX;
        }
        let gain = age.stuck_ns - mean * age.stuck;
        let takes = mean * age.stuck + age.ns * age.long + age.long_ns;
        (gain / takes / CAUTION) as u32
    }
}
