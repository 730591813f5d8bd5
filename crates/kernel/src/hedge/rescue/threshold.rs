//! Computes the age from which a rescue pays off.
//!
//! Let F_S be the survival function of the run times of first copies, F_P the survival function
//! that they would have without hiccups, D = F_S − F_P the share of queries that are stuck at an
//! age e, and μ the mean run time of a second copy that wins. T is the least age e at which, in
//! server time per query,
//!
//! - *cleanup, pre-empt*: ∫ₑ^∞ D − 2 μ D ≥ κ ∫ₑ^(e+g) F_P. A rescue of a stuck query saves the rest
//!   of the first copy and costs the second one. A rescue of a long query runs until the first copy
//!   ends, or until it is given up after a run time of g. g is T or the age that few long queries
//!   reach, whichever is greater: at a low T, a rescue that runs for longer than T is not
//!   necessarily stuck;
//! - *no cancel*: ∫ₑ^∞ D − μ D ≥ κ (e F_P + ∫ₑ^∞ F_P + μ D). The gain is only the time of the stuck
//!   query, and every second copy runs to completion.
//!
//! κ weighs the time spent against the time saved, because time is spent while a server is already
//! blocked. Let w be the share of queries that end while others wait. For cleanup, κ is 24 w,
//! limited to the range from 1 to 3: if no query waits, the time spent delays no query, and with κ
//! = 3 even the median improves. For pre-empt, κ is 2 w, because its second copies run in slots
//! that no query needs. For no cancel, κ is 3 / (2 (1 − w)²), which rises steeply if many queries
//! wait. In addition, the lost rescues must stay within the budget.

use super::Version;
use super::tries::Tries;
use crate::hedge::histogram::{BINS, PerBin, bin, edge};

/// κ of cleanup: its minimum, the factor that multiplies w, and its maximum. The maximum is also κ
/// of no cancel, before it is weighted by how many queries wait.
const ALONE: f32 = 1.0;
const CROWDED: f32 = 24.0;
const CAUTION: f32 = 3.0;

/// The budget must cover this many times the expected number of lost rescues, so that random
/// variation leaves some of it for the next stuck query.
const MARGIN: f32 = 1.25;

/// The share of long queries that may reach the age at which rescues are given up.
const LONG: f32 = 0.003;

/// The maximum of w that is used for no cancel.
const CROWD: f32 = 0.95;

#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) version: Version,
    pub(super) budget: f32,
    /// w.
    pub(super) crowded: f32,
    /// F_S.
    pub(super) survival: &'a PerBin,
    /// F_P, but including stuck queries that were not rescued.
    pub(super) own: &'a PerBin,
    pub(super) tries: &'a Tries,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pays {
    /// T.
    pub(super) age_ns: u64,
    /// The run time at which a rescue is given up if a third copy replaces one of the two.
    pub(super) give_up_ns: u64,
    /// The run time at which a rescue is given up because its query counts as long. It is longer if
    /// fewer queries wait.
    pub(super) long_ns: u64,
    /// The maximum number of waiting queries that a suspect overtakes.
    pub(super) overtakes: u32,
    /// D at T.
    pub(super) stuck: f32,
}

struct Age {
    ns: f32,
    /// D, and its integral from this age on.
    stuck: f32,
    stuck_ns: f32,
    /// F_P, its integral from this age on, and the part of the integral before a rescue is given
    /// up.
    long: f32,
    long_ns: f32,
    bounded_ns: f32,
}

impl Question<'_> {
    /// Returns the least age at which a rescue pays off, if D is assumed to be `trust` times the
    /// observed share. `None` if there is no such age.
    pub(super) fn evaluate(&self, trust: f32) -> Option<Pays> {
        let mean = self.tries.mean_second_ns();
        let reached = self.survival.iter().rposition(|&above| above > 0.0)?.min(BINS - 2);
        let mut long_ns = [0.0_f32; BINS + 1];
        let mut pays = None;
        let wait = (CROWDED / CAUTION * self.crowded).clamp(0.25, 1.0);
        let rare = LONG * wait * wait;
        // The lowest bins that are reached by at most the shares `LONG` and `rare` of long queries.
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

    /// Whether the budget allows rescues from this age on.
    fn is_affordable(&self, age: &Age) -> bool {
        match self.version {
            Version::Cleanup | Version::Preempt => MARGIN * age.long <= self.budget,
            Version::NoCancel => age.long + age.stuck <= self.budget,
        }
    }

    /// The gain and the cost of rescues from this age on.
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

    /// The maximum number of waiting queries that a suspect overtakes. If servers can stop copies,
    /// a rescue frees a server earlier than otherwise, so all queries gain. If they cannot, each
    /// waiting query is delayed by the rescue, and so are those that arrive before the queue is
    /// empty.
    fn overtakes(&self, age: &Age, mean: f32) -> u32 {
        if self.version != Version::NoCancel {
            return u32::MAX;
        }
        let gain = age.stuck_ns - mean * age.stuck;
        let takes = mean * age.stuck + age.ns * age.long + age.long_ns;
        (gain / takes / CAUTION) as u32
    }
}
