//! Learns about the stuck queries of a service: the age from which a rescue pays off.
//!
//! Until enough rescues have won, the learner explores: idle servers run early second copies of a
//! few queries. Such a copy is stopped as soon as any query waits. After three wins it computes the
//! age from which a rescue pays off (`threshold.rs`). Queries are rescued as long as there is such
//! an age. Once there are enough rescues, exploration stops, because the rescues are evidence
//! enough. If rescues do not pay off at any age, and explorations show no earlier age at which they
//! would, the policy falls back to per-shard queuing. The next attempt then needs twice as many
//! wins, or none if rescues soon turn out to pay off after all. Early attempts are made if
//! explorations show that rescues may pay off. The last attempts are made only if explorations show
//! that rescues do pay off.
//!
//! Run times fade after 65,536 queries, or after 2,048 if these show that the workload has changed.
//!
//! Cost: O(1) per record. Per epoch, O(bins · wins): about 30,000 steps, or several times as many
//! while there is not enough evidence. Memory: 20 KB.

use alloc::boxed::Box;

use super::Version;
use super::cold::{Ages, Cold, FEW, RARE, Suspects, TAIL};
use super::learned::{Exploration, Prefetch, Record, Replaced, Snapshot, Status, Tried};
use super::places::Places;
use super::threshold::{Pays, Question};
use super::tries::{Displacement, Tries};
use super::trip::Trips;
use crate::hedge::histogram::{BINS, Histogram, PerBin, bin, edge};
use crate::hedge::learning::Learner;
use crate::math::root;
use crate::time::NEVER_NS;

/// The numbers of run times that the histograms remember.
const LONG: f32 = 65_536.0;
const SHORT: f32 = 2_048.0;

/// The workload has changed if the mean logarithm of recent run times differs from that of earlier
/// ones by this much, which is about a fifth.
const DRIFT: f32 = 3.0;

/// The initial and the maximum number of wins before rescues begin.
const WINS: (f32, f32) = (3.0, 48.0);

/// Once there are this many rescues, they are better evidence than explorations.
const RESCUES: u32 = 64;

/// The number of queries for which the results of rescues are remembered after rescues were given
/// up.
const REMEMBERED: u32 = 32_768;

/// If rescues still pay off after this number of rescues, it was right to begin them.
const PROVEN: u32 = 8 * RESCUES;

/// The allowed cost of explorations that cannot be stopped, per query and as an initial advance. An
/// exploration that takes as long as an average query costs 1. One that takes twice as long costs
/// 4, because it blocks a server for twice as long and delays twice as many queries.
const SPENT: f32 = 0.003;
const ADVANCE: f32 = 512.0;

/// The maximum run time for which an exploration is charged, in mean run times, so that its cost
/// can be earned back.
const LONGEST: f32 = 100.0;

/// The maximum share of queries that are explored. The rest of the budget is for rescues.
const EXPLORED: f32 = 0.02;

/// The number of explorations after which they become rarer: if they can be stopped, and if they
/// cannot.
const FRUITLESS: (u32, u32) = (512, 64);

/// Explorations that cannot be stopped are rarer by this factor, because the second copy of a very
/// long query may block a shard.
const RARER: f32 = 2.0;

/// The maximum factor by which explorations become rarer.
const MOST_FADED: u32 = 64;

/// Up to this factor, explorations become rarer by waiting for older and thus rarer queries. An
/// exploration of an older query is better evidence of rare hiccups.
const DEEPEST: u32 = 32;

/// The share of queries that are older than usual.
const UNUSUAL: f32 = 0.025;

/// The weight of the time of a query whose two copies are both stuck, relative to the time of other
/// queries.
const URGENT: f32 = 4.0;

/// A remaining run time that is at least this fraction of the longest one counts as equally long.
const AS_LONG: f32 = 0.8;

/// Both are numbers of standard errors of the observed share of stuck queries. `CAUTION` is the
/// number that is subtracted before rescues count as paying off. `HOPE` is the number that is added
/// before they count as not paying off.
const CAUTION: f32 = 0.5;
const HOPE: f32 = 2.0;

