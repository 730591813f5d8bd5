//! The H2/H2/1 queue: gaps and services are hyper-exponential with two phases each, and there is
//! one server. M/H2/1, with Poisson arrivals, is the case in which both phases of the gaps are
//! alike.
//!
//! Let α and β be the transforms of the gaps and the service. The wait has the poles -z with z > 0
//! and α(z)·β(-z) = 1. If the service has the rates μ₁ < μ₂, there are two such z, one below μ₁ and
//! one between μ₁ and μ₂. The transform of the wait is (1+s/μ₁)(1+s/μ₂)/((1+s/z₁)(1+s/z₂)). The
//! transform of the sojourn is the product of this transform and β, and has the same poles. Both
//! times are therefore mixtures of two exponentials, whose weights are the residues. In addition,
//! the wait is zero with probability z₁z₂/(μ₁μ₂).
//!
//! Source: document 004, Takeaway 4 and "IAT and ST Distributions"; Kleinrock, "Queueing Systems"
//! I, §8.2, for the factorization of GI/G/1 (Lindley's equation, spectral solution); we derived the
//! brackets of the roots. Exact. The cost is two bisections with a total of about 120 evaluations.

use super::{Hyper, Service, mg1};
use crate::check::{self, ModelError};
use crate::law::{Law, Part};
use crate::solve;
use crate::tail::{Prediction, Time};

/// Predicts M/H2/1. `arrival_rate` is per unit of time, above 0.
pub fn mh21(arrival_rate: f64, service: Hyper) -> Result<Prediction, ModelError> {
    check::positive("arrival rate", arrival_rate)?;
    service.check()?;
    let (mean, scv) = (service.mean(), service.scv());
    let utilization = check::stable(arrival_rate * mean)?;
    let [wait, sojourn] = laws(Hyper { probability: 1.0, rates: [arrival_rate; 2] }, service)?;
    let mean_wait = mg1(arrival_rate, Service { mean, scv })?.wait.mean();
    let wait = Time { mean: mean_wait, law: Law::exponentials(wait) };
    let sojourn = Time { mean: mean_wait + mean, law: Law::exponentials(sojourn) };
    Prediction::exact("M/H2/1", arrival_rate, utilization, wait, sojourn)
}

/// Predicts H2/H2/1.
pub fn h2h21(gaps: Hyper, service: Hyper) -> Result<Prediction, ModelError> {
    gaps.check()?;
    service.check()?;
    let (gap, mean) = (check::finite(gaps.mean())?, check::finite(service.mean())?);
    let utilization = check::stable(mean / gap)?;
    let [wait, sojourn] = laws(gaps, service)?;
    let mean_wait = wait.iter().map(|part| part.weight / part.rate).sum();
    let wait = Time { mean: mean_wait, law: Law::exponentials(wait) };
    let sojourn = Time { mean: mean_wait + mean, law: Law::exponentials(sojourn) };
    Prediction::exact("H2/H2/1", 1.0 / gap, utilization, wait, sojourn)
}

/// Returns the parts of the laws of the wait and the sojourn.
fn laws(gaps: Hyper, service: Hyper) -> Result<[Vec<Part>; 2], ModelError> {
    let mean = service.mean();
    // Times are in units of the mean service, so products cannot overflow.
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
    Ok([parts(&wait)?, parts(&sojourn)?])
}

/// Sets the rate of a phase with probability 0 to that of the other phase, so its pole has no
/// weight.
fn only_what_happens(hyper: Hyper) -> Hyper {
    let [one, two] = hyper.rates;
    let rates = match hyper.probability {
        0.0 => [two, two],
        1.0 => [one, one],
        _ => [one, two],
    };
    Hyper { rates, ..hyper }
}

/// Returns the two z > 0 with α(z)·β(-z) = 1. After removal of the root at 0 and multiplication by
/// D(z) = (μ₁-z)(μ₂-z), the difference is N(z)·α(z) - D(z)·Σpᵢ/(λᵢ+z) with N(z)/D(z) = Σqⱼ/(μⱼ-z).
/// N(z)·α(z) - D(z)·Σpᵢ/(λᵢ+z) is below 0 at 0, above 0 at μ₁, and at most 0 at μ₂.
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
