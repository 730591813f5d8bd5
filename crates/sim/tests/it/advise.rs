//! Checks that the advice is right, both for services where hedging pays and for services where it
//! does not. The truth comes from longer simulations of every deployable policy.

use crate::common::{candidates, planned};
use curtail_dist::{Spec, seed};
use curtail_sim::advise::{
    Advice, Latency, Point, Question, Repeated, Times, WORTH, advise, resampled, total,
};
use curtail_sim::{Error, Experiment, Parameters, UtilizationOf, compare};

/// A service: shards, replicas, utilization, P, J.
type Service = (u32, u32, f64, &'static str, Option<&'static str>);

fn experiment((shards, replicas, utilization, service, jitter): Service) -> Experiment {
    let parameters = Parameters {
        shards,
        replicas,
        utilization,
        service: service.to_owned(),
        jitter: jitter.map(ToOwned::to_owned),
        ..Parameters::default()
    };
    parameters.experiment().expect("parameters of an experiment")
}

fn advice_on(experiment: &Experiment, cancel: bool, threads: usize) -> Result<Advice, Error> {
    advice_with_effort(experiment, cancel, threads, 0.05)
}

fn advice_with_effort(
    experiment: &Experiment,
    cancel: bool,
    threads: usize,
    effort: f64,
) -> Result<Advice, Error> {
    answer(&Question { experiment, cancel, effort, resampled: &[], replicas_at: &[] }, threads)
}

fn answer(question: &Question<'_>, threads: usize) -> Result<Advice, Error> {
    let (advice, counted) = planned(threads, |plan| advise(question, plan));
    let most = total(question);
    assert!(counted <= most, "{counted} are more than the {most} that were announced");
    Ok(advice?.expect("nothing stops it"))
}

/// Returns the p99 gain of the best policy that hedges, from a separate simulation.
fn brute_force(experiment: &Experiment, cancel: bool) -> f64 {
    let mut names = vec!["psq", "laedge", "naive"];
    names.extend(match cancel {
        true => &[
            "laedge:cc",
            "laedge:cc+pc",
            "rescue",
            "rescue:preempt",
            "delayed:p95:cc+least-outstanding",
        ][..],
        false => &["rescue:no-cancel", "delayed:p95+least-outstanding"],
    });
    // The seed is different, so that this simulation does not repeat the one for the advice.
    let requests = (250_000 / u64::from(experiment.world.shards())).min(20_000);
    let longer = Experiment { requests, warm_up: requests / 10, seed: 7, ..experiment.clone() };
    let outcomes = planned(2, |plan| compare(&longer, &candidates(&names), plan)).0;
    let outcomes = outcomes.expect("they can run");
    let p99 =
        |at: usize| outcomes.as_ref().and_then(|all| all[at].request.as_ref()?.percentile(99.0));
    let psq = p99(0).expect("psq is stable");
    (1..names.len()).filter_map(p99).fold(f64::MIN, |best, p99| best.max(1.0 - p99 / psq))
}

/// Returns the first of these services. The environment variable `CURTAIL_SERVICES` sets their
/// number, since each one takes seconds. `cargo xtask accept decide` checks all.
fn chosen(services: &[Service]) -> impl Iterator<Item = &Service> {
    let number = std::env::var("CURTAIL_SERVICES")
        .map_or(1, |number| number.parse().expect("CURTAIL_SERVICES is a number"));
    services.iter().take(number)
}

fn check(services: &[Service], cancel: bool, pays: bool, effort: f64) {
    for &service in chosen(services) {
        let experiment = experiment(service);
        let gain = brute_force(&experiment, cancel);
        assert_eq!(gain > WORTH, pays, "the case is not as intended: {service:?} {gain}");
        let advice =
            advice_with_effort(&experiment, cancel, 2, effort).expect("the question is valid");
        assert_eq!(advice.hedge, pays, "{service:?}: {}", advice.because);
        assert_eq!(advice.policy == "psq", !pays);
        assert!(advice.confidence > 0.9, "{service:?}: {}", advice.confidence);
        let (reported, bound) =
            (advice.gain.p99.unwrap_or(-1.0), advice.bound.p99.expect("a bound"));
        assert!(reported <= bound + 0.01, "{service:?}: {reported} exceeds {bound}");
        if pays {
            assert!((reported - gain).abs() < 0.1, "{service:?}: {reported} and not {gain}");
        }
    }
}

