//! Which request is sent when, and by which machine and thread.
//!
//! Nothing here depends on the events of a run. Times, queries and keys are drawn from separate random
//! streams. As a result, two runs with the same seed send the same queries at any rate, and the gaps
//! of two Poisson schedules with different rates differ only by a constant factor.
//!
//! # Several machines and threads
//!
//! Each sender draws the whole schedule and sends its own part. Together they send exactly what one
//! sender would have sent, for every arrival process.
//!
//! Machines start a few microseconds apart. A random process is therefore divided at random, using
//! the plan's seed. The parts of a Poisson process are independent Poisson processes, and their sum
//! is a Poisson process even if they are shifted relative to each other. Equal gaps are divided
//! round-robin, so that each machine has equal gaps. Threads start together and take requests
//! round-robin.
//!
//! Cost: every thread draws the whole schedule, which takes a few tens of nanoseconds per request.

use std::str::FromStr;

use curtail_dist::arrivals::{self, Arrivals};
use curtail_dist::seed;
use rand_distr::{Distribution as _, Uniform, Zipf};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::plan::error::PlanError;
use crate::plan::profile::Profile;

/// The extent of the measurement, after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extent {
    /// All requests whose intended time is in this period.
    Duration {
        /// In nanoseconds, above zero.
        ns: u64,
    },
    /// A number of requests, above zero.
    Requests(u64),
}

/// The order in which a run sends its queries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryOrder {
    /// The queries are sent in the given order, and the list is repeated.
    #[default]
    InOrder,
    /// Each query is drawn uniformly at random, with the plan's seed.
    Random,
    /// Each round sends every query once. The first round uses the given order, and each later
    /// round uses a new random order. At any time, the numbers of measured requests for any two
    /// queries differ by at most one.
    Rounds,
}

/// One scheduled request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The position in the schedule, numbered from 0 and including the warm-up.
    pub index: u64,
    /// The intended time, in nanoseconds from the start of the run.
    pub at_ns: u64,
    /// The index of the query, starting at 0. With keys, this is the key number times the number of
    /// queries, plus the index of the query.
    pub query: usize,
    /// Whether the request belongs to the warm-up: it is sent, but not measured.
    pub warmup: bool,
}

/// The requests of a run, ordered by intended time: an iterator over [`Slot`]s.
///
/// The same arguments give the same slots on every machine.
///
/// Cost: one draw per slot, or two if queries are drawn at random, and constant memory.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// `None` if the schedule has no times.
    clock: Option<Clock>,
    seed: u64,
    picker: Picker,
    index: u64,
    warmup_ns: u64,
    extent: Option<Extent>,
    measured: u64,
}

impl Schedule {
    /// Creates an endless schedule that repeats one query at the rates of this profile.
    pub fn new(profile: Profile, arrivals: &Arrivals, seed: u64) -> Schedule {
        let gap_ns = 1e9 / profile.first();
        let process = match arrivals {
            Arrivals::Constant => None,
            _ => Some(arrivals::Clock::new(arrivals, gap_ns, stream(seed, b"arrivals"))),
        };
        Schedule { clock: Some(Clock { profile, gap_ns, process }), ..Schedule::untimed(seed) }
    }

    pub(crate) fn untimed(seed: u64) -> Schedule {
        let picker = Picker {
            count: 1,
            order: Order::Cycled { from: 0 },
            rng: seed::rng(stream(seed, b"queries")),
            keys: None,
        };
        Schedule { clock: None, seed, picker, index: 0, warmup_ns: 0, extent: None, measured: 0 }
    }

    /// Sends `count` queries in this order. A `count` of 0 is treated as 1.
    pub fn with_queries(mut self, count: usize, order: QueryOrder) -> Schedule {
        let count = count.max(1) as u64;
        self.picker.count = count;
        self.picker.order = match order {
            QueryOrder::InOrder => Order::Cycled { from: 0 },
            // This fails only for an empty range.
            QueryOrder::Random => {
                Uniform::new(0, count).map_or(Order::Cycled { from: 0 }, Order::Random)
            }
            QueryOrder::Rounds => Order::Rounds { round: (0..count).collect(), at: 0 },
        };
        self
    }

    /// Draws a key from this set for each request, using a separate random stream.
    pub fn with_keys(mut self, keys: Option<Keys>) -> Schedule {
        let rng = seed::rng(stream(self.seed, b"keys"));
        self.picker.keys = keys.map(|keys| KeyPicker::new(keys, rng));
        self
    }

