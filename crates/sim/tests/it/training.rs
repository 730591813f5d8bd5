//! Tests `probabilistic:auto`: the result of training depends only on the experiment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{candidates, planned, with};
use curtail_kernel::Policy;
use curtail_sim::{
    Experiment, Outcome, Parameters, Plan, Trained, Training, UNIT_NS, compare, sweep, total, train,
};

/// Returns the parameters of five shards that have two replicas each and frequent, long hiccups.
fn hiccups(utilization: f64) -> Parameters {
    let few = with("shards = 5, jitter = 'bimodal:0.01:30', requests = 20_000, replications = 4");
    Parameters { utilization, ..few }
}

fn experiment(parameters: &Parameters) -> Experiment {
    parameters.experiment().expect("parameters of an experiment")
}

fn outcomes(parameters: &Parameters, names: &[&str], threads: usize) -> Vec<Outcome> {
    let (experiment, candidates) = (experiment(parameters), candidates(names));
    let (outcomes, counted) = planned(threads, |plan| compare(&experiment, &candidates, plan));
    let announced = total(&experiment, &candidates);
    assert_eq!(counted, announced, "progress ends at the announced total");
    outcomes.expect("they can run").expect("nothing stops them")
}

fn trained(parameters: &Parameters, budget: Option<f64>, training: &Training) -> Trained {
    let experiment = experiment(parameters);
    planned(2, |plan| train(&experiment, budget, training, plan)).0.expect("nothing stops it")
}

#[test]
fn it_beats_random_where_hiccups_are_frequent_and_there_is_room() {
    let outcomes = outcomes(&hiccups(0.1), &["random", "probabilistic:auto"], 2);
    let trained = outcomes[1].trained.as_deref().expect("it was trained");
    assert!(trained.starts_with("probabilistic:"), "{trained}");
    assert!(outcomes[1].budget.is_some_and(|budget| budget > 0.0));
    let versus = outcomes[1].versus_first.as_ref().expect("both are stable");
    let by = versus.difference.percentile(99.0).expect("enough samples");
    let width = versus.ci95.percentile(99.0).expect("enough replications");
    assert!(by + width < -5.0, "{trained}: {by} ± {width}");
}

#[test]
fn a_trained_policy_can_be_run_by_its_name() {
    let parameters = hiccups(0.1);
    let auto = &outcomes(&parameters, &["probabilistic:auto:0.05"], 2)[0];
    let trained = auto.trained.as_deref().expect("it was trained");
    let named = &outcomes(&parameters, &[trained], 2)[0];
    assert_eq!(auto.histogram, named.histogram, "{trained}");
    assert_eq!((named.trained.as_ref(), named.budget), (None, None));
}

#[test]
fn threads_change_nothing() {
    let run = |threads| {
        let all = outcomes(&hiccups(0.2), &["probabilistic:auto:0.1"], threads).into_iter();
        all.map(|one| (one.trained, one.budget, one.histogram)).collect::<Vec<_>>()
    };
    let (one, three) = (run(1), run(3));
    for (one, three) in one.iter().zip(&three) {
        assert_eq!((&one.0, one.1), (&three.0, three.1));
        assert!(one.2 == three.2, "{:?}", one.0);
    }
}

#[test]
fn a_budget_is_kept() {
    for (utilization, budget) in [(0.1, 0.01), (0.1, 0.1), (0.2, 0.02), (0.4, 0.005)] {
        let name = format!("probabilistic:auto:{budget}");
        let outcome = &outcomes(&hiccups(utilization), &[&name], 2)[0];
        let hedged = outcome.hedged_fraction.expect("it is stable");
        let trained = &outcome.trained;
        assert!(hedged <= 1.15 * budget, "{hedged} of {budget} at {utilization}: {trained:?}");
        assert!(hedged > 0.0, "{trained:?} at {utilization}");
        assert_eq!(outcome.budget, Some(budget));
    }
}

#[test]
fn without_a_budget_it_is_random() {
    let outcomes = outcomes(&hiccups(0.3), &["random", "probabilistic:auto:0"], 2);
    assert_eq!(outcomes[1].trained.as_deref(), Some("random"));
    assert_eq!(outcomes[1].budget, Some(0.0));
    assert_eq!(outcomes[0].histogram, outcomes[1].histogram);
    assert_eq!(outcomes[0].request, outcomes[1].request);
}

/// Without jitter, a second copy takes as long as the first and uses scarce capacity.
#[test]
fn without_jitter_hardly_any_query_is_hedged_at_high_load() {
    let parameters = Parameters { jitter: None, ..hiccups(0.8) };
    let outcome = &outcomes(&parameters, &["probabilistic:auto"], 2)[0];
    let hedged = outcome.hedged_fraction.expect("it is stable");
    assert!(hedged < 0.005, "{hedged}: {:?}", outcome.trained);
}

/// If queues grow without bound, second copies cannot help.
#[test]
fn an_overloaded_service_gets_no_second_copies() {
    let parameters = Parameters { queue: 1_000, ..hiccups(1.5) };
    for budget in [None, Some(0.1)] {
        let training = Training { budgets: 3, pilots: 2, ..Training::default() };
        let found = trained(&parameters, budget, &training);
        assert_eq!(found, Trained { policy: Policy::RANDOM, budget: 0.0 });
    }
}

/// One query in a hundred has a hiccup, so hiccups matter at the 99.8th percentile, but not at the
/// median.
#[test]
fn the_percentile_can_be_chosen() {
    let delay = |percentile| {
        let training = Training { percentile: Some(percentile), ..Training::default() };
        let found = trained(&hiccups(0.1), Some(0.02), &training);
        found.policy.delay_ns().expect("a probabilistic hedge")
    };
    let (early, late) = (delay(0.5), delay(0.998));
    assert!(early < UNIT_NS && late > 2 * UNIT_NS, "{early} {late}");
}

#[test]
fn it_can_be_stopped() {
    let experiment = experiment(&hiccups(0.3));
    let (progress, stop) = (AtomicU64::new(0), AtomicBool::new(true));
    let plan = Plan { threads: 2, percentiles: &[99.0], progress: &progress, stop: &stop };
    assert_eq!(train(&experiment, None, &Training::default(), &plan), None);
    let outcomes = compare(&experiment, &candidates(&["probabilistic:auto"]), &plan);
    assert!(outcomes.expect("it can run").is_none());
    assert_eq!(progress.load(Ordering::Relaxed), 0);
}

#[test]
fn a_sweep_announces_what_training_takes() {
    let axes = vec![sweep::Axis::parse("utilization", "0.2,0.4").expect("two loads")];
    let candidates = candidates(&["psq", "probabilistic:auto:0.1"]);
    let parameters = Parameters { shards: 2, requests: 2_000, ..hiccups(0.3) };
    let plan = sweep::Plan::new(&parameters, axes, candidates, vec![99.0]).expect("a grid");
    let announced: u64 =
        plan.check().expect("it can run").iter().map(|(requests, _)| requests).sum();
    let (ran, counted) = planned(2, |how| plan.run(&[0, 1], how, |_| true));
    assert!(ran.expect("it can run"), "nothing stops it");
    assert_eq!(counted, announced);
}