/// The mean stuck time is an average over about this number of audits. The number of wins between
/// two audits is the number of completed audits times `WINS_BEFORE` (before the third audit) or
/// `WINS_PER_AUDIT` (after it). Audits are rare because each one blocks a server that would
/// otherwise be free.
const AUDITS: f32 = 20.0;
const WINS_PER_AUDIT: f32 = 12.0;
const WINS_BEFORE: f32 = 3.0;

/// Learns when to rescue. It absorbs the records of the cells at fixed epochs, and its snapshot
/// goes to all cells.
#[derive(Clone, Debug)]
pub struct RescueLearner {
    version: Version,
    budget: f32,
    /// The run times of first copies, over a short and a long memory. A copy that was stopped
    /// counts with its estimated run time.
    late: Histogram,
    runs: Histogram,
    /// The ages at which queries ended, for queries whose run times are relative to their cost.
    plain: Histogram,
    /// The run times of copies that won, since rescues began.
    answers: Histogram,
    explored: [Tries; 2],
    /// An age between the two levels of exploration.
    between_ns: u64,
    rescued: Tries,
    displacement: Displacement,
    /// How much longer a stuck first copy runs than the second one, in ns.
    stuck_ns: f32,
    audits: f32,
    /// The number of recent wins, of all kinds of second copies.
    recent: f32,
    /// The share of queries that end while others wait.
    crowded: f32,
    /// The mean run time of copies that win, in ns.
    mean_ns: f32,
    /// The remaining allowance for explorations that cannot be stopped.
    credit: f32,
    /// The number of explorations since rescues were last found to pay off.
    fruitless: u32,
    /// The number of wins of explorations and cold-start rescues since rescues were given up.
    fresh: u32,
    rescues: bool,
    /// The lowest T since rescues began.
    tested_ns: u64,
    /// The number of records since rescues were given up.
    fallen: u32,
    needed: f32,
    cold: Cold,
    /// `None` if slots are known.
    places: Option<Places>,
    trips: Trips,
    survival: PerBin,
    own: PerBin,
    snapshot: Snapshot,
    status: Status,
}

impl RescueLearner {
    /// Creates a learner without observations. `budget` is the maximum share of queries that may be
    /// rescued without success.
    #[must_use]
    pub fn new(version: Version, budget: f64) -> Self {
        Self {
            version,
            budget: budget as f32,
            late: Histogram::new(SHORT..=SHORT),
            runs: Histogram::new(SHORT..=LONG),
            plain: Histogram::new(SHORT..=SHORT),
            answers: Histogram::new(SHORT..=LONG),
            explored: Default::default(),
            between_ns: 0,
            rescued: Tries::default(),
            displacement: Displacement::default(),
            stuck_ns: 0.0,
            audits: 0.0,
            recent: 0.0,
            crowded: 0.3,
            mean_ns: 0.0,
            credit: ADVANCE,
            fruitless: 0,
            fresh: 0,
            rescues: false,
            tested_ns: NEVER_NS,
            fallen: 0,
            needed: WINS.0,
            cold: Cold::new(version, budget as f32),
            places: None,
            trips: Trips::default(),
            survival: Box::new([1.0; BINS]),
            own: Box::new([1.0; BINS]),
            snapshot: Snapshot::NOTHING,
            status: Status::default(),
        }
    }

    /// The same learner, but for servers whose number of slots is unknown.
    #[must_use]
    pub(super) fn without_slots(self) -> Self {
        Self { places: Some(Places::default()), ..self }
    }

    /// The state of the learner, for metrics.
    #[must_use]
    pub fn status(&self) -> Status {
        let threshold_ns = (self.status.stuck > 0.0).then_some(self.snapshot.suspect_ns);
        Status { version: self.version.name(), threshold_ns, ..self.status }
    }

