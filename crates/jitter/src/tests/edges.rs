//! Degenerate executions.

use curtail_dist::seed;
use rand_distr::{Distribution as _, Exp};

use super::scenario::Scenario;
use crate::{Executions, Floor, Summary};

/// Creates executions of queries of one class, round by round.
fn rounds(queries: usize, times: impl IntoIterator<Item = u64>) -> Executions {
    let mut made = Executions::new(vec!["all"; queries]);
    for (at, time) in times.into_iter().enumerate() {
        made.push(at % queries, time);
    }
    made
}

/// Asserts that every figure is finite and every interval is ordered.
fn assert_sound(summary: &Summary) {
    let text = serde_json::to_string(summary).expect("JSON");
    let hiccups = &summary.hiccups;
    let share = |value: f64| (0.0..=1.0).contains(&value);
    let probability = hiccups.probability;
    assert!(share(probability.low) && share(probability.high), "{text}");
    assert!(
        probability.low <= probability.value && probability.value <= probability.high,
        "{text}"
    );
    assert!(share(summary.modality.p_value) && share(summary.modality.distance), "{text}");
    assert_eq!(summary.modality.bimodal, summary.modality.p_value < 0.01, "{text}");
    assert!(hiccups.dispersion >= 1.0 && hiccups.dispersion.is_finite(), "{text}");
    assert_eq!(hiccups.duration_ns.is_some(), summary.modality.bimodal, "{text}");
    if let Some(duration) = hiccups.duration_ns {
        assert!(0.0 <= duration.low && duration.low <= duration.value, "{text}");
        assert!(duration.value <= duration.high && duration.high.is_finite(), "{text}");
    }
    for mean in [summary.mean_service_ns, summary.mean_p_ns, summary.mean_j_ns] {
        assert!(mean.is_finite() && mean >= 0.0, "{text}");
    }
    if let Some(bias) = summary.bias {
        let figures = [bias.ns, bias.share, bias.standard_error_ns, bias.power];
        assert!(figures.into_iter().all(f64::is_finite), "{text}");
    }
}

#[test]
fn odd_executions_have_sound_summaries() {
    let alternating = |at: u64| if at % 2 == 1 { u64::MAX } else { 0 };
    for (name, executions) in [
        ("none", rounds(3, [])),
        ("one", rounds(1, [5])),
        ("one of three queries", rounds(3, [5])),
        ("one of each", rounds(100, (0..100).map(|at| at * 1_000))),
        ("two of each", rounds(100, (0..200).map(|at| at * at))),
        ("zeros", rounds(2, [0; 1_000])),
        ("equal ones", rounds(2, [7_000_000; 1_000])),
        ("equal ones but one", rounds(1, (0..1_000).map(|at| if at == 500 { 9 } else { 8 }))),
        ("the longest", rounds(2, [u64::MAX; 100])),
        ("all or nothing", rounds(1, (0..1_000).map(alternating))),
        ("one query", rounds(1, (0..5_000).map(|at| 1_000_000 + at * 7_919 % 50_000))),
        ("powers", rounds(1, (0..640).map(|at| 1 << (at % 64)))),
        ("half hiccups", rounds(5, (0..5_000).map(|at| 1_000 + at % 13 + at / 5 % 2 * 1_000_000))),
    ] {
        let summary = executions.all().summarize();
        assert_sound(&summary);
        let floor = Floor::new(1_000_000, &[(1, 1)]).expect("a floor");
        let found = executions.all().attribute(&summary, &floor);
        assert!((0.0..=1.0).contains(&found.p_value), "{name}: {found:?}");
        assert!(executions.all().ranked(10, 1).executions.len() <= 10);
    }
}

#[test]
fn without_repetitions_hiccups_are_unknown() {
    for executions in [rounds(3, []), rounds(100, (0..100).map(|at| at * 1_000))] {
        let probability = executions.all().summarize().hiccups.probability;
        assert_eq!((probability.value, probability.low, probability.high), (0.0, 0.0, 1.0));
    }
}

#[test]
fn equal_times_bound_the_probability_by_their_number() {
    let probability = rounds(2, [7_000_000; 1_000]).all().summarize().hiccups.probability;
    // The upper bound of Clopper and Pearson for 0 of 1,000 is 1 - 0.025^(1/1000).
    assert!((probability.high - 0.003_682).abs() < 1e-6, "{probability:?}");
}

