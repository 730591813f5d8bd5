//! Rankings of synthetic servers with known variances, correlations and causes.

use curtail_dist::seed;
use curtail_machine::{self as machine, Counters};
use curtail_probe::compare::{Comparison, Verdict, Warning};
use curtail_probe::profile::{Cost, Evidence, Profile, Whole};
use curtail_probe::rank::{Guide, Stage, rank};
use curtail_probe::resample::{self, WINDOWS_MIN};

/// Compares two profiles that share stages.
fn compare(a: &Profile, b: &Profile, seed: u64) -> Comparison {
    curtail_probe::compare::compare(a, b, seed).expect("they share stages")
}

/// Creates a profile from the requests that `draw` returns. The values of each request are the
/// stage durations, followed by the evidence. The 20 slowest requests are kept as slow requests.
fn profile(
    stages: &[&str],
    evidence: &[Evidence],
    (windows, requests): (u64, u64),
    mut draw: impl FnMut(&mut dyn FnMut() -> f64) -> Vec<f64>,
    seed: u64,
) -> Profile {
    let mut rng = seed::rng(seed::stream(seed, &[b"requests"]));
    // Draws from an exponential distribution with mean 1.
    let mut exponential = || -(1.0 - seed::unit(&mut rng)).ln();
    let names = stages.iter().map(|&name| name.to_owned()).collect();
    let mut profile = Profile { stages: names, evidence: evidence.to_vec(), ..Profile::default() };
    let mut wholes: Vec<Whole> = Vec::new();
    for at in 0..windows {
        let mut window = profile.window(at * 1_000_000_000, 1_000_000_000);
        for _ in 0..requests {
            let values = draw(&mut exponential);
            let (durations, evidence) = values.split_at(stages.len());
            let total = durations.iter().sum::<f64>();
            window.moments.record(&[&values[..], &[total]].concat());
            durations
                .iter()
                .chain([&total])
                .zip(&mut window.histograms)
                .for_each(|(ns, histogram)| histogram.record(*ns as u64));
            let whole = |list: &[f64]| list.iter().map(|&x| x as u64).collect::<Vec<_>>();
            let (stages_ns, evidence) = (whole(durations), whole(evidence));
            wholes.push(Whole { start_ns: at, stages_ns, evidence });
        }
        profile.push(window);
    }
    wholes.sort_by_key(|whole| std::cmp::Reverse(whole.stages_ns.iter().sum::<u64>()));
    wholes.truncate(20);
    profile.slow = wholes;
    profile
}

fn near(value: f64, expected: f64, by: f64) {
    assert!((value - expected).abs() <= by, "{value} is not within {by} of {expected}");
}

fn stage<'a>(stages: &'a [Stage], name: &str) -> &'a Stage {
    stages.iter().find(|stage| stage.name == name).expect("it is there")
}

#[test]
fn variance_with_covariance_is_attributed_and_the_mean_points_elsewhere() {
    // Parsing is long and steady. Socket and read share a common cause: Cov = 8,000². In addition,
    // read varies independently, with a variance of 3,000².
    let of = profile(
        &["parse", "socket", "read"],
        &[],
        (40, 500),
        |x| {
            let common = x();
            vec![
                100_000.0 + 500.0 * x(),
                20_000.0 + 16_000.0 * common,
                4_000.0 * common + 3_000.0 * x(),
            ]
        },
        1,
    );
    let ranking = rank(&of, 42);
    let names: Vec<&str> = ranking.stages.iter().map(|stage| &stage.name[..]).collect();
    assert_eq!(names, ["socket", "read", "parse"]);
    // The expected values, in units of 1,000 ns, are Var T = 20² + 3² + 0.5², Cov(socket, T) =
    // 16·20, Cov(read, T) = 4·20 + 3².
    let variance = 400.0 + 9.0 + 0.25;
    let [socket, read, parse] = [0, 1, 2].map(|at| &ranking.stages[at]);
    near(socket.variance_share, 320.0 / variance, 0.01);
    near(socket.own_share, 256.0 / variance, 0.01);
    near(read.variance_share, 89.0 / variance, 0.01);
    near(parse.mean_share, 100.5 / 143.5, 0.01);
    near(ranking.unattributed_share, 0.0, 1e-9);
    near(ranking.stages.iter().map(|stage| stage.variance_share).sum(), 1.0, 1e-9);
    // The slow requests are slow because of the common cause.
    let excess = |of: &Stage| of.excess_share.expect("slow requests");
    near(excess(socket), 0.8, 0.03);
    near(ranking.stages.iter().map(excess).sum(), 1.0, 1e-9);
    near(socket.spread.p50_ns.expect("durations"), 20_000.0 + 16_000.0 * 2_f64.ln(), 700.0);
    near(socket.spread.cv, 16.0 / 36.0, 0.01);
    let disagree =
        Guide::Disagree { by_mean: "parse".to_owned(), by_variance: "socket".to_owned() };
    assert_eq!((ranking.guide, ranking.first_in), (disagree, Some(1.0)));
    let [low, high] = socket.variance_share_ci95.expect("enough windows");
    assert!(low < 320.0 / variance && 320.0 / variance < high && high - low < 0.03, "{low} {high}");
}

