//! Models that use two moments of arrivals and services.

use super::{Arrivals, MeanWait, Service, erlang_c, from_mean_wait};
use crate::check::{self, ModelError};
use crate::tail::{Basis, Prediction, Tail};

// The M/G/1 queue: Poisson arrivals, any service time, one server.
//
// The mean wait is given by Pollaczek and Khinchine: ρ/(1-ρ)·(1+c²)/2·E\[S\]. It is exact, because
// it depends only on the mean and variance of the service. The percentiles of the wait depend on
// the whole distribution. Here the wait is zero with probability 1 - ρ, which is exact. Otherwise
// it is assumed to be exponential, which is exact for exponential service and in the limit of high
// utilization.
//
// Source: document 004, "Impact of Var(ST) and E\[ST\] on Latency"; Kleinrock, "Queueing Systems"
// I, ch. 5. Cost: O(1).

/// Predicts M/G/1. `arrival_rate` is per unit of time, above 0. Means are exact, and the
/// percentiles of the wait are approximate. The sojourn has no percentiles, because they depend on
/// more than two moments.
pub fn mg1(arrival_rate: f64, service: Service) -> Result<Prediction, ModelError> {
    check::positive("arrival rate", arrival_rate)?;
    let Service { mean, scv } = service.check()?;
    let utilization = check::stable(arrival_rate * mean)?;
    let mean_wait = utilization / (1.0 - utilization) * (1.0 + scv) / 2.0 * mean;
    let wait = MeanWait { mean: mean_wait, basis: Basis::Exact, waits: utilization };
    from_mean_wait("M/G/1", arrival_rate, utilization, mean, wait)
}

/// Returns the mean that a service with this `variance` must have so that the mean sojourn of M/G/1
/// is the same as with `service`. A service with less variance may take longer on average, up to
/// this mean. The arrival rate stays the same, so the utilization changes with the mean.
///
/// If T is the mean sojourn, Pollaczek and Khinchine give λm² - 2(1+λT)m + 2T - λ·variance = 0. The
/// smaller root is the one for which the queue is stable. Source: document 004, Takeaway 7; we
/// derived the root. Exact. Cost: O(1).
///
/// ```
/// use curtail_queueing::models::{Service, mg1_break_even};
///
/// // At half load, a service without any variance may be 22 % longer than an exponential one.
/// let longest = mg1_break_even(0.5, Service { mean: 1.0, scv: 1.0 }, 0.0)?;
/// assert!((longest - (4.0 - 8_f64.sqrt())).abs() < 1e-12);
/// # Ok::<(), curtail_queueing::ModelError>(())
/// ```
pub fn mg1_break_even(
    arrival_rate: f64,
    service: Service,
    variance: f64,
) -> Result<f64, ModelError> {
    let sojourn = mg1(arrival_rate, service)?.sojourn.mean();
    // Times are in units of the mean gap, so products cannot overflow.
    let (sojourn, square) = (arrival_rate * sojourn, arrival_rate * arrival_rate * variance);
    if !(0.0..=2.0 * sojourn).contains(&square) {
        let allowed = "0 or more, and low enough that a shorter mean can compensate for it";
        let name = "variance of the service time";
        return Err(ModelError::OutOfRange { name, value: variance, allowed });
    }
    let root = (1.0 + sojourn * sojourn + square).sqrt();
    check::finite((2.0 * sojourn - square) / (1.0 + sojourn + root) / arrival_rate)
}

// G/G/1: any arrivals, any service, one server, by their first two moments.
//
// There are three predictions, because none is exact:
// - Krämer and Langenbach-Belz: a refinement that is also good at medium utilization, and exact for
//   Poisson arrivals.
// - Kingman's heavy-traffic formula, ρ/(1-ρ)·(cₐ²+cₛ²)/2·E\[S\]: simple, exact for Poisson
//   arrivals, but too high for regular ones.
// - Kingman's bound, λ(σₐ²+σₛ²)/(2(1-ρ)): an upper bound.
//
// All assume that gaps and service times are independent. Bursts that span several gaps increase
// the wait beyond these predictions.
//
// Source: Kingman, "The single server queue in heavy traffic", 1961, and "Some inequalities for the
// queue GI/G/1", 1962; Krämer and Langenbach-Belz, "Approximate formulae for the delay in the
// queueing system GI/G/1", 8th International Teletraffic Congress, 1976. Cost: O(1).

/// Predicts G/G/1 with the formula of Krämer and Langenbach-Belz.
pub fn gg1(arrivals: Arrivals, service: Service) -> Result<Prediction, ModelError> {
    let utilization = utilization(arrivals, service)?;
    let factor = refinement(utilization, arrivals.scv, service.scv);
    approximate(arrivals, service, factor, "Krämer and Langenbach-Belz")
}

/// Predicts G/G/1 with Kingman's heavy-traffic formula.
pub fn gg1_heavy_traffic(arrivals: Arrivals, service: Service) -> Result<Prediction, ModelError> {
    approximate(arrivals, service, 1.0, "Kingman, heavy traffic")
}

/// Returns Kingman's upper bounds for the mean wait and the mean sojourn of G/G/1. No percentiles.
pub fn gg1_upper_bound(arrivals: Arrivals, service: Service) -> Result<Prediction, ModelError> {
    let utilization = utilization(arrivals, service)?;
    // In units of the mean service time, the variance of the gaps is cₐ²/ρ².
    let variances = arrivals.scv / utilization + utilization * service.scv;
    let mean_wait = variances / (2.0 * (1.0 - utilization)) * service.mean;
    let tail = |mean| Tail::new("G/G/1", mean, Basis::UpperBound, None);
    Ok(Prediction {
        model: "G/G/1",
        arrival_rate: arrivals.rate,
        utilization,
        wait: tail(mean_wait)?,
        sojourn: tail(mean_wait + service.mean)?,
    })
}

