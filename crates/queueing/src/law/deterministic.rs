//! The exact law of the wait for a single deterministic server under Poisson arrivals.
//!
//! Erlang's formula of 1909 alternates in sign and soon loses all digits. Franx's form has only
//! positive terms. If kD is the first multiple of the service time D above t, then P(W ≤ t) =
//! e^(-y) Σ_{j<k} Q_{k-1-j} y^j/j!, where y = λ(kD - t) and Q_i is the probability of at most i + 1
//! queries in the system. The distribution of the number in the system follows from the embedded
//! chain, again with only positive terms: p_{j+1} a_0 = p_0 A_j + Σ_{i=1..j} p_i A_{j+1-i}, where
//! a_i is the probability of i arrivals in one service, and A_i the probability of more than i.
//!
//! Beyond [`STEPS`] service times, the law is a single exponential: P(W > t) = C·e^(-θt), with
//! λ(e^(θD)-1) = θ and C = (1-ρ)/(ρ·e^(θD)-1) (Cramér–Lundberg). At high utilization, the omitted
//! terms decay faster by at least a factor of e^(-2t/D). At low utilization, both the exponential
//! and the omitted terms are negligible.
//!
//! Source: G. J. Franx, "A simple solution for the M/D/c waiting time distribution", Operations
//! Research Letters 29, 2001; H. Tijms, "A First Course in Stochastic Models", ch. 9. The absolute
//! error is about 1e-13. Creating the law takes O(STEPS²) time, and each probability takes
//! O(STEPS).

use crate::solve;

/// The number of service times from which the asymptote is used.
const STEPS: usize = 24;

/// The law of the wait, as described in the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeterministicWait {
    utilization: f64,
    service: f64,
    /// Q_0, Q_1, …: P(at most i + 1 queries in the system).
    at_most: Vec<f64>,
    /// θD and C.
    decay: f64,
    constant: f64,
}

impl DeterministicWait {
    /// Creates the law for 0 < `utilization` < 1 and `service` > 0.
    pub(crate) fn new(utilization: f64, service: f64) -> Self {
        let decay = decay(utilization);
        // ρ·e^(θD) - 1 = ρ + θD - 1. At high utilization, this approaches 1 - ρ, so C approaches 1.
        let constant = (1.0 - utilization) / (decay - (1.0 - utilization));
        Self { utilization, service, at_most: queue_lengths(utilization), decay, constant }
    }

    pub(crate) fn service(&self) -> f64 {
        self.service
    }

    /// Returns P(W > t) for t ≥ 0.
    pub(crate) fn above(&self, t: f64) -> f64 {
        let services = t / self.service;
        let Some(steps) = whole_steps(services) else {
            return self.constant * (-self.decay * services).exp();
        };
        let y = self.utilization * (steps as f64 - services).max(0.0);
        let mut arrivals = (-y).exp();
        let mut at_most = 0.0;
        for j in 0..steps {
            at_most += self.at_most[steps - 1 - j] * arrivals;
            arrivals *= y / (j + 1) as f64;
        }
        1.0 - at_most
    }
}

/// Returns the k with k - 1 ≤ services < k. `None` if the asymptote applies.
fn whole_steps(services: f64) -> Option<usize> {
    (services < STEPS as f64).then(|| services.floor() as usize + 1)
}

/// Returns θD: the positive root of ρ(e^x - 1) = x, which is also the root of (e^x - 1 - x)/x =
/// (1-ρ)/ρ.
fn decay(utilization: f64) -> f64 {
    let target = (1.0 - utilization) / utilization;
    solve::first_at_most(|x| -relative_excess(x), -target, 1.0)
}

/// Returns (e^x - 1 - x)/x for x ≥ 0. Uses the power series for small x, where the difference would
/// lose digits.
fn relative_excess(x: f64) -> f64 {
    if x > 1.0 {
        return x.exp_m1() / x - 1.0;
    }
    let mut term = 1.0;
    (2..20)
        .map(|k| {
            term *= x / f64::from(k);
            term
        })
        .sum()
}

/// Returns Q_0 … Q_{STEPS-1}.
fn queue_lengths(utilization: f64) -> Vec<f64> {
    let mut arrivals = vec![(-utilization).exp()];
    for i in 1..=STEPS + 40 {
        arrivals.push(arrivals[i - 1] * utilization / i as f64);
    }
    // Sum the A_i from the far end, where the terms are small.
    let mut more: Vec<f64> = arrivals
        .iter()
        .rev()
        .scan(0.0, |sum, a| {
            let above = *sum;
            *sum += a;
            Some(above)
        })
        .collect();
    more.reverse();

    let mut lengths = vec![1.0 - utilization];
    for j in 0..STEPS {
        let flow: f64 = (1..=j).map(|i| lengths[i] * more[j + 1 - i]).sum();
        lengths.push((lengths[0] * more[j] + flow) / arrivals[0]);
    }
    let cumulative = lengths.iter().scan(0.0, |sum, p| {
        *sum += p;
        Some(*sum)
    });
    cumulative.skip(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Erlang's alternating formula, (1-ρ) Σ (ρ(j-x))^j e^(-ρ(j-x))/j!, for few services.
    fn erlang(utilization: f64, x: f64) -> f64 {
        let mut factorial = 1.0;
        let mut sum = 0.0;
        for j in 0..=x.floor() as u32 {
            let j = f64::from(j);
            factorial *= j.max(1.0);
            let y = utilization * (j - x);
            sum += y.powf(j) * (-y).exp() / factorial;
        }
        1.0 - (1.0 - utilization) * sum
    }

    #[test]
    fn few_services_follow_erlangs_formula() {
        for utilization in [0.05, 0.3, 0.7, 0.95] {
            let wait = DeterministicWait::new(utilization, 2.0);
            for x in [0.0, 0.25, 0.999, 1.0, 1.5, 3.0, 5.9] {
                let error = (wait.above(2.0 * x) - erlang(utilization, x)).abs();
                assert!(error < 1e-12, "at {x} of {utilization}: {error}");
            }
        }
    }

    #[test]
    fn the_asymptote_continues_the_exact_law() {
        for utilization in [0.5, 0.8, 0.99, 0.999_999] {
            let wait = DeterministicWait::new(utilization, 1.0);
            for x in [20.0, STEPS as f64 - 1e-9] {
                let exact = wait.above(x);
                let asymptote = wait.constant * (-wait.decay * x).exp();
                assert!((exact - asymptote).abs() < 1e-12, "{utilization}: {exact}, {asymptote}");
            }
        }
    }
}
