//! Bimodal and unimodal shapes.

use curtail_dist::seed;
use rand_distr::Distribution as _;

use super::scenario::{Scenario, lognormal, spec};
use crate::{Executions, Summary};

/// Simulates 200 queries with a P of 5 ms, each of which is executed 200 times. Jitter is drawn
/// from this distribution, in milliseconds. Times are rounded down to the clock's resolution.
fn jittery(text: &str, resolution_ns: u64, number: u64) -> Executions {
    let jitter = spec(text);
    let mut rng = seed::rng(seed::stream(number, &[b"jitter", b"shapes"]));
    let mut made = Executions::new(vec!["all"; 200]);
    for at in 0..40_000 {
        let time = 5e6 + jitter.sample(&mut rng);
        made.push(at % 200, time as u64 / resolution_ns * resolution_ns);
    }
    made
}

fn summary(text: &str, number: u64) -> Summary {
    jittery(text, 1, number).all().summarize()
}

#[test]
fn unimodal_bodies_have_no_hiccups_however_heavy_their_tails() {
    for text in [
        "exp:1",
        "lognormal:0.08:0.8",
        "lognormal:1:3",
        "lognormal:1:0.2",
        "pareto:1.5:0.1",
        "pareto:1.1:0.1",
        "pareto:1.5:0.1:10",
        "gamma:1:0.3",
        "gamma:1:2",
        "weibull:0.5:1",
        "h2:1:3",
        "erlang:4:1",
        "uniform:0:1",
        "uniform:5:6",
        "exp:1+exp:0.1",
    ] {
        for number in 0..5 {
            let found = summary(text, number);
            let hiccups = found.hiccups;
            assert!(!found.modality.bimodal, "{text}: {found:?}");
            assert!(found.modality.p_value >= 0.01, "{text}: {found:?}");
            assert_eq!((hiccups.count, hiccups.probability.value), (0.0, 0.0), "{text}");
            assert_eq!((hiccups.duration_ns, hiccups.from_ns), (None, None), "{text}");
            assert!(hiccups.probability.high > 0.0, "{text}");
        }
    }
}

#[test]
fn noise_in_proportion_to_p_is_no_hiccup() {
    let (own, noise) = (spec("exp:10"), spec("lognormal:0.03:1.2"));
    for number in 0..10 {
        let mut rng = seed::rng(number);
        let p_ns: Vec<f64> = (0..200).map(|_| own.sample(&mut rng)).collect();
        let mut made = Executions::new(vec!["all"; 200]);
        for at in 0..40_000 {
            let p_ns = p_ns[at % 200];
            let time = p_ns * (1.0 + noise.sample(&mut rng) / 1e6);
            made.push(at % 200, time as u64);
        }
        let found = made.all().summarize();
        assert!(!found.modality.bimodal, "{number}: {found:?}");
    }
}

#[test]
fn a_coarse_clock_makes_no_hiccups() {
    for resolution_ns in [1_000, 100_000, 1_000_000, 4_000_000] {
        for text in ["exp:1", "lognormal:0.08:0.8", "lognormal:1:3", "gamma:20:1"] {
            let found = jittery(text, resolution_ns, 1).all().summarize();
            assert!(!found.modality.bimodal, "{text}, {resolution_ns} ns: {found:?}");
        }
        let text = "lognormal:0.08:0.8+bimodal:0.005:60";
        let found = jittery(text, resolution_ns, 1).all().summarize();
        assert!(found.hiccups.probability.contains(0.005), "{resolution_ns} ns: {found:?}");
    }
}

#[test]
fn two_modes_are_found_and_well_described() {
    for text in [
        "lognormal:0.08:0.8+bimodal:0.001:30",
        "lognormal:0.08:0.8+hiccup:0.02:30",
        "exp:0.1+bimodal:0.1:5",
        "gamma:0.05:2+bimodal:0.003:250",
        "uniform:0:0.1+bimodal:0.01:10",
        "det:0.05+bimodal:0.01:10",
    ] {
        let found = summary(text, 1);
        let modality = found.modality;
        assert!(modality.bimodal && modality.p_value < 0.01, "{text}: {found:?}");
        assert!(modality.ashman_d.is_some_and(|d| d > 4.0), "{text}: {found:?}");
        assert!(modality.components >= 2, "{text}: {found:?}");
    }
    let found = summary("lognormal:0.08:0.8+bimodal:0.001:30", 1);
    assert!(found.modality.distance < 0.02, "{found:?}");
}

#[test]
fn hiccups_of_nearly_half_of_the_executions_are_not_the_body() {
    // The other executions form two parts, each smaller than the hiccups.
    let [noise, other] = [lognormal(0.08, 0.4), lognormal(0.4, 0.2)];
    for number in 0..10 {
        let mut rng = seed::rng(number);
        let mut made = Executions::new(vec!["all"; 200]);
        for at in 0..4_000_usize {
            let jitter_ms = match at / 200 % 20 {
                0..5 => noise.sample(&mut rng),
                5..11 => other.sample(&mut rng),
                _ => noise.sample(&mut rng) + 3.0,
            };
            made.push(at % 200, ((5.0 + jitter_ms) * 1e6) as u64);
        }
        let hiccups = made.all().summarize().hiccups;
        assert!(hiccups.probability.contains(0.45), "{number}: {hiccups:?}");
        let duration_ns = hiccups.duration_ns.expect("hiccups");
        assert!((duration_ns.value / 3e6 - 1.0).abs() < 0.1, "{number}: {hiccups:?}");
    }
}

#[test]
fn pauses_of_the_machine_are_intermediate() {
    let scenario = Scenario { probability: 0.01, duration: 100.0, ..Scenario::default() };
    let found = scenario.run(3).all().summarize();
    let pauses = found.intermediate.first().expect("pauses");
    assert_eq!(found.intermediate.len(), 1);
    assert!((pauses.probability / 0.005 - 1.0).abs() < 0.2, "{found:?}");
    assert!((pauses.duration_ns / 2.5e6 - 1.0).abs() < 0.1, "{found:?}");
}

#[test]
fn classes_are_distinguished() {
    let mut made = Executions::new(["calm", "jumpy"]);
    let calm = spec("lognormal:0.08:0.8");
    let mut rng = seed::rng(9);
    for at in 0..8_000_u64 {
        let noise = calm.sample(&mut rng) as u64;
        made.push(0, 1_000_000 + noise);
        let noise = calm.sample(&mut rng) as u64;
        let hiccup = if at % 50 == 7 { 40_000_000 } else { 0 };
        made.push(1, 3_000_000 + noise + hiccup);
    }
    assert_eq!(made.classes(), ["calm", "jumpy"]);
    let calm = made.class(0).expect("a class").summarize();
    let jumpy = made.class(1).expect("a class").summarize();
    let all = made.all().summarize();
    assert_eq!((calm.class.as_deref(), all.class.as_deref()), (Some("calm"), None));
    assert!(!calm.modality.bimodal);
    assert!((jumpy.hiccups.probability.value - 0.02).abs() < 1e-4, "{jumpy:?}");
    assert!((all.hiccups.probability.value - 0.01).abs() < 1e-4, "{all:?}");
    assert_eq!((calm.executions, all.executions, all.queries), (8_000, 16_000, 2));
    assert!((all.mean_service_ns - all.mean_p_ns - all.mean_j_ns).abs() < 1.0);
    assert!((calm.mean_service_ns + jumpy.mean_service_ns - 2.0 * all.mean_service_ns).abs() < 1.0);
    assert!(made.class(2).is_none());
}