fn utilization(arrivals: Arrivals, service: Service) -> Result<f64, ModelError> {
    check::stable(arrivals.check()?.rate * service.check()?.mean)
}

/// Predicts G/G/1 with the mean wait in heavy traffic, multiplied by a factor.
fn approximate(
    arrivals: Arrivals,
    service: Service,
    factor: f64,
    method: &'static str,
) -> Result<Prediction, ModelError> {
    let waits = utilization(arrivals, service)?;
    let mean = waits / (1.0 - waits) * (arrivals.scv + service.scv) / 2.0 * service.mean;
    let wait = MeanWait { mean: mean * factor, basis: Basis::Approximation { method }, waits };
    from_mean_wait("G/G/1", arrivals.rate, waits, service.mean, wait)
}

/// Returns the factor by which Krämer and Langenbach-Belz correct the heavy-traffic formula; 1 for
/// cₐ² = 1.
fn refinement(utilization: f64, arrivals: f64, service: f64) -> f64 {
    // If gaps and services are constant, nothing waits, so the factor does not matter.
    if arrivals + service == 0.0 {
        return 0.0;
    }
    let idle = 1.0 - utilization;
    let exponent = if arrivals < 1.0 {
        2.0 * idle * (1.0 - arrivals).powi(2) / (3.0 * utilization * (arrivals + service))
    } else {
        idle * (arrivals - 1.0) / (arrivals + 4.0 * service)
    };
    (-exponent).exp()
}

// G/G/k: any arrivals, any service, k servers behind one queue, by their first two moments.
//
// Allen and Cunneen scale the mean wait of M/M/k by (cₐ²+cₛ²)/2. This is exact for M/M/k, equals
// Kingman's heavy-traffic formula for one server, and is most accurate at high utilization. The
// wait is assumed to be zero or exponential, as in M/M/k, and Erlang's C is the probability of a
// wait.
//
// Source: Allen, "Probability, Statistics and Queueing Theory", 1978; compared with others in
// Whitt, "Approximations for the GI/G/m queue", 1993. Cost: O(k).

/// Predicts G/G/k with the formula of Allen and Cunneen. `servers` is from 1 to 1,000,000.
pub fn ggk(arrivals: Arrivals, service: Service, servers: u32) -> Result<Prediction, ModelError> {
    let offered = arrivals.check()?.rate * service.check()?.mean;
    let servers = check::count("number of servers", servers)?;
    let utilization = check::stable(offered / f64::from(servers))?;
    let waits = erlang_c(offered, servers)?;
    let markovian = waits / (f64::from(servers) - offered) * service.mean;
    let mean_wait = markovian * (arrivals.scv + service.scv) / 2.0;
    let basis = Basis::Approximation { method: "Allen and Cunneen" };
    let wait = MeanWait { mean: mean_wait, basis, waits };
    from_mean_wait("G/G/k", arrivals.rate, utilization, service.mean, wait)
}

// Uses the third moment of the service to check whether the wait may be assumed to be zero or
// exponential.
//
// In M/G/1, E\[W²\] is 2E\[W\]² + λE\[S³\]/(3(1-ρ)). For a wait that is zero with probability 1-ρ
// and otherwise exponential, with the same mean, it is 2E\[W\]²/ρ. The quotient is ρ + (1-ρ)·κ with
// κ = 2E\[S\]E\[S³\]/(3E\[S²\]²), which is 1 for exponential service. The quotient tends to 1 at
// high utilization. No service has a κ below 2/3 (Cauchy and Schwarz), the value for a constant
// service. Percentiles are therefore kept up to a quotient of 3/2, which is the inverse of this
// value, so the limits are symmetric about exponential service. Rare long services have a far
// larger κ: about 6 if one in a thousand is 100 times longer. If the third moment is infinite, the
// variance of the wait is infinite, and no exponential resembles its tail.
//
// Source: Kleinrock, "Queueing Systems" I, §5.7, for the moments of the wait; we derived the
// quotient. The same rule applies to other arrivals and more servers, for which no exact result
// exists. Cost: O(1).

/// The largest quotient of the two values of E\[W²\] at which percentiles are kept.
const MOST: f64 = 1.5;

impl Prediction {
    /// Removes approximate percentiles if they are inconsistent with the skewness of `service`. The
    /// skewness is the third central moment divided by the third power of the standard deviation;
    /// it is infinite if the third moment is infinite. Means and exact laws do not change.
    pub fn given_skewness(self, service: Service, skewness: f64) -> Self {
        let exact = !matches!(self.wait.law_basis(), Some(Basis::Approximation { .. }));
        let spread = self.utilization + (1.0 - self.utilization) * kappa(service.scv, skewness);
        // NaN fails the comparison, so in that case the percentiles are removed as well.
        if exact || spread <= MOST {
            return self;
        }
        Self { wait: self.wait.without_law(), ..self }
    }
}

/// Returns 2E\[S\]E\[S³\]/(3E\[S²\]²), in units of the mean.
fn kappa(scv: f64, skewness: f64) -> f64 {
    let second = 1.0 + scv;
    // The third central moment of a constant is 0, regardless of the given skewness.
    let central = if scv == 0.0 { 0.0 } else { skewness * scv * scv.sqrt() };
    2.0 * (central + 3.0 * scv + 1.0) / (3.0 * second * second)
}
