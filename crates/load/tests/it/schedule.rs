//! Tests that schedules have the right statistics, and that a seed determines them.

use curtail_load::{Arrivals, Extent, Pace, Plan, Profile, QueryOrder, Schedule, Slot};

fn gaps_ns(schedule: Schedule, count: usize) -> Vec<f64> {
    let times: Vec<u64> = schedule.take(count + 1).map(|slot| slot.at_ns).collect();
    times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn plan() -> Plan {
    Plan::new("http://127.0.0.1:1/".parse().unwrap(), 1_000.0)
}

#[test]
fn gaps_of_a_poisson_schedule_are_exponential() {
    let gaps = gaps_ns(Schedule::new(Profile::Steady(1_000.0), &Arrivals::Poisson, 42), 100_000);
    let mean_ns = mean(&gaps);
    let variance = mean(&gaps.iter().map(|gap| (gap - mean_ns).powi(2)).collect::<Vec<_>>());
    // The standard error of the mean is 0.3 %, and that of the variance is 0.9 %.
    assert!((mean_ns / 1e6 - 1.0).abs() < 0.01, "mean {mean_ns} ns");
    assert!((variance / 1e12 - 1.0).abs() < 0.03, "variance {variance} ns^2");
    // The shape also matches an exponential distribution: a share of e^-1 of the gaps is above the
    // mean, and a share of e^-3 is above three times the mean.
    for times in [1.0, 3.0] {
        let above = gaps.iter().filter(|gap| **gap > times * 1e6).count() as f64 / 1e5;
        assert!((above / f64::exp(-times) - 1.0).abs() < 0.05, "{above} above {times} means");
    }
    // Neighboring gaps are not correlated.
    let products = gaps.windows(2).map(|pair| (pair[0] - mean_ns) * (pair[1] - mean_ns));
    let correlation = mean(&products.collect::<Vec<_>>()) / variance;
    assert!(correlation.abs() < 0.015, "{correlation}");
}

#[test]
fn a_constant_schedule_does_not_drift() {
    let schedule = Schedule::new(Profile::Steady(3.0), &Arrivals::Constant, 42);
    for (i, slot) in schedule.take(100_000).enumerate() {
        let exact = (i as u128 * 1_000_000_000 + 1) / 3;
        assert!(u128::from(slot.at_ns).abs_diff(exact) <= 1, "slot {i} at {} ns", slot.at_ns);
    }
}

#[test]
fn a_seed_determines_times_and_queries() {
    let slots = |seed| -> Vec<Slot> {
        Schedule::new(Profile::Steady(500.0), &Arrivals::Poisson, seed)
            .with_queries(1_000, QueryOrder::Random)
            .take(10_000)
            .collect()
    };
    assert_eq!(slots(7), slots(7));
    assert_ne!(slots(7), slots(8));
}

#[test]
fn a_schedule_is_the_same_in_every_release() {
    // Recorded experiments depend on these values.
    let slots = Schedule::new(Profile::Steady(1_000.0), &Arrivals::Poisson, 1)
        .with_queries(100, QueryOrder::Random);
    let found: Vec<_> = slots.take(4).map(|slot| (slot.at_ns, slot.query)).collect();
    assert_eq!(found, [(2_155_721, 38), (2_385_183, 46), (2_839_942, 43), (4_813_558, 71)]);
}

#[test]
fn the_rate_changes_neither_the_queries_nor_the_shape() {
    let slots = |rate| {
        Schedule::new(Profile::Steady(rate), &Arrivals::Poisson, 3)
            .with_queries(50, QueryOrder::Random)
            .take(1_000)
            .collect::<Vec<_>>()
    };
    for (slow, fast) in slots(100.0).iter().zip(&slots(200.0)) {
        assert_eq!(slow.query, fast.query);
        assert!(slow.at_ns.abs_diff(2 * fast.at_ns) <= 2, "{slow:?} {fast:?}");
    }
}

#[test]
fn queries_in_order_are_cycled() {
    let schedule = Schedule::new(Profile::Steady(1.0), &Arrivals::Constant, 0)
        .with_queries(3, QueryOrder::InOrder);
    let queries: Vec<usize> = schedule.take(7).map(|slot| slot.query).collect();
    assert_eq!(queries, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn in_rounds_each_query_is_sent_once_before_any_is_repeated() {
    let schedule = Schedule::new(Profile::Steady(1.0), &Arrivals::Constant, 5);
    let slots = schedule.with_queries(20, QueryOrder::Rounds).take(20 * 50);
    let queries: Vec<usize> = slots.map(|slot| slot.query).collect();
    let rounds: Vec<&[usize]> = queries.chunks(20).collect();
    for round in &rounds {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }
    assert!(rounds[0].is_sorted(), "the first is as given");
    assert!(rounds.windows(2).all(|pair| pair[0] != pair[1]), "and not in one order");
    // Any of the 20 queries may be first in a round. The probability that a given query is never
    // first in 50 rounds is 8 %.
    let mut first: Vec<usize> = rounds.iter().map(|round| round[0]).collect();
    first.sort_unstable();
    first.dedup();
    assert!(first.len() > 12, "{first:?}");
}

#[test]
fn a_warm_up_takes_no_query_out_of_a_round() {
    let schedule = Schedule::new(Profile::Steady(1.0), &Arrivals::Constant, 5)
        .with_queries(3, QueryOrder::Rounds)
        .with_extent(2_000_000_000, Extent::Requests(6));
    let slots: Vec<_> = schedule.map(|slot| (slot.warmup, slot.query)).collect();
    assert_eq!(slots[..5], [(true, 0), (true, 1), (false, 0), (false, 1), (false, 2)]);
    assert_eq!(slots.len(), 8);
}

#[test]
fn drawn_queries_are_uniform() {
    let schedule = Schedule::new(Profile::Steady(1.0), &Arrivals::Constant, 5)
        .with_queries(10, QueryOrder::Random);
    let mut counts = [0_u32; 10];
    for slot in schedule.take(100_000) {
        counts[slot.query] += 1;
    }
    // The standard deviation of each count is 95.
    assert!(counts.iter().all(|count| count.abs_diff(10_000) < 400), "{counts:?}");
}

#[test]
fn warm_up_requests_are_marked_and_not_part_of_the_extent() {
    let mut plan = plan();
    plan.pace = Pace::constant(1_000.0);
    plan.warmup_ns = 10_000_000;
    for extent in [Extent::Requests(20), Extent::Duration { ns: 20_000_000 }] {
        plan.extent = extent;
        let slots: Vec<Slot> = plan.schedule().unwrap().collect();
        assert_eq!(slots.len(), 30);
        assert!(slots[..10].iter().all(|slot| slot.warmup));
        assert!(slots[10..].iter().all(|slot| !slot.warmup));
        assert_eq!((slots[10].index, slots[10].at_ns), (10, 10_000_000));
    }
}

#[test]
fn a_duration_ends_a_poisson_schedule() {
    let mut plan = plan();
    plan.extent = Extent::Duration { ns: 10_000_000_000 };
    let slots: Vec<Slot> = plan.schedule().unwrap().collect();
    // The mean is 10,000, with a standard deviation of 100.
    assert!(slots.len().abs_diff(10_000) < 400, "{}", slots.len());
    assert!(slots.iter().all(|slot| slot.at_ns < 10_000_000_000));
}
