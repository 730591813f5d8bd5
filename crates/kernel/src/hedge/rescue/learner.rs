//! What a service learns about its stuck queries: from which age on a rescue pays.
//!
//! Until enough rescues have won it explores: where a server is idle, few queries get a second copy
//! early, which any query that waits may have stopped. Three wins show that there are stuck queries;
//! from then on T is the first age at which a rescue pays (`threshold.rs`), as long as there is one.
//! Once there are enough, nothing is explored: the rescues themselves tell what is to be known. Where it
//! turns out that rescues do not pay at any age, the policy is per-shard queuing again, and twice as many
//! wins are needed for the next attempt; or none, where it soon turns out that they do pay.
//!
//! Run times fade: after 65,536 queries, or 2,048 where these tell that the workload has changed.
//!
//! Cost: O(1) per record; per epoch O(bins · wins), which is 30,000 steps or so. Memory: 20 KB.

use alloc::boxed::Box;

use super::Version;
use super::histogram::{BINS, Histogram, PerBin, bin, edge};
use super::record::{Exploration, Record, Snapshot, Tried};
use super::threshold::{Pays, Question};
use super::tries::Tries;
use crate::time::NEVER_NS;

/// For how many run times the histograms remember.
const LONG: f32 = 65_536.0;
const SHORT: f32 = 2_048.0;

/// The workload has changed where the run times of late differ so much from those of before: by a
/// fifth, in the mean of logarithms.
const DRIFT: f32 = 3.0;

/// No conclusions from fewer run times.
const FEW: f32 = 200.0;

/// Wins that it takes to begin with rescues, at first and at most.
const WINS: (f32, f32) = (3.0, 48.0);

/// Rescues that are a better source than explorations.
const RESCUES: u32 = 64;

/// For so many queries what came of rescues is remembered after they were given up.
const REMEMBERED: u32 = 32_768;

/// Where they still pay after so many rescues, it was right to begin with them.
const PROVEN: u32 = 8 * RESCUES;

/// Explorations that cannot be stopped may take this share of the servers' time, and so many times as
/// long as the first query in advance.
const SPENT: f32 = 0.001;
const ADVANCE: f32 = 256.0;

/// After so many explorations they begin to become rarer; sooner where they cannot be stopped.
const PATIENCE: (u32, u32) = (512, 64);

/// Explorations that cannot be stopped are so many times as rare: one of them may be of a query so long
/// that its second copy blocks a shard.
const RARER: f32 = 2.0;

/// Explorations become so many times as rare, at most.
const MOST_FADED: u32 = 64;

/// Standard errors by which a share of stuck queries may be smaller than was seen, where that would be
/// enough; and greater, before it is said not to be enough.
const DOUBT: f32 = 0.5;
const HOPE: f32 = 2.0;

/// How many audits the mean stuck time is of, about. So many times as many wins as there were audits
/// pass until the next one: an audit blocks a server, which would be free.
const AUDITS: f32 = 20.0;
const WINS_PER_AUDIT: f32 = 12.0;

/// What a service learns. Cells publish records; at fixed epochs they are absorbed, and the snapshot
/// goes to all cells.
#[derive(Clone, Debug)]
pub struct Learner {
    version: Version,
    budget: f32,
    /// How long first copies run: those that were stopped for as long as they are believed to.
    late: Histogram,
    runs: Histogram,
    /// How long the copies run that answer, since there are rescues.
    answers: Histogram,
    /// By level of exploration.
    explored: [Tries; 2],
    rescued: Tries,
    /// How much longer than the second copy the first one runs that is stuck, in ns.
    stuck_ns: f32,
    audits: f32,
    unaudited: u32,
    /// Wins of late, of whatever second copies.
    recent: f32,
    /// The share of queries that end while others wait.
    crowded: f32,
    /// Server time that may be spent on explorations which cannot be stopped, in ns.
    credit_ns: f32,
    /// Explorations since rescues were last found to pay.
    fruitless: u32,
    /// Are there rescues?
    rescues: bool,
    /// Queries since rescues were given up.
    fallen: u32,
    needed: f32,
    survival: PerBin,
    own: PerBin,
    snapshot: Snapshot,
    status: Status,
}

/// Where a learner stands, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    /// Rescues that won.
    pub won: u64,
    /// Rescues that did not.
    pub lost: u64,
    /// Explorations that won.
    pub explored_won: u64,
    /// Explorations that did not.
    pub explored_lost: u64,
    /// How often rescues were found not to pay: per-shard queuing again.
    pub fallbacks: u64,
    /// The share of queries that are stuck at the age T, as far as is known.
    pub stuck: f32,
}