    /// Sets the query with which this part starts, so that the starts of all parts are spread
    /// evenly over the list of queries. With rounds, this applies to the first round. With a random
    /// order, it has no effect.
    pub(crate) fn with_start(mut self, part: Part) -> Schedule {
        let first = part.number * self.picker.count / part.of;
        match &mut self.picker.order {
            Order::Cycled { from } => *from = first,
            Order::Rounds { round, .. } => round.rotate_left(first as usize),
            Order::Random(_) => {}
        }
        self
    }

    /// Ends the schedule after a warm-up (in nanoseconds) and `extent`.
    pub fn with_extent(mut self, warmup_ns: u64, extent: Extent) -> Schedule {
        self.warmup_ns = warmup_ns;
        self.extent = Some(extent);
        self
    }

    /// Returns the next request, intended for `at_ns`. Returns `None` if that time is past the end
    /// of the schedule.
    pub(crate) fn slot(&mut self, at_ns: u64) -> Option<Slot> {
        let warmup = at_ns < self.warmup_ns;
        let over = match self.extent {
            None => false,
            Some(Extent::Duration { ns }) => at_ns >= self.warmup_ns.saturating_add(ns),
            Some(Extent::Requests(count)) => !warmup && self.measured >= count,
        };
        if over {
            return None;
        }
        let query = self.picker.next(self.index, warmup);
        let slot = Slot { index: self.index, at_ns, query, warmup };
        self.index += 1;
        self.measured += u64::from(!warmup);
        Some(slot)
    }

    fn measured_ns(&self) -> u64 {
        match self.extent {
            Some(Extent::Duration { ns }) => ns,
            _ => 0,
        }
    }
}

impl Iterator for Schedule {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        let (index, warmup_ns, measured_ns) = (self.index, self.warmup_ns, self.measured_ns());
        let next = |clock: &mut Clock| clock.next(index, warmup_ns, measured_ns);
        let at_ns = self.clock.as_mut().map_or(0, next);
        self.slot(at_ns)
    }
}

fn stream(seed: u64, name: &[u8]) -> u64 {
    seed::stream(seed, &[b"load", name])
}

#[derive(Debug, Clone)]
struct Clock {
    profile: Profile,
    gap_ns: f64,
    /// The arrival process at the first rate. `None` for equal gaps, whose first request is at time
    /// zero.
    process: Option<arrivals::Clock>,
}

impl Clock {
    /// Returns the time of slot `index`, in nanoseconds. Must be called once for each slot, in
    /// order.
    fn next(&mut self, index: u64, warmup_ns: u64, measured_ns: u64) -> u64 {
        let at_ns = match &mut self.process {
            // This is a product, because the rounding errors of a sum would accumulate.
            None => index as f64 * self.gap_ns,
            Some(process) => process.next_ns(),
        };
        let exact = match self.profile {
            Profile::Steady(_) => at_ns,
            // The warm-up uses the first rate.
            _ if at_ns <= warmup_ns as f64 => at_ns,
            _ => {
                let requests = (at_ns - warmup_ns as f64) / self.gap_ns;
                warmup_ns as f64 + self.profile.due_ns(requests, measured_ns)
            }
        };
        exact.round() as u64
    }
}

#[derive(Debug, Clone)]
struct Picker {
    count: u64,
    order: Order,
    rng: Pcg64Mcg,
    keys: Option<KeyPicker>,
}

#[derive(Debug, Clone)]
enum Order {
    Cycled {
        from: u64,
    },
    /// The values have 64 bits on every platform, so that a seed draws the same values everywhere.
    Random(Uniform<u64>),
    /// The queries of this round, and how many of them have been picked.
    Rounds {
        round: Vec<u64>,
        at: usize,
    },
}

impl Picker {
    fn next(&mut self, index: u64, warmup: bool) -> usize {
        let query = match &mut self.order {
            // Both summands are below `count`, so the sum does not overflow.
            Order::Cycled { from } => (*from + index % self.count) % self.count,
            Order::Random(draw) => draw.sample(&mut self.rng),
            // The warm-up does not consume the queries of a round.
            Order::Rounds { .. } if warmup => index % self.count,
            Order::Rounds { round, at } => {
                if *at == round.len() {
                    shuffle(round, &mut self.rng);
                    *at = 0;
                }
                *at += 1;
                round[*at - 1]
            }
        };
        let key = self.keys.as_mut().map_or(0, KeyPicker::next);
        // This is below `count`, which was a `usize`.
        query as usize + key * self.count as usize
    }
}

