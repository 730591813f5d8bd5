//! The intended time and the query of each request.
//!
//! Nothing here depends on the events of a run. Times and queries are drawn from separate random
//! streams. As a result, two runs with the same seed send the same queries at any rate, and the
//! gaps of two Poisson schedules with different rates differ only by a constant factor.

use curtail_dist::arrivals::{self, Arrivals};
use curtail_dist::seed;
use rand_distr::{Distribution as _, Uniform};
use rand_pcg::Pcg64Mcg;

use crate::plan::Extent;
use crate::plan::keys::{KeyPicker, Keys};
use crate::plan::profile::Profile;
use crate::plan::queries::QueryOrder;
use crate::plan::share::Part;

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
        Schedule { clock: None, picker, index: 0, warmup_ns: 0, extent: None, measured: 0 }
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

    /// Draws a key from this set for each request, using a separate random stream with the same
    /// seed.
    pub fn with_keys(mut self, keys: Option<Keys>, seed: u64) -> Schedule {
        let rng = seed::rng(seed::stream(seed, &[b"load", b"keys"]));
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
}

impl Schedule {
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
