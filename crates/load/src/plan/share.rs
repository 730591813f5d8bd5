//! Divides one schedule among machines and their threads.
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

use curtail_dist::seed;
use rand_distr::{Distribution as _, Uniform};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::plan::schedule::{Schedule, Slot};
use crate::plan::{Pace, Plan};
use curtail_dist::arrivals::Arrivals;

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
    /// Creates the share of one thread: every `plan.threads`th request of this machine.
    pub(crate) fn new(plan: &Plan, schedule: Schedule, part: Part, thread: u64) -> Share {
        let threads = plan.threads as u64;
        Share { schedule, dealer: Dealer::new(plan, part.of), part, threads, thread, own: 0 }
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
    fn new(plan: &Plan, machines: u64) -> Dealer {
        let random = !matches!(&plan.pace, Pace::Open { arrivals: Arrivals::Constant, .. });
        // This fails only for zero machines.
        match Uniform::new(0, machines).ok().filter(|_| random && machines > 1) {
            Some(draw) => {
                let rng = seed::rng(seed::stream(plan.seed, &[b"load", b"machines"]));
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
    use crate::plan::Extent;
    use crate::plan::profile::Profile;
    use crate::results::arrival_test::test;
    use crate::results::sends::{Keep, Sends};

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
        Share::new(plan, plan.schedule().unwrap(), part, thread as u64).collect()
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
