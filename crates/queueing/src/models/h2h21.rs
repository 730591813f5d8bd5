//! H2/H2/1: gaps between arrivals and services both hyper-exponential of two phases, one server.
//!
//! With the transforms α of the gaps and β of the service, the wait has the poles -z at which
//! α(z)·β(-z) = 1 and z > 0. With the rates μ₁ < μ₂ of the service there are two such z, one below
//! μ₁ and one between μ₁ and μ₂, and the transform of the wait is
//! (1+s/μ₁)(1+s/μ₂)/((1+s/z₁)(1+s/z₂)). That of the sojourn, times β, has the same poles. So both
//! are mixtures of two exponentials, whose weights are the residues; beside them, the wait is zero
//! with probability z₁z₂/(μ₁μ₂).
//!
//! Source: document 004, Takeaway 4; Kleinrock, "Queueing Systems" I, §8.2, for the factorization
//! of GI/G/1 (Lindley's equation, spectral solution); the brackets of the roots are our algebra.
//! Exact. Cost: two bisections, some 120 evaluations.

use super::Hyper;
use crate::check;
use crate::check::ModelError;
use crate::law::{Law, Part};
use crate::solve;
use crate::tail::Prediction;

/// Predicts H2/H2/1.
pub fn h2h21(gaps: Hyper, service: Hyper) -> Result<Prediction, ModelError> {
    gaps.check()?;
    service.check()?;
    let (gap, mean) = (check::finite(gaps.mean())?, check::finite(service.mean())?);
    let utilization = check::stable(mean / gap)?;
    // In units of the mean service, so that products stay within what numbers hold.
    let unit = |hyper: Hyper| only_what_happens(hyper.longer(1.0 / mean));
    let (gaps, service) = (unit(gaps), unit(service));
    let [near, far] = poles(gaps, service);
    let left = |z: f64| service.rates.map(|rate| 1.0 - z / rate);
    let wait = |z: f64| left(z)[0] * left(z)[1];
    let sojourn =
        |z: f64| service.probability * left(z)[1] + (1.0 - service.probability) * left(z)[0];
    let parts = |numerator: &dyn Fn(f64) -> f64| {
        let part = |z: f64, other: f64| {
            let weight = check::finite(numerator(z) * other / (other - z))?;
            Ok(Part { weight, rate: z / mean })
        };
        Ok(vec![part(near, far)?, part(far, near)?])
    };
    let (wait, sojourn) = (parts(&wait)?, parts(&sojourn)?);
    let mean_wait = wait.iter().map(|part| part.weight / part.rate).sum();
    let wait = (mean_wait, Law::exponentials(wait));
    let sojourn = (mean_wait + mean, Law::exponentials(sojourn));
    Prediction::exact("H2/H2/1", (1.0 / gap, utilization), wait, sojourn)
}

/// A phase that never happens gets the rate of the other, which leaves its pole without weight.
fn only_what_happens(hyper: Hyper) -> Hyper {
    let [one, two] = hyper.rates;
    let rates = match hyper.probability {
        0.0 => [two, two],
        1.0 => [one, one],
        _ => [one, two],
    };
    Hyper { rates, ..hyper }
}

/// The two z > 0 with α(z)·β(-z) = 1. Without its root 0, and times D(z) = (μ₁-z)(μ₂-z), the
/// difference is N(z)·α(z) - D(z)·Σpᵢ/(λᵢ+z) with N(z)/D(z) = Σqⱼ/(μⱼ-z). It is below 0 at 0, above
/// 0 at μ₁, and at most 0 at μ₂.
fn poles(gaps: Hyper, service: Hyper) -> [f64; 2] {
    let [one, two] = service.rates;
    let (slow, fast) = (one.min(two), one.max(two));
    let difference = |z: f64| {
        let numerator = service.probability * (two - z) + (1.0 - service.probability) * (one - z);
        let alpha = gaps.mixture(|rate| rate / (rate + z));
        numerator * alpha - (slow - z) * (fast - z) * gaps.mixture(|rate| 1.0 / (rate + z))
    };
    [solve::root(difference, 0.0, slow), solve::root(difference, slow, fast)]
}