    /// Adds the places of the copies that responded. Once the number of slots is known, ages start
    /// at other times, so everything learned about ages before that is obsolete.
    fn learn_slots(&mut self, records: &[Record]) {
        let Some(places) = &mut self.places else { return };
        let was_known = places.is_known();
        for record in records {
            if let Record::Place { older } = *record {
                places.add(older);
            }
        }
        if !was_known && places.is_known() {
            *self = Self {
                places: self.places.take(),
                status: self.status,
                ..Self::new(self.version, f64::from(self.budget))
            };
        }
    }

    /// Whether ages have their final meaning: slots are known, or have been learned.
    fn is_settled(&self) -> bool {
        self.places.as_ref().is_none_or(Places::is_known)
    }

    fn ended(&mut self, crowded: bool) {
        self.recent *= 1.0 - 0.25 / LONG;
        self.crowded += (f32::from(u8::from(crowded)) - self.crowded) / SHORT;
    }

    /// Adds an ended query: the run times of its first copy, and of the copy that won.
    fn ran(&mut self, first_ns: u64, answer_ns: u64) {
        self.credit = (self.credit + SPENT).min(ADVANCE);
        self.late.add(first_ns);
        self.mean_ns += (answer_ns as f32 - self.mean_ns) / self.late.count();
        self.runs.add(first_ns);
        self.answers.add(answer_ns);
    }

    fn won(&mut self, second_ns: u64, tried: Option<Tried>) {
        self.recent += 1.0;
        let Some(tried) = tried else { return self.ran(second_ns, second_ns) };
        self.count(tried, true);
        let least = tried.age_ns.saturating_add(second_ns);
        let first_ns = least.max(second_ns.saturating_add(self.stuck_ns as u64));
        self.ran(first_ns, second_ns);
        let weight = self.weight(tried);
        self.tries(tried).won(second_ns, first_ns, weight);
        let of_cold = tried.rescue && self.cold.rules();
        if of_cold {
            self.cold.won();
        }
        self.fresh = self.fresh.saturating_add(u32::from(!tried.rescue || of_cold));
        self.add(tried, second_ns);
    }

    /// Adds the result of a rescue or an exploration whose second copy ran for `second_ns`. A
    /// second copy that lost is assumed to take as long as the first.
    fn add(&mut self, tried: Tried, second_ns: u64) {
        // The survival function is that of the last epoch. It is zero at an age that this query is
        // the first to reach, but the share of such queries is at least one divided by the number
        // of all queries so far.
        let seen = 1.0 / self.runs.count().max(1.0);
        let (share, weight) = (self.survival[bin(tried.age_ns)].max(seen), self.weight(tried));
        self.tries(tried).add(share, weight);
        if !tried.rescue {
            self.displacement.add(tried.risked_ns, false);
            self.fruitless = self.fruitless.saturating_add(1);
            let times = (second_ns as f32 / self.mean_ns.max(1.0)).min(LONGEST);
            self.credit -= times * times;
        }
    }

    fn weight(&self, tried: Tried) -> f32 {
        self.displacement.weight(tried.risked_ns)
    }