#[test]
fn few_hiccups_have_wide_intervals() {
    for count in 0..12_u64 {
        let noise = Exp::new(1.0 / 40_000.0).expect("a rate");
        let mut rng = seed::rng(count);
        let time = |at: u64| {
            let hiccup = if at % 83 == 5 && at / 83 < count { 60_000_000 } else { 0 };
            2_000_000 + noise.sample(&mut rng) as u64 + hiccup
        };
        let summary = rounds(10, (0..1_000).map(time)).all().summarize();
        assert_sound(&summary);
        let truth = count as f64 / 1_000.0;
        assert!(summary.hiccups.probability.contains(truth), "{count}: {summary:?}");
        assert!(summary.hiccups.probability.high > truth * 1.5, "{count}: {summary:?}");
        assert!(summary.modality.bimodal || count < 6, "{count}: {summary:?}");
    }
}

#[test]
fn the_same_executions_have_the_same_summary() {
    let scenario =
        Scenario { probability: 0.01, duration: 50.0, variation: 0.3, ..Scenario::default() };
    assert_eq!(scenario.run(1).all().summarize(), scenario.run(1).all().summarize());
}

#[test]
fn a_million_executions_take_no_more_fitting_than_a_thousand() {
    let scenario = Scenario {
        queries: 1_000,
        executions: 1_000,
        probability: 0.003,
        duration: 80.0,
        ..Scenario::default()
    };
    let summary = scenario.run(1).all().summarize();
    assert_sound(&summary);
    assert!(summary.hiccups.probability.contains(0.003), "{summary:?}");
    assert!(summary.hiccups.duration_ns.is_some_and(|d| d.contains(8e7)), "{summary:?}");
}

#[test]
fn p_is_the_minimum_of_the_executions() {
    let mut made = Executions::new(["a", "b"]);
    assert_eq!((made.p_ns(0), made.p_ns(2), made.repetitions()), (None, None, 0));
    [9, 4, 5].iter().for_each(|ns| assert!(made.push(1, *ns)));
    assert_eq!((made.p_ns(1), made.repetitions(), made.len()), (Some(4), 0, 3));
}

#[test]
fn curves_fall_from_all_to_one_sample() {
    let executions = Scenario { probability: 0.01, duration: 50.0, ..Scenario::default() }.run(1);
    let curves = executions.all().ccdf(50);
    for (curve, samples) in [(&curves.p, 200.0), (&curves.j, 40_000.0), (&curves.service, 40_000.0)]
    {
        assert!(curve.len() > 20 && curve.len() <= 50);
        assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1));
        assert_eq!((curve[0].1, curve[curve.len() - 1].1), (1.0, 1.0 / samples));
    }
    // One in a hundred executions is as long as a hiccup.
    let hiccups = curves.j.iter().find(|point| point.0 >= 25_000_000).expect("hiccups");
    assert!((0.004..0.015).contains(&hiccups.1), "{hiccups:?}");
    let two = rounds(1, [7, 7]);
    assert_eq!(two.all().ccdf(10).service, [(7, 1.0)]);
    assert_eq!((two.all().ccdf(0).service, two.all().ccdf(1).service.len()), (vec![], 1));
    assert_eq!(rounds(1, []).all().ccdf(10).j, []);
}

#[test]
fn ranks_are_in_order_of_p_and_samples_are_bounded() {
    let scenario = Scenario { probability: 0.05, duration: 50.0, ..Scenario::default() };
    let executions = scenario.run(2);
    let ranked = executions.all().ranked(100, 7);
    assert_eq!((ranked.queries.len(), ranked.executions.len()), (100, 100));
    assert!(ranked.queries.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    assert_eq!((ranked.queries[0].0, ranked.queries[99].0), (0, 199));
    assert_eq!(ranked, executions.all().ranked(100, 7));
    assert_ne!(ranked, executions.all().ranked(100, 8));
    // A uniform sample contains the same share of hiccups as all executions.
    let many = executions.all().ranked(10_000, 7).executions;
    let slow = many.iter().filter(|(_, j_ns)| *j_ns > 25_000_000).count();
    assert!((400..600).contains(&slow), "{slow} of 10,000");
    assert_eq!(executions.all().ranked(1_000_000, 7).executions.len(), 40_000);
    assert_eq!(executions.all().ranked(0, 7).executions, []);
}
