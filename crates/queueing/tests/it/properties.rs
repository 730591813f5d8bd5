//! Checks properties that every law has for any parameters.

use curtail_queueing::curve::{LatencyCurve, Point};
use curtail_queueing::estimate::{Interval, Record, estimate};
use curtail_queueing::fit::{By, Report};
use curtail_queueing::models::{
    Arrivals, Hyper, Service, gg1, gg1_upper_bound, ggk, h2h21, md1, mg1, mh21, mm1, mmk,
};
use curtail_queueing::{HiccupService, Law, Prediction, fork_join, optimal_split};
use proptest::prelude::*;

/// Returns a prediction of each kind at this utilization, with a mean service time of 1.
fn predictions(utilization: f64, scv: f64, servers: u32) -> Vec<Prediction> {
    let rate = utilization;
    let all = f64::from(servers) * utilization;
    let service = Service { mean: 1.0, scv };
    let hyper = Hyper::balanced(1.0, 1.0 + scv).expect("valid");
    [
        mm1(rate, 1.0),
        mmk(all, 1.0, servers),
        md1(rate, 1.0),
        mg1(rate, service),
        mh21(rate, hyper),
        h2h21(Hyper::balanced(1.0 / rate, 1.0 + scv).expect("valid"), hyper),
        gg1(Arrivals { rate, scv }, service),
        ggk(Arrivals { rate: all, scv }, service, servers),
    ]
    .map(|prediction| prediction.expect("stable"))
    .to_vec()
}

fn laws(predictions: &[Prediction]) -> impl Iterator<Item = &Law> {
    predictions.iter().flat_map(|p| [p.wait.law(), p.sojourn.law()]).flatten()
}

proptest! {
    #[test]
    fn percentiles_rise_and_invert_the_law(
        utilization in 0.001..0.999_f64,
        scv in 0.0..50.0_f64,
        servers in 1..60_u32,
        shards in 1..1000_u32,
    ) {
        for law in laws(&predictions(utilization, scv, servers)) {
            for law in [law.clone(), law.longest_of(shards).expect("in range")] {
                let mut last = 0.0;
                for q in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 0.999_999] {
                    let t = law.quantile(q).expect("in range");
                    prop_assert!(t >= last, "{law:?}: {q} gives {t} after {last}");
                    last = t;
                    let above = law.above(t);
                    prop_assert!(above <= 1.0 - q + 1e-9, "{law:?}: {above} above the {q}-quantile");
                    // Unless the quantile is at a jump, P(T > t) is only slightly below the level.
                    if t > 0.0 && law.above(t * (1.0 - 1e-9)) < 1.0 {
                        prop_assert!(above >= 1.0 - q - 1e-6, "{law:?}: {above} at {q}");
                    }
                }
            }
        }
    }

    #[test]
    fn laws_fall(utilization in 0.001..0.999_f64, scv in 0.0..50.0_f64, servers in 1..60_u32) {
        for law in laws(&predictions(utilization, scv, servers)) {
            let mut last = 1.0;
            for i in 0..400 {
                let above = law.above(f64::from(i) * 0.1);
                prop_assert!(above <= last + 1e-12, "{law:?} rises at {i}: {above} after {last}");
                last = above;
            }
        }
    }

    #[test]
    fn waits_grow_with_load_and_stay_below_the_bound(
        low in 0.01..0.98_f64,
        more in 0.001..0.01_f64,
        scv in 0.0..50.0_f64,
        servers in 1..60_u32,
    ) {
        let (before, after) = (predictions(low, scv, servers), predictions(low + more, scv, servers));
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(before.wait.mean() <= after.wait.mean(), "{}", before.model);
        }
        let service = Service { mean: 1.0, scv };
        let arrivals = Arrivals { rate: low, scv: 1.0 };
        let bound = gg1_upper_bound(arrivals, service).expect("stable").wait.mean();
        prop_assert!(mg1(low, service).expect("stable").wait.mean() <= bound);
    }

    #[test]
    fn any_measurements_give_results_or_errors(
        values in prop::collection::vec(prop_oneof![any::<f64>(), 0.001..10.0_f64], 0..40),
        servers in 0..4_u32,
    ) {
        if let Ok(report) = Report::new(values.clone(), false, By::Ks) {
            for fit in report.fits {
                prop_assert!((0.0..=1.0).contains(&fit.ks), "{fit:?}");
            }
        }
        let pairs = values.chunks_exact(2);
        let points: Vec<Point> = pairs.map(|p| Point { load: p[0], latency: p[1] }).collect();
        if let Ok(fit) = LatencyCurve::fit(&points) {
            prop_assert!(fit.curve.capacity.is_finite() && fit.r_squared <= 1.0, "{fit:?}");
        }
        let times = values.windows(3);
        let records: Vec<Record> = times
            .map(|t| Record { arrival: t[0], start: (t[1] > 5.0).then_some(t[1]), end: t[0] + t[2] })
            .collect();
        if let Ok(found) = estimate(&records, servers) {
            let Interval { value, ci95: [low, high] } = found.utilization;
            prop_assert!(0.0 < low && low <= value && value <= high && high.is_finite(), "{found:?}");
        }
    }

    #[test]
    fn samples_of_any_shape_are_fitted(
        values in prop::collection::vec((-30.0..30.0_f64).prop_map(f64::exp), 10..60),
        same in 0.001..1000.0_f64,
        repeats in 0..50_usize,
    ) {
        let all = [values, vec![same; repeats]].concat();
        let report = Report::new(all, false, By::Aic).expect("valid");
        prop_assert!(report.best.is_some());
        for fit in report.fits {
            prop_assert!((0.0..=1.0).contains(&fit.ks) && !fit.aic.is_nan(), "{fit:?}");
        }
    }

    #[test]
    fn no_parameters_cause_a_panic(
        a in any::<f64>(), b in any::<f64>(), c in any::<f64>(), d in any::<f64>(), k in any::<u8>(),
    ) {
        let service = Service { mean: b, scv: c };
        let results = [
            mm1(a, b),
            mmk(a, b, u32::from(k)),
            md1(a, b),
            mg1(a, service),
            mh21(a, Hyper { probability: c, rates: [b, d] }),
            h2h21(
                Hyper { probability: b, rates: [a, c] },
                Hyper { probability: c, rates: [b, d] },
            ),
            gg1(Arrivals { rate: a, scv: d }, service),
            ggk(Arrivals { rate: a, scv: d }, service, u32::from(k)),
        ];
        let _ = fork_join(a, b, u32::from(k));
        let _ = optimal_split(a, &[b, c, d]);
        let _ = HiccupService { mean: a, probability: b, hiccup: c }.all_shards(u32::from(k), 2);
        for prediction in results.into_iter().flatten() {
            prop_assert!(prediction.wait.mean() >= 0.0 && prediction.sojourn.mean().is_finite());
            for law in laws(&[prediction]) {
                prop_assert!(law.above(a.abs()) <= 1.0);
                prop_assert!(law.quantile(0.99).expect("in range") >= 0.0);
            }
        }
    }
}
