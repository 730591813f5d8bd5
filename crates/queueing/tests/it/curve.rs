//! Latency curves recover their parameters, and are refused if the points do not determine them.

use curtail_queueing::curve::{LatencyCurve, Point};
use curtail_queueing::models::{Service, mg1};

use crate::{assert_close, assert_near, draw};

fn points(loads: &[f64], latency: impl Fn(f64) -> f64) -> Vec<Point> {
    loads.iter().map(|&load| Point { load, latency: latency(load) }).collect()
}

const LOADS: [f64; 6] = [10.0, 30.0, 50.0, 70.0, 80.0, 90.0];

#[test]
fn exact_points_recover_their_curve() {
    let truth = LatencyCurve { base: 3.0, gain: 0.5, capacity: 104.0 };
    let fit = LatencyCurve::fit(&points(&LOADS, |load| truth.latency(load)));
    let fit = fit.expect("a curve");
    assert_near(fit.curve.capacity, truth.capacity, 1e-5, "capacity");
    assert_near(fit.curve.base, truth.base, 1e-3, "base");
    assert_near(fit.curve.gain, truth.gain, 1e-3, "gain");
    assert_close(fit.r_squared, 1.0, 1e-9, "R²");
    assert!(fit.residuals.iter().all(|residual| residual.abs() < 1e-4), "{:?}", fit.residuals);
    let beyond = fit.curve.latency(98.0);
    assert_near(beyond, truth.latency(98.0), 1e-3, "another load");
    let load = fit.curve.highest_load(beyond).expect("reached");
    assert_near(load, 98.0, 1e-9, "the way back");
    assert_eq!(truth.highest_load(3.4), None);
}

#[test]
fn means_of_mg1_lie_on_a_curve() {
    for scv in [0.0, 1.0, 6.0] {
        let service = Service { mean: 2.0, scv };
        let loads = [0.05, 0.15, 0.25, 0.35, 0.45];
        let mean = |rate| mg1(rate, service).expect("stable").sojourn.mean();
        let curve = LatencyCurve::fit(&points(&loads, mean)).expect("a curve").curve;
        assert_near(curve.capacity, 0.5, 1e-4, "capacity");
        assert_close(curve.base, 1.0 - scv, 0.01, "base");
        assert_close(curve.gain, 1.0 + scv, 0.01, "gain");
    }
}

#[test]
fn noise_moves_the_capacity_little() {
    let noise = draw("uniform:0.95:1.05", LOADS.len(), 3);
    let mut measured = points(&LOADS, |load| 1.0 + 2.0 / (1.0 - load / 100.0));
    for (point, noise) in measured.iter_mut().zip(noise) {
        point.latency *= noise;
    }
    let fit = LatencyCurve::fit(&measured).expect("a curve");
    assert_near(fit.curve.capacity, 100.0, 0.03, "capacity");
    assert!(fit.r_squared > 0.98, "{}", fit.r_squared);
    let sum: f64 = fit.residuals.iter().sum();
    assert_close(sum, 0.0, 1e-6, "residuals of least squares");
}

#[test]
fn units_do_not_matter() {
    let curve = |unit: f64| {
        let scaled = points(&LOADS, |load| unit * (1.0 + 2.0 / (1.0 - load / 100.0)));
        LatencyCurve::fit(&scaled).expect("a curve").curve
    };
    assert_near(curve(1e-200).capacity, curve(1e200).capacity, 1e-9, "capacity");
    assert_near(curve(1e6).gain, 1e6 * curve(1.0).gain, 1e-6, "gain");
}

#[test]
fn the_idle_latency_is_never_negative() {
    // The line through these points would start below zero.
    let steep = points(&LOADS, |load| 0.01 + (load / 100.0).powi(6) * 50.0);
    let fit = LatencyCurve::fit(&steep).expect("a curve");
    assert_close(fit.curve.latency(0.0), 0.0, 1e-12, "idle");
    assert!(fit.r_squared < 0.99 && fit.curve.gain > 0.0, "{fit:?}");
}

#[test]
fn points_without_a_capacity_are_refused() {
    let refused = |points: &[Point]| LatencyCurve::fit(points).expect_err("no curve").to_string();
    let overloaded = |load: f64| if load < 90.0 { 1.0 + load / 1000.0 } else { 1e4 };
    for (points, words) in [
        (points(&LOADS[..3], |load| load), "3 different loads; measure at 4 or more"),
        (points(&[1.0, 1.0, 1.0, 2.0, 2.0], |load| load), "2 different loads"),
        (Vec::new(), "0 different"),
        (points(&LOADS, |load| 100.0 - load), "does not rise"),
        (points(&LOADS, |_| 5.0), "does not rise"),
        (points(&LOADS, |load| 1.0 + load), "does not bend"),
        (points(&LOADS, overloaded), "leave it out"),
    ] {
        let why = refused(&points);
        assert!(why.contains(words), "{why}");
    }
    for bad in [f64::NAN, -1.0, f64::INFINITY] {
        let mut broken = points(&LOADS, |load| 1.0 + load);
        broken[2].latency = bad;
        assert!(refused(&broken).contains("point 2"), "{bad}");
        broken[1].load = bad;
        assert!(refused(&broken).contains("point 1"), "{bad}");
    }
}