#[test]
fn hedging_pays_where_longer_simulations_confirm_it() {
    let services = [
        (5, 2, 0.35, "exp:5ms", Some("bimodal:0.003:75ms")),
        (50, 2, 0.2, "exp:1", Some("bimodal:0.001:15")),
        (50, 3, 0.4, "exp:1", Some("bimodal:0.001:30")),
        (100, 2, 0.3, "lognormal:1:0.5", Some("bimodal:0.0005:20")),
        (10, 6, 0.5, "gamma:2ms:0.7", Some("bimodal:0.004:30ms")),
    ];
    check(&services, false, true, 0.15);
}

#[test]
fn it_pays_beyond_half_load_where_replicas_stop_what_is_given_up() {
    let services = [
        (50, 2, 0.7, "exp:1", Some("bimodal:0.001:15")),
        (5, 2, 0.8, "exp:5ms", Some("bimodal:0.003:75ms")),
    ];
    // The policies need about ten thousand queries to learn whether a second copy helps.
    check(&services, true, true, 0.6);
}

#[test]
fn hedging_does_not_pay_where_longer_simulations_deny_it() {
    let services = [
        (20, 2, 0.3, "exp:1", None),
        (50, 1, 0.5, "exp:1", Some("bimodal:0.001:15")),
        (5, 2, 0.3, "exp:1", Some("bimodal:0.00005:15")),
        (50, 2, 0.4, "exp:1", Some("exp:0.5")),
        (20, 2, 0.6, "exp:5ms", Some("det:3ms")),
    ];
    check(&services, true, false, 0.15);
    // Without cancellation, hedging pays only if LÆDGE limits the second copies.
    let services = [
        (50, 2, 0.7, "exp:1", Some("bimodal:0.001:15")),
        (5, 2, 0.85, "exp:5ms", Some("bimodal:0.003:75ms")),
    ];
    check(&services, false, false, 0.15);
}

#[test]
fn what_is_recommended_is_not_beaten_in_its_own_table() {
    let services = [
        (1, 4, 0.2, "exp:5ms", Some("bimodal:0.004:60ms")),
        (1, 6, 0.3, "exp:5ms", Some("bimodal:0.003:75ms")),
        (5, 2, 0.35, "exp:5ms", Some("bimodal:0.003:75ms")),
    ];
    for &service in chosen(&services) {
        let advice = advice_with_effort(&experiment(service), true, 2, 0.6).expect("an answer");
        assert!(advice.hedge, "{service:?}: {}", advice.because);
        let delayed = |row: &&Latency| row.policy.starts_with("delayed:");
        let deployed = |row: &&Latency| !["idealized", "o1"].contains(&&*row.policy);
        let rows = || advice.latencies.iter().filter(|row| deployed(row) && !delayed(row));
        let ours = rows().find(|row| row.policy == advice.policy).expect("it is in the table");
        let figures = |row: &Latency| {
            [row.p50, row.p99, row.copies_per_query].map(|figure| figure.expect("it is stable"))
        };
        let [p50, p99, copies] = figures(ours);
        for row in rows() {
            let [their_p50, their_p99, their_copies] = figures(row);
            let frugal = copies - 1.0 <= 0.5 * (their_copies - 1.0);
            assert!(frugal || their_p99 >= 0.99 * p99, "{service:?}: {row:?} beats {ours:?}");
            assert!(p99 <= (1.0 + WORTH) * their_p99, "{service:?}: {row:?} beats {ours:?}");
            let all = their_p99 < p99 && their_p50 < 0.95 * p50;
            assert!(!all, "{service:?}: {row:?} beats {ours:?}");
        }
        for row in advice.latencies.iter().filter(delayed) {
            let [_, their_p99, their_copies] = figures(row);
            let beats = their_p99 < p99 && their_copies <= copies;
            assert!(!beats || advice.rival.as_good, "{row:?} beats {ours:?}: {:?}", advice.rival);
        }
    }
}