/// Fisher–Yates shuffle: all orders are equally likely.
fn shuffle(values: &mut [u64], rng: &mut Pcg64Mcg) {
    for last in (1..values.len()).rev() {
        let other = Uniform::new_inclusive(0, last as u64).map_or(0, |draw| draw.sample(rng));
        values.swap(last, other as usize);
    }
}

/// Maximum number of requests after each `{key}` has been replaced with every key.
pub const RENDERED_MAX: usize = 1_000_000;
pub(crate) const PLACE: &str = "{key}";
/// The largest exponent. With a larger exponent, nearly all requests would have the first key.
pub(crate) const EXPONENT_MAX: f64 = 10.0;

/// How often each key is requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub enum KeyDistribution {
    /// All keys are requested equally often.
    #[default]
    Uniform,
    /// Keys are numbered from 0, and key *k* is requested in proportion to (*k* + 1)^-*s*, with *s*
    /// above 0 and at most 10.
    Zipf(f64),
}

impl FromStr for KeyDistribution {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<KeyDistribution, PlanError> {
        let exponent = match text.split_once(':') {
            None if text == "uniform" => return Ok(KeyDistribution::Uniform),
            Some(("zipf", exponent)) => exponent.parse().ok(),
            _ => None,
        };
        let known = exponent.filter(|exponent| *exponent > 0.0 && *exponent <= EXPONENT_MAX);
        known.map(KeyDistribution::Zipf).ok_or_else(|| {
            PlanError::Value(format!(
                "unknown key distribution `{text}`; use uniform, or zipf:S with S above 0 and at \
                 most 10, such as zipf:0.99"
            ))
        })
    }
}

/// The set of keys, which are numbers that replace `{key}` in a request, and their distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Keys {
    /// The number of keys, at least 1. The number of keys times the number of requests is at most
    /// 1,000,000.
    pub count: usize,
    /// How often each key is requested.
    pub distribution: KeyDistribution,
}

#[derive(Debug, Clone)]
pub(crate) struct KeyPicker {
    draw: Draw,
    rng: Pcg64Mcg,
}

#[derive(Debug, Clone)]
enum Draw {
    Uniform(Uniform<u64>),
    Zipf(Zipf<f64>),
    First,
}

impl KeyPicker {
    pub(crate) fn new(keys: Keys, rng: Pcg64Mcg) -> KeyPicker {
        let count = keys.count.max(1);
        // This fails only for values that `Keys::check` rejects.
        let draw = match keys.distribution {
            KeyDistribution::Uniform => Uniform::new(0, count as u64).ok().map(Draw::Uniform),
            KeyDistribution::Zipf(exponent) => {
                Zipf::new(count as f64, exponent).ok().map(Draw::Zipf)
            }
        };
        KeyPicker { draw: draw.unwrap_or(Draw::First), rng }
    }

    pub(crate) fn next(&mut self) -> usize {
        match &self.draw {
            Draw::Uniform(draw) => draw.sample(&mut self.rng) as usize,
            // Ranks are integers and start at 1.
            Draw::Zipf(draw) => (draw.sample(&mut self.rng) as usize).saturating_sub(1),
            Draw::First => 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) number: u64,
    pub(crate) of: u64,
}

impl Part {
    pub(crate) const WHOLE: Part = Part { number: 0, of: 1 };