#[test]
fn a_server_that_never_varies_has_nothing_to_rank() {
    let of = profile(&["a", "b"], &[], (4, 10), |_| vec![100.0, 50.0], 1);
    let ranking = rank(&of, 42);
    assert_eq!((&ranking.guide, ranking.first_in), (&Guide::Steady, None));
    for stage in &ranking.stages {
        assert_eq!((stage.variance_share, stage.variance_share_ci95), (0.0, None));
    }
    assert!(rank(&Profile::default(), 42).stages.is_empty());
}

#[test]
fn correlated_evidence_is_a_cause_with_its_sign() {
    use Evidence::{Batch, Blocked, Remote, RunQueue};
    let of = profile(
        &["parse", "steady"],
        &[Batch, Remote, RunQueue, Blocked],
        (10, 1_000),
        |x| {
            let (batch, remote) = ((4.0 * x()).floor(), f64::from(u8::from(x() > 0.7)));
            let parse = 20_000.0 + 1_000.0 * batch - 8_000.0 * remote + 800.0 * x();
            vec![parse, 10.0, batch, remote, x(), 7.0]
        },
        1,
    );
    let ranking = rank(&of, 42);
    let causes = &stage(&ranking.stages, "parse").causes;
    let found: Vec<(Evidence, bool)> =
        causes.iter().map(|cause| (cause.kind, cause.longer_with_more)).collect();
    assert_eq!(found, [(Batch, true), (Remote, false)], "chance, and what never varies, is none");
    // Var(batch) is about 16.1, Var(remote) 0.25. In units of (1,000 ns)², they contribute 16.1 and
    // 15.9 to the variance, and noise contributes 0.6.
    near(causes[0].explains, 0.49, 0.05);
    near(causes.iter().map(|cause| cause.explains).sum(), 0.98, 0.03);
    assert_eq!(causes[0].knobs[0].name, "bounded batching");
    assert!(causes[1].knobs.is_empty(), "a knob for the opposite");
    assert!(stage(&ranking.stages, "steady").causes.is_empty(), "it has no share");
}

#[test]
fn pressures_of_the_machine_are_reported_above_their_thresholds() {
    let mut of = profile(&["a"], &[], (10, 100), |x| vec![1_000.0 * x()], 1);
    let found = |of: &Profile| rank(of, 42).machine.iter().map(|of| of.kind).collect::<Vec<_>>();
    assert_eq!(found(&of), []);
    // The profile lasts 10 s, and 1,000 of 10,000 requests were stamped.
    of.cost = Some(Cost { one_in: 10, ..Cost::default() });
    let counted = Counters { ran_ns: 90, run_delay_ns: 9, major_faults: 9, ..Counters::default() };
    of.machine = Some(counted);
    assert_eq!(found(&of), []);
    let more =
        Counters { throttled_ns: 100_000_000, run_delay_ns: 10, major_faults: 10, ..counted };
    of.machine = Some(more);
    use machine::Cause::{MajorFaults, RunQueue, Throttled};
    assert_eq!(found(&of), [Throttled, RunQueue, MajorFaults]);
    assert!(rank(&of, 42).machine.iter().all(|of| !of.knobs.is_empty()));
}

