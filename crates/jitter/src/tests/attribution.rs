//! Tests the attribution of hiccups to the leaf or the machine.

use curtail_dist::seed;
use rand_distr::{Distribution as _, StandardUniform};

use super::scenario::{Scenario, lognormal};
use crate::{Attribution, Blame, Executions, Floor};

fn attribution(scenario: Scenario, seconds: f64, seed: u64) -> Attribution {
    let executions = scenario.run(seed);
    let floor = scenario.floor(&executions, seconds, seed);
    executions.all().attribute(&executions.all().summarize(), &floor)
}

#[test]
fn machine_pauses_are_never_attributed_to_the_leaf() {
    let mut machine = 0;
    for seed in 0..20 {
        for mean_p in [10.0, 1.0] {
            let blame = attribution(Scenario { mean_p, ..Scenario::default() }, 60.0, seed).blame;
            assert!(
                !matches!(blame, Blame::Leaf | Blame::Both),
                "{mean_p}, seed {seed}: {blame:?}"
            );
            machine += u32::from(blame == Blame::Machine);
        }
    }
    // In most cases, the hiccups are attributed to the machine.
    assert!(machine >= 20, "{machine} of 40");
}

#[test]
fn the_machine_is_blamed_only_if_the_leaf_may_have_no_hiccups() {
    let mut undecided = 0;
    for seed in 0..60 {
        let probability = 0.0005 * (1.0 + (seed % 6) as f64);
        let scenario = Scenario { probability, duration: 5.0, mean_p: 1.0, ..Scenario::default() };
        let found = attribution(scenario, 60.0, seed);
        let sure = found.leaf.is_some_and(|leaf| leaf.probability.low > 0.0);
        assert!(!sure || found.blame != Blame::Machine, "seed {seed}: {found:?}");
        undecided += u32::from(sure && found.blame == Blame::Undecided);
    }
    assert!(undecided > 0, "none of the seeds is between");
}

#[test]
fn a_body_alone_has_no_cause() {
    for seed in 0..20 {
        let found = attribution(Scenario { pauses: 0.0, ..Scenario::default() }, 60.0, seed);
        assert_eq!((found.blame, found.leaf, found.p_value), (Blame::None, None, 1.0));
    }
}

#[test]
fn hiccups_without_gaps_in_the_floor_belong_to_the_leaf() {
    for (seed, probability) in [(0, 0.002), (1, 0.005), (2, 0.05)] {
        let scenario = Scenario { probability, duration: 150.0, ..Scenario::default() };
        let found = attribution(scenario, 60.0, seed);
        assert_eq!(found.blame, Blame::Leaf, "{found:?}");
        assert_eq!(found.floor.probability, 0.0);
        assert_eq!(found.floor.duration_ns, None);
        assert!(found.leaf.expect("hiccups").probability.contains(probability), "{found:?}");
    }
}

#[test]
fn hiccups_beyond_the_floor_belong_to_both() {
    let scenario = Scenario {
        probability: 0.01,
        duration: 5.0,
        mean_p: 1.0,
        variation: 0.3,
        ..Scenario::default()
    };
    let found = attribution(scenario, 60.0, 4);
    assert_eq!(found.blame, Blame::Both, "{found:?}");
    let leaf = found.leaf.expect("hiccups");
    assert!(leaf.probability.contains(0.01), "{found:?}");
    assert!(leaf.duration_ns.is_some_and(|duration| duration.contains(5e6)), "{found:?}");
}