    pub(crate) fn share_of(self, all: u64) -> u64 {
        all / self.of + u64::from(self.number < all % self.of)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Share {
    schedule: Schedule,
    dealer: Dealer,
    part: Part,
    threads: u64,
    thread: u64,
    own: u64,
}

impl Share {
    /// Creates the share of one thread: every `threads`th request of this machine.
    pub(crate) fn new(schedule: Schedule, part: Part, threads: usize, thread: u64) -> Share {
        let (threads, dealer) = (threads as u64, Dealer::new(&schedule, part.of));
        Share { schedule, dealer, part, threads, thread, own: 0 }
    }
}

impl Iterator for Share {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        loop {
            let slot = self.schedule.next()?;
            if self.dealer.next(slot.index) != self.part.number {
                continue;
            }
            let own = self.own;
            self.own += 1;
            if own % self.threads == self.thread {
                return Some(slot);
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Dealer {
    InTurn { machines: u64 },
    AtRandom { draw: Uniform<u64>, rng: Pcg64Mcg },
}

impl Dealer {
    fn new(schedule: &Schedule, machines: u64) -> Dealer {
        let random = schedule.clock.as_ref().is_some_and(|clock| clock.process.is_some());
        // This fails only for zero machines.
        match Uniform::new(0, machines).ok().filter(|_| random && machines > 1) {
            Some(draw) => {
                let rng = seed::rng(stream(schedule.seed, b"machines"));
                Dealer::AtRandom { draw, rng }
            }
            None => Dealer::InTurn { machines },
        }
    }

    fn next(&mut self, index: u64) -> u64 {
        match self {
            Dealer::InTurn { machines } => index % *machines,
            Dealer::AtRandom { draw, rng } => draw.sample(rng),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Pace, Plan};
    use crate::results::arrival_test::{Keep, Sends, test};

    const SECOND: u64 = 1_000_000_000;

    fn plan(arrivals: &str, rate: &str, threads: usize) -> Plan {
        let profile: Profile = rate.parse().unwrap();
        let mut plan = Plan::new("http://127.0.0.1:1/".parse().unwrap(), 1.0);
        let arrivals = Arrivals::parse(arrivals, 1e6).unwrap();
        plan.extent = Extent::Duration { ns: profile.own_ns().unwrap_or(20 * SECOND) };
        (plan.pace, plan.threads, plan.seed) = (Pace::Open { profile, arrivals }, threads, 7);
        plan
    }

    fn share(plan: &Plan, number: u64, of: u64, thread: usize) -> Vec<Slot> {
        let part = Part { number, of };
        Share::new(plan.schedule().unwrap(), part, plan.threads, thread as u64).collect()
    }

    #[test]
    fn machines_and_their_threads_send_the_whole_schedule() {
        for (arrivals, rate) in [
            ("poisson", "500"),
            ("poisson", "100..900"),
            ("constant", "100:5s,400:5s"),
            ("on-off:0.2:50ms", "300"),
        ] {
            let whole: Vec<Slot> = plan(arrivals, rate, 1).schedule().unwrap().collect();
            for (machines, threads) in [(1, 1), (1, 3), (2, 1), (3, 2)] {
                let plan = plan(arrivals, rate, threads);
                let every = (0..machines).flat_map(|machine| {
                    let of = |thread| share(&plan, machine, machines, thread);
                    (0..threads).flat_map(of).collect::<Vec<_>>()
                });
                let mut together: Vec<Slot> = every.collect();
                together.sort_unstable_by_key(|slot| slot.index);
                assert_eq!(together, whole, "{arrivals} {rate} {machines} {threads}");
            }
        }
    }

    #[test]
    fn parts_of_poisson_arrivals_are_poisson_and_so_is_their_shifted_sum() {
        for rate in ["1000", "200..1800"] {
            let plan = plan("poisson", rate, 1);
            let Pace::Open { profile, .. } = &plan.pace else { unreachable!() };
            let mut together = Vec::new();
            for machine in 0..3 {
                let times: Vec<u64> =
                    share(&plan, machine, 3, 0).iter().map(|slot| slot.at_ns).collect();
                let part =
                    test(std::slice::from_ref(&times), &profile.scaled(1.0 / 3.0), 20 * SECOND)
                        .unwrap();
                assert!(!part.failed, "{rate} {machine} {part:?}");
                // The shift is longer than the gaps.
                together.extend(times.iter().map(|at_ns| at_ns + machine * 4_000_000));
            }
            together.sort_unstable();
            let sum = test(&[together], profile, 20 * SECOND).unwrap();
            assert!(!sum.failed, "{rate} {sum:?}");
        }
    }

    #[test]
    fn sampled_parts_of_many_machines_are_poisson() {
        let plan = plan("poisson", "30000", 1);
        let Pace::Open { profile, .. } = &plan.pace else { unreachable!() };
        for machine in [0, 31, 63] {
            let (mut keep, mut sends) = (Keep::new(1), Sends::new());
            for slot in share(&plan, machine, 64, 0) {
                keep.see(&mut sends, slot.index, slot.at_ns);
            }
            let part = test(&sends.blocks(), &profile.scaled(1.0 / 64.0), 20 * SECOND).unwrap();
            assert!(!part.failed && part.d < 0.05, "{machine} {part:?}");
        }
    }

    #[test]
    fn each_machine_has_equal_gaps() {
        let slots = share(&plan("constant", "100", 1), 1, 2, 0);
        assert!(slots.windows(2).all(|pair| pair[1].at_ns - pair[0].at_ns == SECOND / 50));
        assert_eq!(slots[0].at_ns, SECOND / 100);
    }

    #[test]
    fn round_robin_shares_add_up() {
        for all in [0, 1, 7, 64] {
            let parts = (0..3).map(|number| Part { number, of: 3 }.share_of(all));
            assert_eq!(parts.sum::<u64>(), all);
        }
    }
}
