//! What a service learns from random queries. The records are those that a cell would publish.

use curtail_kernel::hedge::Learner;
use curtail_kernel::hedge::Version::{Cleanup, NoCancel, Preempt};
use curtail_kernel::hedge::rescue::{Record, RescueLearner, Tried, Version};
use curtail_kernel::{NEVER_NS, Rng, rng};
use rand_core::Rng as _;

const MS: f64 = 1e6;
const EPOCH: u64 = 1_024;

/// A service without queues, whose servers are idle often enough to explore.
struct Service {
    rng: Rng,
    learner: RescueLearner,
    /// The mean of P in ms. P is exponential, or has a heavy tail with the exponent `alpha` if
    /// there is one.
    mean: f64,
    alpha: Option<f64>,
    /// The share of first copies that have a hiccup, and the length of the hiccup, in ms.
    hiccups: (f64, f64),
    /// Whether second copies have the same hiccup.
    correlated: bool,
    /// The share of the time during which a server is idle, so that an exploration is possible.
    idle: f64,
    /// Whether other queries wait.
    crowded: bool,
    /// The attempt timeout, in ms. A first copy that runs for longer without a second one has
    /// failed, and nothing is recorded.
    copy_timers: f64,
    seen: u64,
}

impl Service {
    fn new(version: Version, hiccups: (f64, f64)) -> Self {
        Self {
            rng: rng(7),
            learner: RescueLearner::new(version, 0.02),
            mean: 1.0,
            alpha: None,
            hiccups,
            correlated: false,
            idle: 0.6,
            crowded: false,
            copy_timers: f64::INFINITY,
            seen: 0,
        }
    }

    fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Simulates a query and adds the records of its cell.
    fn query(&mut self, records: &mut Vec<Record>) {
        self.seen += 1;
        let u = 1.0 - self.uniform();
        let own = self.alpha.map_or(-u.ln(), |alpha| (1.0 - 1.0 / alpha) * u.powf(-1.0 / alpha));
        let own_ns = (own * self.mean * MS) as u64 + 1;
        let stuck = self.uniform() < self.hiccups.0;
        let first_ns = own_ns + if stuck { (self.hiccups.1 * MS) as u64 } else { 0 };
        let learned = self.learner.snapshot();
        let due = learned.explore.iter().filter(|e| self.seen.is_multiple_of(u64::from(e.every)));
        let explore_ns = due.map(|e| e.age_ns).min().filter(|_| self.idle > 0.0);
        let age_ns = learned.suspect_ns.min(explore_ns.unwrap_or(NEVER_NS));
        let rescue = age_ns == learned.suspect_ns;
        let idle = rescue || self.uniform() < self.idle;
        let crowded = self.crowded;
        let fails = first_ns as f64 > self.copy_timers * MS;
        if fails && (!idle || age_ns as f64 >= self.copy_timers * MS) {
            return;
        }
        if first_ns <= age_ns || !idle {
            return records.push(Record::First { ran_ns: first_ns, tried: None, crowded });
        }
        let tried = Some(Tried { age_ns, rescue, risked_ns: 0 });
        let second_ns = if self.correlated { first_ns } else { own_ns };
        if age_ns + second_ns >= first_ns {
            return records.push(Record::First { ran_ns: first_ns, tried, crowded });
        }
        records.push(Record::Second { ran_ns: second_ns, tried, crowded });
        if self.uniform() * f64::from(learned.audit_every) < 1.0 {
            records.push(Record::Audit { ran_ns: first_ns, second_ns });
        }
    }

    fn run(&mut self, queries: u64) {
        let mut records = Vec::new();
        for _ in 0..queries.div_ceil(EPOCH) {
            records.clear();
            (0..EPOCH).for_each(|_| self.query(&mut records));
            self.learner.absorb(&records);
        }
    }

    /// T, in ms.
    fn suspect(&self) -> f64 {
        let ns = self.learner.snapshot().suspect_ns;
        if ns == NEVER_NS { f64::INFINITY } else { ns as f64 / MS }
    }
}

