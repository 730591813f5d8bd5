//! What a service learns about its stuck queries: from which age on a rescue pays.
//!
//! Until enough rescues have won it explores: where a server is idle, few queries get a second copy
//! early, which any query that waits may have stopped. Three wins are enough to ask from which age on a
//! rescue pays (`threshold.rs`); from then on there are rescues, as long as there is such an age. Once
//! there are enough of them nothing is explored: they themselves tell what is to be known. Where it turns
//! out that they do not pay at any age, nor at an earlier one by what explorations showed, the policy is
//! per-shard queuing again, and twice as many wins are needed for the next attempt; or none, where it
//! soon turns out that they do pay. The last attempts are made only where explorations show that rescues
//! pay; at first it is enough that they may.
//!
//! Run times fade: after 65,536 queries, or 2,048 where these tell that the workload has changed.
//!
//! Cost: O(1) per record; per epoch O(bins · wins), which is 30,000 steps or so, and some times as many while
//! it is biased. Memory: 20 KB.

use alloc::boxed::Box;

use super::Version;
use super::cold::{Ages, Cold, FEW, RARE, Suspects, TAIL};
use super::places::Places;
use super::threshold::{Pays, Question};
use super::tries::{Displacement, Tries};
use super::trip::Trips;
use crate::hedge::histogram::{BINS, Histogram, PerBin, bin, edge};
use crate::hedge::record::{Exploration, Prefetch, Record, Replaced, Snapshot, Tried};
use crate::math::root;
use crate::time::NEVER_NS;

/// For how many run times the histograms remember.
const LONG: f32 = 65_536.0;
const SHORT: f32 = 2_048.0;

/// The workload has changed where the run times of late differ so much from those of before: by a
/// fifth, in the mean of logarithms.
const DRIFT: f32 = 3.0;

/// Wins that it takes to begin with rescues, at first and at most.
const WINS: (f32, f32) = (3.0, 48.0);

/// Rescues that are a better source than explorations.
const RESCUES: u32 = 64;

/// For so many queries what came of rescues is remembered after they were given up.
const REMEMBERED: u32 = 32_768;

/// Where they still pay after so many rescues, it was right to begin with them.
const PROVEN: u32 = 8 * RESCUES;

/// What explorations that cannot be stopped may cost, per query and in advance. One that takes as long as
/// a query does on average costs 1, one that takes twice as long 4: it blocks a server for twice as long,
/// and for twice as many queries.
const SPENT: f32 = 0.003;
const ADVANCE: f32 = 512.0;

/// No exploration counts for longer than so many mean times: it is to be paid for some day.
const LONGEST: f32 = 100.0;

/// The share of the queries that may be explored, at most; the rest of the budget is of rescues.
const EXPLORED: f32 = 0.02;

/// After so many explorations they begin to become rarer; sooner where they cannot be stopped.
const FRUITLESS: (u32, u32) = (512, 64);

/// Explorations that cannot be stopped are so many times as rare: one of them may be of a query so long
/// that its second copy blocks a shard.
const RARER: f32 = 2.0;

/// Explorations become so many times as rare, at most.
const MOST_FADED: u32 = 64;

/// At first by waiting for queries so much rarer and older: each tells the more of rare hiccups.
const DEEPEST: u32 = 32;

/// The share of queries that are older than is usual.
const UNUSUAL: f32 = 0.025;

/// How many times as much as other queries' time that of a query counts that has waited for two copies.
const URGENT: f32 = 4.0;

/// A query that has this part of the longest time left to run has about as long.
const AS_LONG: f32 = 0.8;

/// Standard errors by which a share of stuck queries may be smaller than was seen, where that would be
/// enough; and greater, before it is said not to be enough.
const CAUTION: f32 = 0.5;
const HOPE: f32 = 2.0;

/// How many audits the mean stuck time is of, about. So many times as many wins as there were audits
/// pass until the next one: an audit blocks a server, which would be free.
const AUDITS: f32 = 20.0;
const WINS_PER_AUDIT: f32 = 12.0;
const WINS_BEFORE: f32 = 3.0;