    fn tries(&mut self, Tried { age_ns, rescue, .. }: Tried) -> &mut Tries {
        let level = usize::from(age_ns < self.between_ns);
        if rescue && !self.cold.rules() { &mut self.rescued } else { &mut self.explored[level] }
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
            self.runs = self.late.remembered_for(SHORT..=LONG);
            self.answers = Histogram::new(SHORT..=LONG);
            // Wins are also obsolete, except those of rescues, which are soon replaced.
            self.explored = Default::default();
            self.audits = 0.0;
        }
        self.runs.survival(&mut self.survival);
        if self.answers.count() >= SHORT {
            self.answers.survival(&mut self.own);
        } else {
            self.own.fill(1.0);
        }
        self.rescues = self.rescues || self.starts() || self.resumes();
        let pays = if self.rescues { self.threshold() } else { None };
        self.status.stuck = pays.map_or(0.0, |pays| pays.stuck);
        let explore = self.exploration(pays.is_some());
        if self.is_known() {
            self.cold.end();
        }
        let early = self.reached_by(0.25);
        let late = self.worthwhile(early, self.reached_by(TAIL).max(early));
        let rare = self.reached_by(RARE.0).max(late);
        let rarest = self.worthwhile(rare, self.reached_by(RARE.1).max(rare));
        let (late_ns, rare_ns, rarest_ns) = (edge(late), edge(rare), edge(rarest));
        let ages = Ages { late_ns, rare_ns, rarest_ns, mean_ns: self.mean_ns };
        let cold = self.cold.suspects(ages, pays.is_some());
        let learned = pays.map(|pays| Suspects { age_ns: pays.age_ns, overtakes: pays.overtakes });
        let suspects = learned.or(cold).unwrap_or(Suspects::NONE);
        let suspect_ns = suspects.age_ns;
        let replaces = pays.and_then(|pays| self.replaces(&pays));
        let given_up = |pays: Pays| if replaces.is_some() { pays.give_up_ns } else { pays.long_ns };
        let give_up_ns = pays.map_or(suspect_ns, given_up);
        self.snapshot = Snapshot {
            suspect_ns,
            give_up_ns,
            unusual_ns: self.unusual_ns(),
            overtakes: suspects.overtakes,
            explore,
            replaces,
            slots: self.places.as_ref().map_or(u32::MAX, Places::slots),
            at_once: self.recent >= WINS.0,
            audit_every: if self.is_settled() { self.wins_per_audit() } else { u32::MAX },
            round_trip_ns: self.trips.round_trip_ns(),
            prefetch: match self.version {
                Version::Preempt => Prefetch::NONE,
                Version::Cleanup | Version::NoCancel => self.trips.prefetch(self.crowded),
            },
        };
    }

    /// The age from which an idle server may run a second copy of an unusual query. Such a copy
    /// gives way to waiting queries, so it costs nothing if servers can stop copies.
    fn unusual_ns(&self) -> u64 {
        let ages = if self.plain.count() >= FEW { &self.plain } else { &self.runs };
        if self.version == Version::Cleanup { ages.reached_by(UNUSUAL) } else { NEVER_NS }
    }

    /// The first audit alone may have measured an unusual hiccup, so the next ones follow sooner.
    fn wins_per_audit(&self) -> u32 {
        let per_audit = if self.audits < WINS.0 { WINS_BEFORE } else { WINS_PER_AUDIT };
        (per_audit * self.audits.min(AUDITS)) as u32
    }

    /// Chooses the copy that is replaced when a rescue is given up. Both copies are stuck with
    /// probability D². With probability D F_P(g), the first copy is stuck and the query needs
    /// longer than the rescue has run. Otherwise the query is long. In the first case, a third copy
    /// saves the remaining time of the stuck copies. In the other cases, a third copy is wasted.
    /// While no copy is replaced, queries with two stuck copies are counted among the long ones.
    fn replaces(&self, pays: &Pays) -> Option<Replaced> {
        let tries = if self.is_known() { &self.rescued } else { &self.explored[0] };
        let own = |ns: u64| self.own[bin(ns)];
        let both = pays.stuck * pays.stuck;
        let slow = pays.stuck * own(pays.give_up_ns);
        let seen = if self.snapshot.replaces.is_none() { both } else { 0.0 };
        let long = (own(pays.age_ns.saturating_add(pays.give_up_ns)) - seen).max(0.0);
        let unseen = 1.0 / self.answers.count().max(1.0);
        let vain_ns = (slow + long + unseen) * pays.give_up_ns as f32;
        let (share, rest_ns) = tries.stuck(pays.age_ns);
        let saved_ns = both * rest_ns / share.max(f32::MIN_POSITIVE);
        // If only the first copy is stuck, the rescue is further along than a third copy would be.
        // If neither is stuck, the first copy is further along.
        let which = if 2.0 * slow >= long { Replaced::First } else { Replaced::Second };
        (URGENT * saved_ns >= vain_ns).then_some(which)
    }

    /// The age from which a rescue pays off. Uncertain evidence does not count, unless the
    /// alternative is to give up for lack of evidence: then it counts until there is more. After
    /// many attempts, uncertain evidence does not count even then.
    fn threshold(&mut self) -> Option<Pays> {
        let pays = if self.is_known() {
            let pays = self.evaluate(&self.rescued, true).or_else(|| self.younger());
            if pays.is_none() {
                self.give_up();
            } else if self.rescued.count() >= PROVEN {
                self.needed = WINS.0;
                self.fruitless = 0;
            }
            pays
        } else {
            self.explained(self.needed < WINS.1)
        };
        self.tested_ns = pays.map_or(NEVER_NS, |pays| pays.age_ns.min(self.tested_ns));
        pays
    }

    /// The age from which a rescue pays off, according to explorations. There are two levels
    /// because one of them may be too late for most stuck queries.
    fn explained(&self, hope: bool) -> Option<Pays> {
        let enough = self.explored.iter().filter(|tries| tries.wins() >= WINS.0);
        enough.filter_map(|tries| self.evaluate(tries, hope)).min_by_key(|pays| pays.age_ns)
    }

    /// Handles rescues that came too late to pay off: if explorations show an earlier age, that age
    /// is tried next.
    fn younger(&mut self) -> Option<Pays> {
        let younger = self.explained(false).filter(|pays| pays.age_ns < self.tested_ns);
        if younger.is_some() {
            self.rescued = Tries::default();
        }
        younger
    }

    /// Falls back to per-shard queuing. The next attempt needs twice as many wins.
    fn give_up(&mut self) {
        self.rescues = false;
        self.needed = (2.0 * self.needed).min(WINS.1);
        self.fresh = 0;
        self.fallen = 0;
        self.status.fallbacks += 1;
    }

    fn starts(&mut self) -> bool {
        let wins = self.explored.iter().map(Tries::wins).fold(0.0, f32::max);
        let starts = wins.min(self.fresh as f32) >= self.needed;
        if starts {
            self.rescued = Tries::default();
            // From now on, few stuck queries are counted as long.
            self.answers = Histogram::new(SHORT..=LONG);
        }
        starts
    }

    /// Whether rescues pay off after all, according to their results before they were given up. Run
    /// times may have been unusual, for example while a server became slow.
    fn resumes(&self) -> bool {
        let remembers = self.is_known() && self.fallen <= REMEMBERED;
        remembers && self.evaluate(&self.rescued, false).is_some()
    }

    fn is_known(&self) -> bool {
        self.rescued.count() >= RESCUES
    }

    /// The age from which a rescue pays off, according to these results.
    fn evaluate(&self, tries: &Tries, hope: bool) -> Option<Pays> {
        let question = Question {
            version: self.version,
            budget: self.budget,
            crowded: self.crowded,
            survival: &self.survival,
            own: &self.own,
            tries,
        };
        let error = 1.0 / root(tries.wins().max(0.1));
        let believed = question.evaluate(1.0 / (1.0 + CAUTION * error));
        believed.or_else(|| if hope { question.evaluate(1.0 + HOPE * error) } else { None })
    }

    /// The least age that is reached by at most this share of run times, as a bin.
    fn reached_by(&self, share: f32) -> usize {
        self.survival.iter().position(|&above| above <= share).unwrap_or(BINS - 1)
    }

    /// The oldest of these ages at which the mean remaining run time of a query is still close to
    /// its maximum. If hiccups affect more queries than reach the last of these ages, most hiccups
    /// are nearly over at that age, and a second copy could not win.
    fn worthwhile(&self, from: usize, to: usize) -> usize {
        let mut left = 0.0;
        let mut residual = [0.0_f32; BINS];
        for at in (from..BINS - 1).rev() {
            left += self.survival[at] * (edge(at + 1) - edge(at)) as f32;
            residual[at] = left / self.survival[at].max(f32::MIN_POSITIVE);
        }
        let ages = &residual[from..=to];
        let most = ages.iter().copied().fold(0.0, f32::max);
        from + ages.iter().rposition(|&left| left >= AS_LONG * most).unwrap_or(0)
    }

    /// The ages at which idle servers explore: one that few queries reach, and one that many reach,
    /// for services with frequent hiccups. Explorations become rarer while rescues do not pay off.
    fn exploration(&mut self, pays: bool) -> [Exploration; 2] {
        let no_cancel = self.version == Version::NoCancel;
        // Explorations that give way to waiting queries continue until there are enough rescues: a
        // T that is based on only a few wins may be an age that hardly any query reaches.
        let enough = if no_cancel { pays } else { self.rescues && self.is_known() };
        let unpaid = self.budget <= 0.0 || (no_cancel && self.credit < 0.0);
        if enough || unpaid {
            return Snapshot::NOTHING.explore;
        }
        let (many, rarer) = if no_cancel { (FRUITLESS.1, RARER) } else { (FRUITLESS.0, 1.0) };
        let budget = self.budget.min(EXPLORED);
        let weary = self.fruitless / many;
        // An exploration that cannot be stopped must not duplicate one of the longest queries.
        let (fade, deep) = if no_cancel { (weary, 1) } else { (weary.saturating_pow(2), DEEPEST) };
        let fade = fade.clamp(1, MOST_FADED);
        let deep = fade.min(deep);
        // Even if the budget is large, the first level is never the earlier one.
        let levels = [(0.5, (0.5 * budget).min(0.25), deep), (0.2, 0.25, 1)];
        let mut bins = levels.map(|(_, share, deep)| {
            let share = share / deep as f32;
            self.reached_by(share)
        });
        bins[0] = self.worthwhile(bins[1], bins[0]);
        self.between_ns = edge(usize::midpoint(bins[0], bins[1]));
        core::array::from_fn(|level| {
            let ((part, _, deep), at) = (levels[level], bins[level]);
            let every = self.survival[at] * deep as f32 / (part * budget) * rarer;
            let every = (every as u32).max(1).saturating_mul(fade / deep);
            Exploration { age_ns: edge(at), every }
        })
    }
}

