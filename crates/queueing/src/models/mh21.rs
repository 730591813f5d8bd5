//! M/H2/1: Poisson arrivals, hyper-exponential service of two phases, one server.
//!
//! With rates μ₁, μ₂ and probabilities p, 1-p, the Pollaczek–Khinchine transform of the wait is
//! (1-ρ)(s+μ₁)(s+μ₂)/((s+z₁)(s+z₂)), and that of the sojourn has the same poles: z₁, z₂ are the
//! roots of z² - (μ₁+μ₂-λ)z + μ₁μ₂(1-ρ), and lie on either side of the smaller rate. So wait and
//! sojourn are both mixtures of two exponentials, whose weights are the residues.
//!
//! Source: document 004, "IAT and ST Distributions"; Kleinrock, "Queueing Systems" I, §5.7, for the
//! transform; the roots are our algebra. Exact. Cost: O(1).

use crate::check;
use crate::check::ModelError;
use crate::law::{Law, Part};
use crate::tail::Prediction;

/// A hyper-exponential time of two phases: exponential with one rate or the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hyper {
    /// The probability of the first phase, from 0 to 1.
    pub probability: f64,
    /// The rates of the first and of the second phase, per unit of time; above 0.
    pub rates: [f64; 2],
}

impl Hyper {
    /// The one with this mean (above 0) and squared coefficient of variation (1 or more) whose
    /// phases contribute equally to the mean: `h2:MEAN:CV` of `curtail-dist`.
    ///
    /// Source: Whitt, "Approximating a point process by a renewal process, I", 1982.
    pub fn balanced(mean: f64, scv: f64) -> Result<Self, ModelError> {
        let name = "squared coefficient of variation of the service time";
        check::positive("mean service time", mean)?;
        if check::scv(name, scv)? < 1.0 {
            return Err(ModelError::OutOfRange { name, value: scv, allowed: "1 or more" });
        }
        let root = ((scv - 1.0) / (scv + 1.0)).sqrt();
        // The rates of the phases, times the mean; the slow one is 1-root, with all its digits.
        let (fast, slow) = (1.0 + root, 2.0 / (scv + 1.0) / (1.0 + root));
        Ok(Self { probability: fast / 2.0, rates: [fast / mean, slow / mean] })
    }

    /// The one with these first three moments E\[S\], E\[S²\], E\[S³\], if there is one: it takes a
    /// squared coefficient of variation above 1, and E\[S\]·E\[S³\] above 1.5·E\[S²\]².
    ///
    /// With u_k = E\[S^k\]/k!, the means of the phases are the roots of x² - ax + b, where
    /// u₂ = a·u₁ - b and u₃ = a·u₂ - b·u₁. Source: Whitt 1982 (as above); the algebra is ours.
    pub fn from_moments(moments: [f64; 3]) -> Option<Self> {
        let (u1, u2, u3) = (moments[0], moments[1] / 2.0, moments[2] / 6.0);
        let sum = (u3 - u1 * u2) / (u2 - u1 * u1);
        let product = sum * u1 - u2;
        let large = f64::midpoint(sum, (sum * sum - 4.0 * product).sqrt());
        let small = product / large;
        // Outside of its domain the algebra gives NaN, phases of negative length, or equal ones.
        let probability = (large - u1) / (large - small);
        let made = Self { probability, rates: [1.0 / small, 1.0 / large] };
        (u1 > 0.0 && u2 > u1 * u1 && made.check().is_ok()).then_some(made)
    }

    /// The mean, in units of time.
    pub fn mean(&self) -> f64 {
        self.mixture(|rate| 1.0 / rate)
    }

    /// The squared coefficient of variation, 1 or more.
    pub fn scv(&self) -> f64 {
        let mean = self.mean();
        self.mixture(|rate| 2.0 / (rate * mean) / (rate * mean)) - 1.0
    }

    /// What its phases come to, each by its rate.
    pub(crate) fn mixture(&self, of_phase: impl Fn(f64) -> f64) -> f64 {
        let [one, two] = self.rates.map(of_phase);
        self.probability * one + (1.0 - self.probability) * two
    }

    fn check(&self) -> Result<(), ModelError> {
        check::probability("probability of the first phase", self.probability)?;
        check::positive("rate of the first phase", self.rates[0])?;
        check::positive("rate of the second phase", self.rates[1])?;
        Ok(())
    }
}

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

/// The laws of wait and sojourn. The algebra is done in units of the mean service time, so that
/// its products stay within what numbers hold.
fn laws(utilization: f64, mean: f64, service: Hyper) -> Result<(Law, Law), ModelError> {
    let idle = 1.0 - utilization;
    // A phase that never happens has no pole of its own, and might have another's.
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
