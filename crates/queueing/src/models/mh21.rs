//! The M/H2/1 queue: Poisson arrivals, hyper-exponential service with two phases, one server.
//!
//! With rates μ₁, μ₂ and probabilities p, 1-p, the Pollaczek–Khinchine transform of the wait is
//! (1-ρ)(s+μ₁)(s+μ₂)/((s+z₁)(s+z₂)), and the transform of the sojourn has the same poles. z₁ and z₂
//! are the roots of z² - (μ₁+μ₂-λ)z + μ₁μ₂(1-ρ), and lie on either side of the smaller rate. The
//! wait and the sojourn are therefore mixtures of two exponentials, whose weights are the residues.
//!
//! Source: document 004, "IAT and ST Distributions"; Kleinrock, "Queueing Systems" I, §5.7, for the
//! transform; we derived the roots. Exact. Cost: O(1).

use super::Hyper;
use crate::check;
use crate::check::ModelError;
use crate::law::{Law, Part};
use crate::tail::Prediction;

/// Predicts M/H2/1. `arrival_rate` is per unit of time, above 0.
pub fn mh21(arrival_rate: f64, service: Hyper) -> Result<Prediction, ModelError> {
    check::positive("arrival rate", arrival_rate)?;
    service.check()?;
    let mean = service.mean();
    let utilization = check::stable(arrival_rate * mean)?;
    let mean_wait = utilization / (1.0 - utilization) * (1.0 + service.scv()) / 2.0 * mean;
    let (wait, sojourn) = laws(utilization, mean, service)?;
    let (wait, sojourn) = ((mean_wait, wait), (mean_wait + mean, sojourn));
    Prediction::exact("M/H2/1", (arrival_rate, utilization), wait, sojourn)
}

/// Returns the laws of the wait and the sojourn. Computes in units of the mean service time, so
/// products cannot overflow.
fn laws(utilization: f64, mean: f64, service: Hyper) -> Result<(Law, Law), ModelError> {
    let idle = 1.0 - utilization;
    // A phase with probability 0 does not have a separate pole, and its rate might coincide with
    // another pole.
    if service.probability == 0.0 || service.probability == 1.0 {
        let law = |weight| Law::exponential(weight, idle / mean);
        return Ok((law(utilization), law(1.0)));
    }
    let [one, two] = service.rates.map(|rate| rate * mean);
    let average = service.probability * one + (1.0 - service.probability) * two;
    let half = (one + two - utilization) / 2.0;
    let product = one * two * idle;
    let far = half + (half * half - product).max(0.0).sqrt();
    let near = product / far;
    check::finite(far)?;
    let part = |z: f64, numerator: f64, other: f64| {
        let weight = check::finite(idle * numerator / ((other - z) * z))?;
        Ok(Part { weight, rate: z / mean })
    };
    let wait = |z, other| part(z, (one - z) * (two - z), other);
    let sojourn = |z, other| part(z, one * two - z * average, other);
    Ok((
        Law::exponentials(vec![wait(near, far)?, wait(far, near)?]),
        Law::exponentials(vec![sojourn(near, far)?, sojourn(far, near)?]),
    ))
}