#[test]
fn a_delayed_hedge_is_as_good_at_low_load_only() {
    let ask = |load, cancel| {
        let service = experiment((5, 2, load, "exp:5ms", Some("bimodal:0.003:75ms")));
        let advice = advice_with_effort(&service, cancel, 2, 0.15).expect("an answer");
        let rival = &advice.rival;
        let row = advice.latencies.iter().find(|row| row.policy == rival.policy);
        assert_eq!(row.and_then(|row| row.p99), rival.p99, "it is in the table");
        assert_eq!(rival.policy.ends_with(":cc+least-outstanding"), cancel, "{}", rival.policy);
        assert_eq!(rival.text.starts_with("a delayed hedge is "), rival.as_good, "{}", rival.text);
        let ours = advice.latencies.iter().find(|row| row.policy == advice.policy);
        let ours = ours.and_then(|row| row.p99).expect("it is stable");
        (rival.as_good, rival.p99.expect("it is stable") / ours)
    };
    let (low, busy) = (ask(0.1, false), ask(0.6, true));
    assert!(low.0 && low.1 < 1.05, "{low:?}");
    assert!(!busy.0 && busy.1 > 1.15, "{busy:?}");
}

#[test]
fn the_answer_does_not_depend_on_the_threads() {
    let service = experiment((5, 2, 0.3, "exp:1", Some("bimodal:0.003:15")));
    let curve =
        |threads| format!("{:?}", advice_on(&service, true, threads).expect("an answer").curve);
    assert_eq!(curve(1), curve(3));
}

#[test]
fn an_overload_is_refused() {
    let service = experiment((5, 2, 0.99, "exp:1", Some("bimodal:0.01:15")));
    let error = advice_on(&service, false, 1).expect_err("overloaded").to_string();
    assert!(error.contains("utilization is 0.99; use less"), "{error}");
}

#[test]
fn reasons_do_not_contradict_the_figures() {
    let because = |service| {
        let advice = advice_on(&experiment(service), false, 2).expect("the question is valid");
        assert!(!advice.hedge, "{}", advice.because);
        advice.because
    };
    let alone = because((1, 1, 0.3, "exp:1", Some("bimodal:0.01:15")));
    assert!(alone.contains("no other replica for a second copy"), "{alone}");
    // Few queries have a hiccup, but more queries wait behind these.
    let behind = because((1, 2, 0.3, "exp:1", Some("bimodal:0.005:15")));
    assert!(behind.contains("other queries wait behind them"), "{behind}");
    // Without jitter, the load would not be a reason.
    let jitter = because((1, 2, 0.2, "det:1", Some("bimodal:0.2:10")));
    assert!(jitter.contains("with the jitter busy for 60 % of the time"), "{jitter}");
    // Second copies run, but do not reduce latency.
    let alike = because((20, 2, 0.1, "exp:5ms", Some("det:8ms")));
    assert!(alike.contains("the jitter of two copies is similar"), "{alike}");
    let seldom = because((1, 2, 0.05, "pareto:2.5:1", Some("pareto:1.5:0.1")));
    assert!(
        seldom.contains("there is room for most second copies, but they are not faster"),
        "{seldom}"
    );
    let never = because((1, 2, 0.1, "exp:1", Some("bimodal:1e-12:15")));
    assert!(never.contains("no draw of the jitter is longer than"), "{never}");
    let none = because((1, 2, 0.1, "exp:1", None));
    assert!(none.contains("there is no jitter"), "{none}");
    let rare = because((1, 2, 0.3, "exp:1", Some("bimodal:0.0001:5")));
    assert!(rare.contains("too few to show at p99"), "{rare}");
}