impl Learner {
    /// It knows nothing. At most a share of `budget` of the queries is to be rescued in vain.
    #[must_use]
    pub fn new(version: Version, budget: f64) -> Self {
        Self {
            version,
            budget: budget as f32,
            late: Histogram::new((SHORT, SHORT)),
            runs: Histogram::new((SHORT, LONG)),
            answers: Histogram::new((SHORT, LONG)),
            explored: Default::default(),
            rescued: Tries::default(),
            stuck_ns: 0.0,
            audits: 0.0,
            unaudited: 0,
            recent: 0.0,
            crowded: 0.3,
            credit_ns: 0.0,
            fruitless: 0,
            rescues: false,
            fallen: 0,
            needed: WINS.0,
            survival: Box::new([1.0; BINS]),
            own: Box::new([1.0; BINS]),
            snapshot: Snapshot::NOTHING,
            status: Status::default(),
        }
    }

    /// What all cells are to go by until the next epoch.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Takes in what the cells have recorded in an epoch, in the order of cells.
    pub fn absorb(&mut self, records: &[Record]) {
        self.fallen = self.fallen.saturating_add(records.len() as u32);
        for record in records {
            match *record {
                Record::First { ran_ns, tried, crowded } => {
                    self.ended(crowded);
                    self.ran(ran_ns, ran_ns);
                    if let Some(tried) = tried {
                        self.count(tried, false);
                        self.add(tried, ran_ns);
                    }
                }
                Record::Second { ran_ns, tried, crowded } => {
                    self.ended(crowded);
                    self.won(ran_ns, tried);
                }
                Record::Audit { ran_ns, second_ns } => {
                    self.unaudited = 0;
                    let longer = ran_ns.saturating_sub(second_ns) as f32;
                    self.audits += 1.0;
                    self.stuck_ns += (longer - self.stuck_ns) / self.audits.min(AUDITS);
                }
            }
        }
        if self.late.count() >= FEW {
            self.conclude();
        }
    }

    fn ended(&mut self, crowded: bool) {
        self.recent *= 1.0 - 0.25 / LONG;
        self.crowded += (f32::from(u8::from(crowded)) - self.crowded) / SHORT;
    }

    /// A query ended: how long its first copy ran, and the one that answered.
    fn ran(&mut self, first_ns: u64, answer_ns: u64) {
        let advance = if self.late.count() < 1.0 { ADVANCE } else { SPENT };
        self.credit_ns += advance * answer_ns as f32;
        self.late.add(first_ns);
        self.runs.add(first_ns);
        self.answers.add(answer_ns);
    }

    fn won(&mut self, second_ns: u64, tried: Option<Tried>) {
        self.recent += 1.0;
        self.unaudited = self.unaudited.saturating_add(1);
        let Some(tried) = tried else { return self.ran(second_ns, second_ns) };
        self.count(tried, true);
        let least = tried.age_ns.saturating_add(second_ns);
        let first_ns = least.max(second_ns.saturating_add(self.stuck_ns as u64));
        self.ran(first_ns, second_ns);
        self.tries(tried).won(second_ns, first_ns);
        self.add(tried, second_ns);
    }

    /// A try has ended; its second copy runs for so long, if nobody stops it.
    fn add(&mut self, tried: Tried, second_ns: u64) {
        let share = self.survival[bin(tried.age_ns)];
        self.tries(tried).add(share);
        if !tried.rescue {
            self.fruitless = self.fruitless.saturating_add(1);
            self.credit_ns -= second_ns as f32;
        }
    }

    fn tries(&mut self, Tried { age_ns, rescue }: Tried) -> &mut Tries {
        let level = usize::from(age_ns < self.snapshot.explore[0].age_ns);
        if rescue { &mut self.rescued } else { &mut self.explored[level] }
    }

    fn count(&mut self, tried: Tried, won: bool) {
        let Status { won: w, lost, explored_won, explored_lost, .. } = &mut self.status;
        let counter = match (tried.rescue, won) {
            (true, true) => w,
            (true, false) => lost,
            (false, true) => explored_won,
            (false, false) => explored_lost,
        };
        *counter += 1;
    }

    fn conclude(&mut self) {
        let drift = self.late.center() - self.runs.center();
        if !(-DRIFT..=DRIFT).contains(&drift) {
            self.runs = self.late.remembered_for((SHORT, LONG));
            self.answers = Histogram::new((SHORT, LONG));
            self.audits = self.audits.min(WINS.0);
        }
        self.runs.survival(&mut self.survival);
        if self.answers.count() >= SHORT {
            self.answers.survival(&mut self.own);
        } else {
            self.own.fill(1.0);
        }
        self.rescues = self.rescues || self.begins() || self.resumes();
        let pays = if self.rescues { self.threshold() } else { None };
        self.status.stuck = pays.map_or(0.0, |pays| pays.stuck);
        self.snapshot = Snapshot {
            suspect_ns: pays.map_or(NEVER_NS, |pays| pays.age_ns),
            overtakes: pays.map_or(0, |pays| pays.overtakes),
            explore: self.exploration(),
            at_once: self.recent >= WINS.0,
            audit: self.audits < WINS.0
                || self.unaudited as f32 >= WINS_PER_AUDIT * self.audits.min(AUDITS),
        };
    }