/// What a service learns. Cells publish records; at fixed epochs they are absorbed, and the snapshot
/// goes to all cells.
#[derive(Clone, Debug)]
pub struct RescueLearner {
    version: Version,
    budget: f32,
    /// How long first copies run: those that were stopped for as long as they are believed to.
    late: Histogram,
    runs: Histogram,
    /// Ages at which queries end whose run times are relative to their cost.
    plain: Histogram,
    /// How long the copies run that answer, since there are rescues.
    answers: Histogram,
    explored: [Tries; 2],
    /// An age between those levels.
    between_ns: u64,
    rescued: Tries,
    displacement: Displacement,
    /// How much longer than the second copy the first one runs that is stuck, in ns.
    stuck_ns: f32,
    audits: f32,
    /// Wins of late, of whatever second copies.
    recent: f32,
    /// The share of queries that end while others wait.
    crowded: f32,
    /// How long copies run that answer, in ns.
    mean_ns: f32,
    /// What explorations that cannot be stopped may yet cost.
    credit: f32,
    /// Explorations since rescues were last found to pay.
    fruitless: u32,
    /// Wins of explorations since rescues were given up.
    fresh: u32,
    rescues: bool,
    /// The least T since there are.
    tested_ns: u64,
    /// Queries since rescues were given up.
    fallen: u32,
    needed: f32,
    cold: Cold,
    /// Where slots are unknown.
    places: Option<Places>,
    trips: Trips,
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

impl RescueLearner {
    /// It knows nothing. At most a share of `budget` of the queries is to be rescued in vain.
    #[must_use]
    pub fn new(version: Version, budget: f64) -> Self {
        Self {
            version,
            budget: budget as f32,
            late: Histogram::new((SHORT, SHORT)),
            runs: Histogram::new((SHORT, LONG)),
            plain: Histogram::new((SHORT, SHORT)),
            answers: Histogram::new((SHORT, LONG)),
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

    /// For servers whose slots are unknown.
    #[must_use]
    pub(super) fn without_slots(self) -> Self {
        Self { places: Some(Places::default()), ..self }
    }

    /// The version that it learns for.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// What all cells are to go by until the next epoch.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// T in ns, where rescues are known to pay. In the first minute queries are rescued before they are.
    #[must_use]
    pub fn threshold_ns(&self) -> Option<u64> {
        (self.status.stuck > 0.0).then_some(self.snapshot.suspect_ns)
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Takes in what the cells have recorded in an epoch, in the order of cells.
    pub fn absorb(&mut self, records: &[Record]) {
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

    /// Takes in the places of responses. Once they tell the slots, ages begin at other times, so what was learned of ages
    /// before says nothing any more.
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

    /// Are ages what they will be?
    fn is_settled(&self) -> bool {
        self.places.as_ref().is_none_or(Places::is_known)
    }

    fn ended(&mut self, crowded: bool) {
        self.recent *= 1.0 - 0.25 / LONG;
        self.crowded += (f32::from(u8::from(crowded)) - self.crowded) / SHORT;
    }

    /// A query ended: how long its first copy ran, and the one that answered.
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

    /// A try has ended; its second copy runs for so long, unless it is stopped.
    fn add(&mut self, tried: Tried, second_ns: u64) {
        let (share, weight) = (self.survival[bin(tried.age_ns)], self.weight(tried));
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
            self.runs = self.late.remembered_for((SHORT, LONG));
            self.answers = Histogram::new((SHORT, LONG));
            // Nor do wins say anything, but for those of rescues, which are soon replaced.
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
            ..Snapshot::NOTHING
        };
    }

    /// A second copy that gives way costs nothing where servers can stop.
    fn unusual_ns(&self) -> u64 {
        let ages = if self.plain.count() >= FEW { &self.plain } else { &self.runs };
        if self.version == Version::Cleanup { ages.reached_by(UNUSUAL) } else { NEVER_NS }
    }

    /// The first audit alone may be of an unusual hiccup.
    fn wins_per_audit(&self) -> u32 {
        let per_audit = if self.audits < WINS.0 { WINS_BEFORE } else { WINS_PER_AUDIT };
        (per_audit * self.audits.min(AUDITS)) as u32
    }

    /// Which copy is replaced where a rescue is given up? Both copies are stuck with probability D²; the first one is, and the
    /// query needs longer than the rescue has run, with D F_P(g); or the query is long. A third copy saves the rest of the
    /// stuck ones in the first case, and runs in vain in the others. As long as no copy is replaced, queries with two stuck
    /// copies are among the long ones.
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
        // The rescue is further than a third copy would be, if the first one is stuck; the first one is further, if none is.
        let which = if 2.0 * slow >= long { Replaced::First } else { Replaced::Second };
        (URGENT * saved_ns >= vain_ns).then_some(which)
    }

    /// From which age on a rescue pays. What is biased is not believed; but rather than to give up
    /// for want of evidence, it is, until there is more. After many attempts, not even then.
    fn threshold(&mut self) -> Option<Pays> {
        let pays = if self.is_known() {
            let pays = self.ask(&self.rescued, true).or_else(|| self.younger());
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

    /// Where do rescues pay by what explorations tell? Of two levels one may be too late for most that
    /// are stuck.
    fn explained(&self, hope: bool) -> Option<Pays> {
        let enough = self.explored.iter().filter(|tries| tries.wins() >= WINS.0);
        enough.filter_map(|tries| self.ask(tries, hope)).min_by_key(|pays| pays.age_ns)
    }

    /// Rescues came too late to pay. If explorations tell of an earlier age, that is tried next.
    fn younger(&mut self) -> Option<Pays> {
        let younger = self.explained(false).filter(|pays| pays.age_ns < self.tested_ns);
        if younger.is_some() {
            self.rescued = Tries::default();
        }
        younger
    }

    /// Per-shard queuing again, and more biased than before.
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
            // From now on few that are stuck are taken for long.
            self.answers = Histogram::new((SHORT, LONG));
        }
        starts
    }

    /// Do rescues pay after all, by what came of them before they were given up? Run times may have been
    /// unusual, as while a server became slow.
    fn resumes(&self) -> bool {
        let remembers = self.is_known() && self.fallen <= REMEMBERED;
        remembers && self.ask(&self.rescued, false).is_some()
    }

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
        let believed = question.ask(1.0 / (1.0 + CAUTION * error));
        believed.or_else(|| if hope { question.ask(1.0 + HOPE * error) } else { None })
    }

    /// The least age that at most this share of run times reaches, as a bin.
    fn reached_by(&self, share: f32) -> usize {
        self.survival.iter().position(|&above| above <= share).unwrap_or(BINS - 1)
    }

    /// The oldest of these ages at which a query has yet about as long to run as at any of them. With more
    /// hiccups than queries are that old, those are nearly over: a second copy could not win.
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

    /// At which ages second copies are tried, to learn: where few queries are older, and, for services
    /// with more hiccups than that, where many are. Fewer and fewer, as long as rescues do not pay.
    fn exploration(&mut self, pays: bool) -> [Exploration; 2] {
        let no_cancel = self.version == Version::NoCancel;
        // Explorations that make room go on until there are enough rescues: what few wins have shown may
        // be a T that few queries reach.
        let enough = if no_cancel { pays } else { self.rescues && self.is_known() };
        let unpaid = self.budget <= 0.0 || (no_cancel && self.credit < 0.0);
        if enough || unpaid {
            return Snapshot::NOTHING.explore;
        }
        let (many, rarer) = if no_cancel { (FRUITLESS.1, RARER) } else { (FRUITLESS.0, 1.0) };
        let budget = self.budget.min(EXPLORED);
        let weary = self.fruitless / many;
        // One that cannot be stopped is not to be of the longest queries.
        let (fade, deep) = if no_cancel { (weary, 1) } else { (weary.saturating_pow(2), DEEPEST) };
        let fade = fade.clamp(1, MOST_FADED);
        let deep = fade.min(deep);
        // However large the budget is, the first level is not the earlier one.
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