#[test]
fn the_verdict_matches_the_reported_gain() {
    // At this load, the differences between runs are larger than those between policies. The mean
    // of the differences is not equal to the difference between the percentiles over all runs.
    for seed in [3, 11] {
        let service = experiment((2, 2, 0.33, "det:1", Some("bimodal:0.02:100")));
        let experiment = Experiment { seed, ..service };
        let advice = advice_on(&experiment, true, 2).expect("the question is valid");
        let gain = advice.gain.p99.expect("both have a steady state");
        assert_eq!(advice.hedge, gain > WORTH, "{gain}: {}", advice.because);
    }
}

#[test]
fn a_verdict_on_rare_events_has_low_confidence() {
    // Every hiccup stops a replica for a thousand service times. If a seed happens to draw some
    // hiccups, hedging seems to pay.
    for seed in [4, 7] {
        let service = experiment((100, 2, 0.3, "exp:1", Some("bimodal:0.00001:1000")));
        let advice = advice_on(&Experiment { seed, ..service }, false, 2).expect("an answer");
        assert!(!advice.hedge || advice.confidence < 0.9, "{seed}: {}", advice.confidence);
    }
}

#[test]
fn jitter_shorter_than_a_service_is_no_hiccup_and_can_pay_all_the_same() {
    let ask = |load| {
        let service = experiment((1, 2, load, "det:10ms", Some("bimodal:0.05:9ms")));
        advice_on(&service, true, 2).expect("the question is valid")
    };
    let idle = ask(0.02);
    assert!(idle.hedge && idle.hiccups.probability == 0.0, "{}", idle.because);
    assert!(
        idle.because.starts_with("no draw of the jitter is longer than a mean service time; at a")
    );
    let busy = ask(0.6);
    assert!(!busy.hedge, "{}", busy.because);
    assert!(!busy.because.contains("hiccups of"), "{}", busy.because);
    let hopes = busy.bound.p99.is_some_and(|bound| bound > WORTH);
    assert_eq!(busy.because.contains("lower without it, but"), hopes, "{}", busy.because);
}

#[test]
fn hedging_is_not_faster_above_the_reported_load() {
    let advice = advice_on(&experiment((5, 2, 0.3, "exp:1", Some("bimodal:0.003:15"))), false, 2);
    let advice = advice.expect("the question is valid");
    let stop = advice.stop_above_utilization.expect("it pays at low loads");
    let lower = |at: &Point| at.hedging.zip(at.psq).is_some_and(|(hedging, psq)| hedging < psq);
    let below: Vec<&Point> = advice.curve.iter().filter(|at| at.utilization < stop).collect();
    assert!(below.len() >= 4 && below.iter().all(|at| lower(at)), "{:?}", advice.curve);
    let above = advice.curve.iter().find(|at| at.utilization > stop).expect("a load beyond");
    assert!(!above.faster, "{:?}", advice.curve);
    assert!(advice.curve.iter().all(|at| lower(at) || !at.faster), "{:?}", advice.curve);
}

/// Creates measured times P and J of a number of executions, 3 % of which have a hiccup of 30.
fn repeated(executions: u32) -> Repeated {
    let p_ns = (1..=100).map(|at| f64::from(at) * 2e4).collect();
    let j_ns = (0..executions).map(|at| if at % 100 < 3 { 3e7 } else { 1e4 }).collect();
    Repeated { name: "samples".to_owned(), p_ns, j_ns, have_units: true, found: None }
}

/// Returns the advice on these times at a utilization, and half the width of the interval of psq's
/// p99.
fn advised(repeated: Repeated, utilization: f64, effort: f64) -> (Advice, f64) {
    let parameters = Parameters { shards: 1, utilization, ..Parameters::default() };
    let times = Times::Repeated(repeated);
    let (experiment, _) = times.experiment(&parameters).expect("samples enough");
    let resampled = times.resampled(&parameters, &experiment);
    assert_eq!(resampled.len(), 16);
    // All resampled experiments have the same arrival rate.
    let off = |of: &Experiment| (of.gap_ns() / experiment.gap_ns() - 1.0).abs();
    assert!(resampled.iter().all(|of| off(of) < 1e-9));
    let question = Question {
        experiment: &experiment,
        cancel: true,
        effort,
        resampled: &resampled,
        replicas_at: &[],
    };
    let advice = answer(&question, 2).expect("it can run");
    let rate = advice.rate.expect("there are units");
    assert!((rate * experiment.gap_ns() / 1e9 - 1.0).abs() < 1e-9);
    let half = advice.latencies[0].p99_ci95.expect("it is stable");
    (advice, half)
}