    /// From which age on a rescue pays. What is doubtful is not believed; but rather than to give up
    /// for want of evidence, it is, until there is more.
    fn threshold(&mut self) -> Option<Pays> {
        if !self.is_known() {
            // Of two levels of exploration one may be too late for most that are stuck.
            let enough = self.explored.iter().filter(|tries| tries.wins() >= WINS.0);
            let pays = enough.filter_map(|tries| self.ask(tries, true));
            return pays.min_by_key(|pays| pays.age_ns).or_else(|| self.attempt());
        }
        let pays = self.ask(&self.rescued, true);
        if pays.is_none() {
            // Per-shard queuing again, and more doubtful than before.
            self.rescues = false;
            self.needed = (2.0 * self.needed).min(WINS.1);
            self.explored = Default::default();
            self.fallen = 0;
            self.status.fallbacks += 1;
        } else if self.rescued.count() >= PROVEN {
            self.needed = WINS.0;
            self.fruitless = 0;
        }
        pays
    }

    /// Have explorations shown that there are stuck queries?
    fn begins(&mut self) -> bool {
        let wins = self.explored.iter().map(Tries::wins).fold(0.0, f32::max);
        let begins = wins >= self.needed;
        if begins {
            self.rescued = Tries::default();
            // From now on few that are stuck are taken for long.
            self.answers = Histogram::new((SHORT, LONG));
        }
        begins
    }

    /// Do rescues pay after all, by what came of them before they were given up? Run times may have been
    /// unusual, as while a server became slow.
    fn resumes(&self) -> bool {
        let remembers = self.is_known() && self.fallen <= REMEMBERED;
        remembers && self.ask(&self.rescued, false).is_some()
    }

    /// Are there enough rescues to tell what comes of them?
    fn is_known(&self) -> bool {
        self.rescued.count() >= RESCUES
    }

    /// Where do rescues pay, after what came of these tries?
    fn ask(&self, tries: &Tries, hope: bool) -> Option<Pays> {
        let question = Question {
            version: self.version,
            budget: self.budget,
            crowded: self.crowded,
            survival: &self.survival,
            own: &self.own,
            tries,
        };
        let error = 1.0 / root(tries.wins().max(0.1));
        let believed = question.ask(1.0 / (1.0 + DOUBT * error));
        believed.or_else(|| if hope { question.ask(1.0 + HOPE * error) } else { None })
    }

    /// Where nobody knows yet: the age that few queries reach but those that are stuck. Explorations that
    /// make room for others find too few of those, as it is them that others wait behind.
    fn attempt(&self) -> Option<Pays> {
        if self.version == Version::NoCancel {
            return None;
        }
        let stuck = self.explored.iter().map(|tries| tries.wins() / tries.queries());
        let stuck = stuck.fold(0.0, f32::max);
        let share = (3.0 * stuck).max(0.1 * self.budget);
        let at = self.survival.iter().position(|&above| above <= share)?;
        Some(Pays { age_ns: edge(at), overtakes: u32::MAX, stuck })
    }

    /// At which ages second copies are tried, to learn: where few queries are older, and, for services
    /// with more hiccups than that, where many are. Fewer and fewer, as long as rescues do not pay.
    fn exploration(&self) -> [Exploration; 2] {
        let no_cancel = self.version == Version::NoCancel;
        // Explorations that make room go on until there are enough rescues: what few wins have shown may
        // be a T that few queries reach.
        let enough = self.rescues && (no_cancel || self.is_known());
        if enough || (no_cancel && self.credit_ns < 0.0) {
            return Snapshot::NOTHING.explore;
        }
        let (patience, rarer) = if no_cancel { (PATIENCE.1, RARER) } else { (PATIENCE.0, 1.0) };
        let fade = (self.fruitless / patience).clamp(1, MOST_FADED);
        [(0.5, 0.5 * self.budget), (0.2, 0.25)].map(|(part, share)| {
            let at = self.survival.iter().position(|&above| above <= share).unwrap_or(BINS - 1);
            let every = self.survival[at] / (part * self.budget) * rarer;
            let every = (every as u32).max(1).saturating_mul(fade);
            Exploration { age_ns: edge(at), every }
        })
    }
}

/// The square root, to within a thousandth, of what is neither tiny nor huge.
fn root(x: f32) -> f32 {
    (0..12).fold(1.0_f32.max(x / 2.0), |r, _| (r + x / r) / 2.0)
}