#[test]
fn t_is_where_server_time_is_saved() {
    let mut service = Service::new(Cleanup, (0.001, 15.0));
    service.run(200_000);
    // p (16 - e - 2) = exp(-e) (1 - exp(-g)) at e = 4.7.
    let t = service.suspect();
    assert!((4.3..=5.2).contains(&t), "{t}");
    // No query waits, so a rescue may run for a long time: hardly any query reaches the age at
    // which a rescue is given up.
    let give_up = service.learner.snapshot().give_up_ns as f64 / MS;
    assert!(give_up > 9.0, "{give_up}");
    let status = service.learner.status();
    assert!(
        service.learner.status().threshold_ns.is_some() && (0.0006..0.0016).contains(&status.stuck),
        "{status:?}"
    );
    assert_eq!(status.fallbacks, 0);
}

#[test]
fn if_queries_wait_server_time_is_worth_three_times_as_much() {
    let mut service = Service { crowded: true, ..Service::new(Cleanup, (0.001, 15.0)) };
    service.run(200_000);
    // p (16 - e - 2) = 3 exp(-e) (1 - exp(-g)) at e = 5.9.
    let t = service.suspect();
    assert!((5.3..=6.6).contains(&t), "{t}");
    // Few queries reach the age of 5.8, so rescues are given up at that age.
    let give_up = service.learner.snapshot().give_up_ns as f64 / MS;
    assert!((5.3..=7.0).contains(&give_up), "{give_up}");
}

#[test]
fn t_exists_within_five_thousand_queries_if_hiccups_are_common() {
    for version in [Cleanup, NoCancel] {
        let mut service = Service::new(version, (0.003, 15.0));
        service.run(5_000);
        assert!(service.suspect() < 12.0, "{version:?}: {}", service.suspect());
    }
}

#[test]
fn rescues_that_do_not_pay_are_rare_though_many_win() {
    let mut service = Service::new(Cleanup, (0.1, 5.0));
    service.run(1_000_000);
    let status = service.learner.status();
    assert!(status.won > 100 && (1..=100).contains(&status.fallbacks), "{status:?}");
    assert!(status.lost < 20_000, "more lost rescues than the budget of 2 % allows: {status:?}");
}

#[test]
fn t_follows_the_workload_and_the_hiccups() {
    let mut service = Service { crowded: true, ..Service::new(Cleanup, (0.003, 15.0)) };
    service.run(100_000);
    let before = service.suspect();
    service.hiccups = (0.03, 15.0);
    service.run(20_000);
    let often = service.suspect();
    assert!(often < before - 0.3, "more hiccups, earlier rescues: {often} after {before}");

    let mut service = Service::new(Cleanup, (0.003, 50.0));
    service.run(100_000);
    let before = service.suspect();
    service.mean = 3.0;
    service.run(20_000);
    let slow = service.suspect() / before;
    assert!((2.0..4.0).contains(&slow), "three times as slow: {slow} times as late");
}

#[test]
fn t_follows_a_service_that_becomes_faster() {
    for version in [Cleanup, NoCancel] {
        let mut service = Service::new(version, (0.003, 30.0));
        service.run(100_000);
        let before = service.suspect();
        service.mean = 0.1;
        service.hiccups.1 = 3.0;
        service.run(60_000);
        let after = service.suspect();
        assert!(after < 0.3 * before, "{version:?}: {after} after {before}");
    }
}

#[test]
fn learning_goes_on_while_rescues_do_not_pay() {
    // Three wins come soon, and other queries always wait: a rescue that frees no server does not
    // pay off.
    let mut service = Service { crowded: true, ..Service::new(NoCancel, (0.003, 15.0)) };
    service.run(20_000);
    let explored = service.learner.status();
    assert!(explored.explored_won >= 3, "{explored:?}");
    service.run(100_000);
    assert_eq!(service.suspect(), f64::INFINITY);
    assert!(service.learner.status().explored_lost > explored.explored_lost);
    service.crowded = false;
    service.run(20_000);
    assert!(service.suspect() < 12.0, "{}", service.suspect());
    // The learner already knows T when the service becomes slow.
    service.mean = 3.0;
    service.hiccups.1 = 45.0;
    service.run(200_000);
    assert!(service.suspect() < 36.0, "{}", service.suspect());
}