#[test]
fn few_samples_give_wider_intervals_than_many() {
    let width = |executions| {
        let (advice, half) = advised(repeated(executions), 0.2, 0.08);
        let gain = advice.gain.p99.expect("both are stable");
        let [low, high] = advice.gain_ci95.p99.expect("both are stable");
        assert!(low < gain && gain < high, "{gain} in {low} to {high}");
        let known = |row: &&Latency| row.p99_ci95.is_some();
        let rows: Vec<_> = advice.latencies.iter().filter(known).map(|row| &*row.policy).collect();
        assert_eq!(rows, ["psq", &*advice.hedging_policy, "o1"]);
        [gain - low, half]
    };
    let (few, many) = (width(400), width(100_000));
    assert!(few[0] > 1.5 * many[0] && few[1] > 1.5 * many[1], "{few:?} and {many:?}");
    assert!(resampled(&experiment((5, 2, 0.35, "exp:5ms", None))).is_empty());
}

#[test]
fn an_uncertain_verdict_is_not_settled() {
    // One pause hit two of the 120 executions. Other samples may contain none or three.
    let rare = |executions| Repeated {
        j_ns: (0..executions).map(|at| if at % 120 / 2 == 30 { 3e7 } else { 1e4 }).collect(),
        ..repeated(0)
    };
    let (open, _) = advised(rare(120), 0.3, 0.2);
    let ci95 = open.gain_ci95.p99;
    assert!(!open.settled && !open.hedge && open.confidence < 0.9, "{}: {ci95:?}", open.confidence);
    assert_eq!(open.policy, "psq");
    assert!(
        open.because
            .contains("other samples of the same service could lead to a different verdict")
    );
    let (sure, _) = advised(rare(120_000), 0.3, 0.2);
    assert!(sure.settled && sure.confidence >= 0.9, "{}", sure.confidence);
}

#[test]
fn utilizations_count_jitter_if_nearly_all_is_jitter() {
    // The leaf draws a new time for each execution, so the shortest one is almost zero.
    let spec: Spec = "exp:5ms".parse().expect("a distribution");
    let (from, mut rng) = (spec.resolve(1.0).expect("a distribution"), seed::rng(3));
    let j_ns = (0..20_000).map(|_| from.sample(&mut rng)).collect();
    let times = Repeated { p_ns: vec![1e4; 50], j_ns, ..repeated(0) };
    // The rate is 100 requests per second.
    let (advice, _) = advised(times, 0.0005, 0.08);
    assert_eq!(advice.utilization_of, UtilizationOf::Total);
    assert!((advice.utilization - 0.25).abs() < 0.01, "{}", advice.utilization);
    let stop = advice.stop_above_utilization.expect("it pays");
    assert!(advice.hedge && stop > 0.3 && stop < 0.95, "{stop}: {}", advice.because);
    let steady = advice.curve.iter().filter(|point| point.psq.is_some()).count();
    assert!(steady > 8, "{:?}", advice.curve);
    assert!(!advice.because.contains("hiccups of"), "{}", advice.because);
    assert!(advice.because.contains("not rare hiccups; at a utilization of 0.2"));
    assert!(advice.because.contains("with the jitter (100.0 requests/s)"), "{}", advice.because);
    let busy = experiment((1, 2, 0.3, "det:10us", Some("exp:5ms")));
    let refused = overloaded(&busy);
    assert!(refused.contains("count it in the utilization (utilization-of total)"), "{refused}");
}

fn overloaded(experiment: &Experiment) -> String {
    advice_on(experiment, false, 1).expect_err("it is overloaded").to_string()
}