impl Learner for RescueLearner {
    type Record = Record;
    type Snapshot = Snapshot;

    fn snapshot(&self) -> Snapshot {
        self.snapshot
    }

    fn absorb(&mut self, records: &[Record]) {
        self.fallen = self.fallen.saturating_add(records.len() as u32);
        self.learn_slots(records);
        self.cold.earn(records.len());
        for record in records {
            match *record {
                Record::First { ran_ns, tried, crowded } => {
                    self.ended(crowded);
                    self.ran(ran_ns, ran_ns);
                    if let Some(tried) = tried {
                        if tried.rescue && self.cold.rules() {
                            let took_ns = ran_ns.saturating_sub(tried.age_ns) as f32;
                            self.cold.lost(took_ns / self.mean_ns.max(1.0));
                        }
                        self.count(tried, false);
                        self.add(tried, ran_ns);
                    }
                }
                Record::Second { ran_ns, tried, crowded } => {
                    self.ended(crowded);
                    self.won(ran_ns, tried);
                }
                Record::Displaced { risked_ns } => self.displacement.add(risked_ns, true),
                Record::Audit { ran_ns, second_ns } => {
                    let longer = ran_ns.saturating_sub(second_ns) as f32;
                    self.audits += 1.0;
                    self.stuck_ns += (longer - self.stuck_ns) / self.audits.min(AUDITS);
                }
                Record::Run { ran_ns, waited_ns } => {
                    self.trips.add(ran_ns, waited_ns, self.mean_ns);
                }
                Record::Answered { age_ns } => self.plain.add(age_ns),
                Record::Place { .. } => {}
            }
        }
        if self.late.count() >= FEW {
            self.conclude();
        }
    }
}