#[test]
fn hiccups_that_outlast_the_attempt_timeout_are_learned() {
    for version in [Cleanup, NoCancel] {
        let mut service = Service { copy_timers: 100.0, ..Service::new(version, (0.01, 140.0)) };
        service.run(5_000);
        assert!(service.suspect() < 12.0, "{version:?}: {}", service.suspect());
    }
}

#[test]
fn without_wins_there_is_no_t_and_less_and_less_is_explored() {
    let services = [
        Service::new(Cleanup, (0.0, 0.0)),
        Service { correlated: true, ..Service::new(Cleanup, (0.01, 15.0)) },
        Service::new(NoCancel, (0.0, 0.0)),
    ];
    for mut service in services {
        service.run(200_000);
        let before = service.learner.status();
        service.run(200_000);
        assert_eq!(service.learner.status().threshold_ns, None);
        let rescued = service.learner.status().lost - before.lost;
        assert!(rescued < 100, "{rescued} of 200,000 queries are rescued without success");
        let before = before.explored_lost;
        let after = service.learner.status().explored_lost - before;
        assert!(3 * after < 2 * before, "{before} explorations, and then {after}");
        assert!(after > 0, "exploration must find hiccups that begin later");
        assert!(after < 800, "{after} of 200,000 queries are explored");
        assert_eq!(service.learner.status().explored_won, 0);
    }
}

#[test]
fn in_the_first_minute_queries_are_rescued_and_no_threshold_is_reported() {
    let mut service = Service::new(Cleanup, (0.0, 0.0));
    service.run(EPOCH);
    assert!(service.suspect() < 10.0, "{}", service.suspect());
    assert_eq!(service.learner.status().threshold_ns, None);
}

#[test]
fn explorations_that_cannot_be_stopped_are_rarer_with_heavy_tails() {
    let explored = |alpha| {
        let mut service = Service { alpha, ..Service::new(NoCancel, (0.0, 0.0)) };
        service.run(400_000);
        service.learner.status().explored_lost
    };
    let (light, heavy) = (explored(None), explored(Some(1.5)));
    assert!(heavy > 0 && 5 * heavy < light, "{heavy}, and {light} of light tails");
}

#[test]
fn zero_and_maximum_times_do_no_harm() {
    let tried = Some(Tried { age_ns: 0, rescue: false, risked_ns: 0 });
    let ordinary = Record::First { ran_ns: 1_000, tried: None, crowded: false };
    for ran_ns in [0, u64::MAX] {
        let mut learner = RescueLearner::new(NoCancel, 0.02);
        learner.absorb(&[ordinary; EPOCH as usize]);
        learner.absorb(&[Record::First { ran_ns, tried, crowded: false }]);
        let explores = |learner: &RescueLearner| learner.snapshot().explore[0].age_ns != NEVER_NS;
        assert_eq!(explores(&learner), ran_ns == 0, "what was spent is spent");
        for _ in 0..4_000 {
            learner.absorb(&[ordinary; EPOCH as usize]);
        }
        assert!(explores(&learner), "and is paid for some day");
    }
    let mut nothing = RescueLearner::new(NoCancel, 0.02);
    nothing.absorb(&[Record::First { ran_ns: 0, tried, crowded: false }; EPOCH as usize]);
    nothing.absorb(&[Record::First { ran_ns: u64::MAX, tried, crowded: false }; 2]);
    assert_eq!(nothing.snapshot().explore[0].age_ns, NEVER_NS, "no budget without a mean");
}

#[test]
fn the_credit_for_explorations_is_bounded() {
    let usual = Record::First { ran_ns: 1_000, tried: None, crowded: false };
    let mut learner = RescueLearner::new(NoCancel, 0.02);
    (0..2_000).for_each(|_| learner.absorb(&[usual; EPOCH as usize]));
    assert_ne!(learner.snapshot().explore[0].age_ns, NEVER_NS);
    // The cost grows with the square of the time, so two explorations that take thirty times as
    // long as usual cost 1,800.
    let tried = Some(Tried { age_ns: 1_000, rescue: false, risked_ns: 0 });
    learner.absorb(&[Record::First { ran_ns: 30_000, tried, crowded: false }; 2]);
    assert_eq!(learner.snapshot().explore[0].age_ns, NEVER_NS, "no more than is there at first");
}