#[test]
fn intervals_contain_the_truth_in_about_95_of_100_runs() {
    // The stages are as in the first test, but without parsing. The share of the first stage is
    // 320/409.
    let truth = 320.0 / 409.0;
    for (windows, requests) in [(WINDOWS_MIN as u64, 400), (40, 100)] {
        let runs = 200;
        let held = (0..runs).filter(|&run| {
            let of = profile(
                &["a", "b"],
                &[],
                (windows, requests),
                |x| {
                    let common = x();
                    vec![16.0 * common, 4.0 * common + 3.0 * x()]
                },
                run,
            );
            let stages = rank(&of, run).stages;
            let [low, high] = stages[0].variance_share_ci95.expect("enough windows");
            low <= truth && truth <= high
        });
        let held = held.count() as f64 / runs as f64;
        println!("{windows} windows: {held}");
        assert!((0.88..=0.995).contains(&held), "{windows} windows: {held}");
    }
}

/// Simulates a server with two stages. `times` scales the duration of the first one.
fn server(times: f64, seed: u64) -> Profile {
    profile(&["a", "b"], &[], (30, 500), |x| vec![times * 10_000.0 * x(), 1_000.0 * x()], seed)
}

#[test]
fn real_changes_are_detected_and_chance_is_not() {
    let mut wrong = 0;
    for seed in 0..10 {
        let (before, same, after) =
            (server(1.0, seed), server(1.0, seed + 100), server(0.8, seed + 200));
        let changed = compare(&before, &after, seed);
        for change in [changed.total.mean_ns, changed.total.sd_ns, changed.stages[0].p50_ns] {
            assert_eq!(change.verdict, Verdict::Better, "seed {seed}: {change:?}");
        }
        let [low, high] = changed.stages[0].mean_ns.ratio_ci95.expect("enough windows");
        assert!(low > 0.75 && high < 0.85, "{low} {high}");
        assert_eq!(compare(&after, &before, seed).total.mean_ns.verdict, Verdict::Worse);
        let unchanged = compare(&before, &same, seed);
        wrong += u32::from(unchanged.total.p99_ns.verdict != Verdict::NoDifference);
        assert_eq!((changed.warnings, unchanged.warnings), (vec![], vec![]));
    }
    assert!(wrong <= 3, "{wrong} of 10 by chance, where 1 in 20 is expected");
}

#[test]
fn comparisons_of_unlike_profiles_carry_warnings() {
    let (mut a, mut b) = (server(1.0, 1), server(1.0, 2));
    b.stages[1] = "c".to_owned();
    let compared = compare(&a, &b, 42);
    assert_eq!(compared.stages.len(), 1);
    assert_eq!((compared.only_a, compared.only_b), (vec!["b".to_owned()], vec!["c".to_owned()]));
    b.windows.iter_mut().for_each(|window| window.length_ns *= 2);
    let rates = Warning::RatesDiffer { a: 500.0, b: 250.0 };
    assert_eq!(compare(&a, &b, 42).warnings, [rates]);
    a.cost = Some(Cost { one_in: 4, ..Cost::default() });
    b.windows.truncate(1);
    let compared = compare(&a, &b, 42);
    let few = Warning::FewRequests { profile: 'B', requests: 500 };
    let sampling = Warning::SamplingDiffers { a: Some(4), b: None };
    assert_eq!(compared.warnings, [few, sampling]);
    assert_eq!(compared.total.p99_ns.verdict, Verdict::Unknown);
}

#[test]
fn profiles_that_share_no_stage_are_not_compared() {
    let (a, mut b) = (server(1.0, 1), server(0.5, 2));
    b.stages = vec!["c".to_owned(), "d".to_owned()];
    assert_eq!(curtail_probe::compare::compare(&a, &b, 42), None);
    // The sum of other stages does not count as a common stage.
    let sum = |of: &Profile, name: &str| {
        let stages = vec![name.to_owned(), "2 others".to_owned()];
        Profile { stages, ..of.clone() }
    };
    assert!(curtail_probe::compare::compare(&sum(&a, "a"), &sum(&b, "c"), 42).is_none());
}

#[test]
fn too_few_windows_have_no_interval_and_a_seed_reproduces_it() {
    let of = server(1.0, 1);
    let means = |windows: usize, seed| {
        let means = resample::moments(&of.windows[..windows], seed, |of| of.mean(0));
        resample::interval(of.whole().moments.mean(0), means, windows)
    };
    assert_eq!(means(WINDOWS_MIN - 1, 42), None);
    assert!(means(WINDOWS_MIN, 42).is_some());
    assert_eq!(means(30, 42), means(30, 42));
    assert_ne!(means(30, 42), means(30, 43));
    assert_eq!(resample::interval(1.0, vec![f64::NAN], 30), None);
}