/// A third of the executions are slow for another reason, such as a server that had been asleep.
/// These executions are not hiccups, and the machine does not cause them.
#[test]
fn executions_between_body_and_hiccups_are_not_hiccups_without_gaps_in_the_floor() {
    let mut rng = seed::rng(seed::stream(1, &[b"jitter", b"between"]));
    let [body, between, hiccup] =
        [(10.0, 0.5), (70.0, 0.8), (900.0, 0.3)].map(|(mean, cv)| lognormal(mean, cv));
    let mut executions = Executions::new(["all"; 40]);
    for execution in 0..40_000 {
        let draw: f64 = StandardUniform.sample(&mut rng);
        let of = match draw {
            draw if draw < 0.02 => hiccup,
            draw if draw < 0.35 => between,
            _ => body,
        };
        let time = 27.0 + of.sample(&mut rng);
        executions.push(execution % 40, (time * 1e3) as u64);
    }
    let all = executions.all();
    let summary = all.summarize();
    let hiccups = &summary.hiccups;
    assert!(hiccups.valley_ns < hiccups.from_ns, "two readings: {hiccups:?}");
    let floor = Floor::new(1_000_000_000, &[(1_000_000, 5)]).expect("some time");
    let found = all.attribute(&summary, &floor);
    assert_eq!(found.blame, Blame::Leaf, "{found:?}");
    let leaf = found.leaf.expect("hiccups");
    assert!(leaf.probability.value < 0.03, "{leaf:?} of {hiccups:?}");
    assert!(leaf.duration_ns.is_some_and(|duration| duration.value > 5e5), "{leaf:?}");
}

#[test]
fn a_floor_that_exceeds_the_hiccups_explains_nothing() {
    // A loop and a leaf with known hiccups run for the same time. Other work interrupts the loop
    // more often.
    let scenario =
        Scenario { probability: 0.02, duration: 40.0, mean_p: 2.0, ..Scenario::default() };
    let executions = scenario.run(3);
    let summary = executions.all().summarize();
    let found = |gaps_per_s: u64| {
        let gaps = [(40_000_000, 20 * gaps_per_s)];
        let floor = Floor::new(20_000_000_000 + 800_000_000 * gaps_per_s, &gaps);
        executions.all().attribute(&summary, &floor.expect("some time"))
    };
    // With a mean P of 2 ms, a probability of 2 % corresponds to 10 hits per second of execution
    // time.
    let busier = found(15);
    assert!(busier.floor_exceeds && busier.blame == Blame::Undecided, "{busier:?}");
    assert!(busier.leaf.expect("hiccups").probability.low <= 0.0, "{busier:?}");
    assert!(!found(10).floor_exceeds);
    assert_eq!(found(1).blame, Blame::Leaf);
}

#[test]
fn a_floor_with_little_observation_decides_nothing() {
    let scenario = Scenario { probability: 0.01, duration: 150.0, ..Scenario::default() };
    assert_eq!(attribution(scenario, 0.001, 4).blame, Blame::Undecided);
}

#[test]
fn hits_grow_with_the_execution_time() {
    // 100 gaps of 1 ms and 10 of 10 ms, in addition to one second of run time.
    let floor = Floor::new(1_200_000_000, &[(1_000_000, 100), (10_000_000, 10)]).expect("a floor");
    let hits = |p_ns, least_ns| {
        let mut one = Executions::new(["all"]);
        one.push(0, p_ns);
        one.all().expected(&floor, least_ns)
    };
    let all = hits(10_000_000, 0);
    assert!((all.probability - (1.0 - (-1.1_f64).exp())).abs() < 1e-12, "{all:?}");
    assert_eq!(all.duration_ns, Some(2e8 / 110.0));
    let long = hits(10_000_000, 5_000_000);
    assert!((long.probability - (1.0 - (-0.1_f64).exp())).abs() < 1e-12, "{long:?}");
    assert_eq!(long.duration_ns, Some(1e7));
    assert_eq!(hits(0, 0).probability, 0.0);
    assert_eq!(hits(u64::MAX, u64::MAX).duration_ns, None);
}

#[test]
fn a_floor_needs_time_beside_its_gaps() {
    for (observed_ns, gaps) in [(0, &[][..]), (100, &[(50, 2)]), (9, &[(u64::MAX, u64::MAX); 9])] {
        assert_eq!(Floor::new(observed_ns, gaps), None);
    }
}