#[test]
fn rescues_that_cost_more_than_they_save_end_soon() {
    // Stuck queries run only a little longer than the slowest of the other queries.
    let mut service = Service::new(Cleanup, (0.003, 5.0));
    service.run(400_000);
    let status = service.learner.status();
    assert!(status.explored_won > 20 && status.lost < 2_000, "{status:?}");
}

#[test]
fn rare_hiccups_are_found_though_no_server_is_ever_idle() {
    let found = (0..20).filter(|&seed| {
        let hiccups = (0.0003, 65.0);
        let mut service = Service { idle: 0.0, crowded: true, ..Service::new(Cleanup, hiccups) };
        service.rng = rng(seed);
        service.run(100_000);
        let status = service.learner.status();
        assert!(status.lost < 2_000, "the budget: {status:?}");
        service.suspect() < 20.0 && status.won > 5
    });
    // About thirty queries were stuck, and the first few of them were used for explorations. Three
    // wins may be misleading.
    let found = found.count();
    assert!(found >= 16, "in {found} of 20 services");
}

/// Checks that a rescue at an age that no query has reached before does not outweigh the evidence
/// that follows.
#[test]
fn a_rescue_at_an_age_that_no_query_has_reached_is_evidence_of_few_queries() {
    let mut service = Service::new(Cleanup, (0.003, 15.0));
    let tried = Some(Tried { age_ns: (20.0 * MS) as u64, rescue: true, risked_ns: 0 });
    let mut records: Vec<_> = (1..=60)
        .map(|i| Record::First { ran_ns: i * MS as u64 / 20, tried: None, crowded: false })
        .collect();
    service.learner.absorb(&records);
    records = vec![Record::Second { ran_ns: MS as u64, tried, crowded: false }];
    service.learner.absorb(&records);
    service.run(10_000);
    let t = service.suspect();
    assert!(service.learner.status().threshold_ns.is_some() && (2.5..6.0).contains(&t), "{t}");
}

#[test]
fn hiccups_more_frequent_than_old_queries_are_found() {
    let mut service = Service::new(Cleanup, (0.1, 15.0));
    service.run(50_000);
    let t = service.suspect();
    // The budget of 2 % must cover 1.25 times the lost rescues.
    assert!((3.9..6.0).contains(&t), "{t}");
}

#[test]
fn hiccups_as_frequent_as_old_queries_are_found_by_the_earlier_explorations() {
    // One out of a hundred queries is stuck. Nearly all queries that are old enough for the later
    // explorations are stuck.
    for seed in 0..20 {
        let mut service = Service::new(Cleanup, (0.0102, 40.0));
        service.rng = rng(seed);
        service.run(50_000);
        let t = service.suspect();
        assert!((2.0..8.0).contains(&t), "seed {seed}: {t}");
    }
}

#[test]
fn any_budget_works() {
    for budget in [0.0, 1e-9, 0.3, 0.6, 1.0] {
        let mut service = Service::new(Cleanup, (0.05, 15.0));
        service.learner = RescueLearner::new(Cleanup, budget);
        service.run(20_000);
        let learns = service.suspect() < f64::INFINITY;
        assert_eq!(learns, budget > 0.1, "{budget}: {:?}", service.learner.status());
    }
    for (budget, duplicates) in [(0.0, false), (0.3, true)] {
        let mut service = Service::new(Preempt, (0.05, 15.0));
        service.learner = RescueLearner::new(Preempt, budget);
        service.run(20_000);
        assert_eq!(service.learner.snapshot().at_once, duplicates, "{budget}");
    }
    // Few or no queries take longer than usual.
    let usual = Record::First { ran_ns: 1_000, tried: None, crowded: false };
    for (version, budget) in
        [Cleanup, NoCancel].map(|version| [(version, 0.0), (version, 0.02)]).concat()
    {
        let mut learner = RescueLearner::new(version, budget);
        learner.absorb(&[usual; EPOCH as usize]);
        let explores = learner.snapshot().explore[0].age_ns != NEVER_NS;
        assert_eq!(explores, budget > 0.0, "{version:?}: {:?}", learner.snapshot());
    }
}
