//! Models that know two moments of arrivals and services.

use super::{Arrivals, Service, erlang_c, from_mean_wait};
use crate::check;
use crate::check::ModelError;
use crate::tail::{Basis, Prediction, Tail};

// M/G/1: Poisson arrivals, any service time, one server.
//
// The mean wait is that of Pollaczek and Khinchine, ρ/(1-ρ)·(1+c²)/2·E\[S\], and exact: of the
// service it depends on mean and variance only. The percentiles of the wait do depend on the rest;
// here the wait is zero with probability 1 - ρ (which is exact) and else taken for exponential
// (which is so for exponential service, and in the limit of high utilization).
//
// Source: document 004, "Impact of Var(ST) and E\[ST\] on Latency"; Kleinrock, "Queueing Systems"
// I, ch. 5. Cost: O(1).

/// Predicts M/G/1. `arrival_rate` is per unit of time, above 0. Means are exact, the percentiles of
/// the wait approximate; the sojourn has none, because they depend on more than two moments.
pub fn mg1(arrival_rate: f64, service: Service) -> Result<Prediction, ModelError> {
    check::positive("arrival rate", arrival_rate)?;
    let Service { mean, scv } = service.check()?;
    let utilization = check::stable(arrival_rate * mean)?;
    let mean_wait = utilization / (1.0 - utilization) * (1.0 + scv) / 2.0 * mean;
    let wait = (mean_wait, Basis::Exact);
    from_mean_wait("M/G/1", arrival_rate, utilization, mean, wait, utilization)
}

/// The mean service time at which M/G/1 has the mean sojourn that it has with `service`, if the
/// variance of the service is `variance`: less variance is worth a longer mean, up to here. The
/// arrival rate stays the same, so the utilization follows the mean.
///
/// With T the mean sojourn, Pollaczek and Khinchine give λm² - 2(1+λT)m + 2T - λ·variance = 0, and
/// the smaller root is that of a stable queue. Source: document 004, Takeaway 7; the root is our
/// algebra. Exact. Cost: O(1).
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
    // In units of the gap, which keeps products within what numbers hold.
    let (sojourn, square) = (arrival_rate * sojourn, arrival_rate * arrival_rate * variance);
    if !(0.0..=2.0 * sojourn).contains(&square) {
        let allowed = "0 or more, and so small that a shorter mean can make up for it";
        let name = "variance of the service time";
        return Err(ModelError::OutOfRange { name, value: variance, allowed });
    }
    let root = (1.0 + sojourn * sojourn + square).sqrt();
    check::finite((2.0 * sojourn - square) / (1.0 + sojourn + root) / arrival_rate)
}

// G/G/1: any arrivals, any service, one server, by their first two moments.
//
// Three answers, since none is exact:
// - Krämer and Langenbach-Belz: the refinement that is good at medium utilization too, and exact
//   for Poisson arrivals;
// - Kingman's heavy-traffic formula, ρ/(1-ρ)·(cₐ²+cₛ²)/2·E\[S\], simple, and exact for Poisson
//   arrivals, but too high for regular ones;
// - Kingman's bound, λ(σₐ²+σₛ²)/(2(1-ρ)), which nothing exceeds.
//
// All take gaps and service times for independent; bursts that last longer than a gap make it
// worse.
//
// Source: Kingman, "The single server queue in heavy traffic", 1961, and "Some inequalities for
// the queue GI/G/1", 1962; Krämer and Langenbach-Belz, "Approximate formulae for the delay in the
// queueing system GI/G/1", 8th International Teletraffic Congress, 1976. Cost: O(1).

/// Predicts G/G/1 by Krämer and Langenbach-Belz.
pub fn gg1(arrivals: Arrivals, service: Service) -> Result<Prediction, ModelError> {
    let utilization = utilization(arrivals, service)?;
    let factor = refinement(utilization, arrivals.scv, service.scv);
    let method = Basis::Approximation { method: "Krämer and Langenbach-Belz" };
    let wait = (heavy_traffic_wait(utilization, arrivals, service) * factor, method);
    from_mean_wait("G/G/1", arrivals.rate, utilization, service.mean, wait, utilization)
}

/// Predicts G/G/1 by Kingman's heavy-traffic formula.
pub fn gg1_heavy_traffic(arrivals: Arrivals, service: Service) -> Result<Prediction, ModelError> {
    let utilization = utilization(arrivals, service)?;
    let method = Basis::Approximation { method: "Kingman, heavy traffic" };
    let wait = (heavy_traffic_wait(utilization, arrivals, service), method);
    from_mean_wait("G/G/1", arrivals.rate, utilization, service.mean, wait, utilization)
}

/// Kingman's upper bound for the mean wait, and so the mean sojourn, of G/G/1. No percentiles.
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

fn heavy_traffic_wait(utilization: f64, arrivals: Arrivals, service: Service) -> f64 {
    utilization / (1.0 - utilization) * (arrivals.scv + service.scv) / 2.0 * service.mean
}

/// The factor by which Krämer and Langenbach-Belz correct the heavy-traffic formula; 1 for cₐ² = 1.
fn refinement(utilization: f64, arrivals: f64, service: f64) -> f64 {
    // A clock feeding constant work: nothing ever waits, whatever the factor.
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
// Allen and Cunneen scale the mean wait of M/M/k by (cₐ²+cₛ²)/2. It is exact for M/M/k, for one
// server it is Kingman's heavy-traffic formula, and it is best at high utilization. The wait is
// taken for zero or exponential, as in M/M/k, with Erlang's C as the probability that there is
// one.
//
// Source: Allen, "Probability, Statistics and Queueing Theory", 1978; compared with others in
// Whitt, "Approximations for the GI/G/m queue", 1993. Cost: O(k).

/// Predicts G/G/k by Allen and Cunneen. `servers` is 1 to 1,000,000.
pub fn ggk(arrivals: Arrivals, service: Service, servers: u32) -> Result<Prediction, ModelError> {
    let offered = arrivals.check()?.rate * service.check()?.mean;
    let servers = check::count("number of servers", servers)?;
    let utilization = check::stable(offered / f64::from(servers))?;
    let waits = erlang_c(offered, servers)?;
    let markovian = waits / (f64::from(servers) - offered) * service.mean;
    let mean_wait = markovian * (arrivals.scv + service.scv) / 2.0;
    let wait = (mean_wait, Basis::Approximation { method: "Allen and Cunneen" });
    from_mean_wait("G/G/k", arrivals.rate, utilization, service.mean, wait, waits)
}

// Whether a wait may be taken for zero or exponential, judged by the third moment of the service.
//
// In M/G/1, E\[W²\] is 2E\[W\]² + λE\[S³\]/(3(1-ρ)). A wait that is zero with probability 1-ρ and
// else exponential, with the same mean, has 2E\[W\]²/ρ. Their quotient is ρ + (1-ρ)·κ with κ =
// 2E\[S\]E\[S³\]/(3E\[S²\]²): 1 for exponential service, and in the limit of high utilization.
// No service has a κ below 2/3 (Cauchy and Schwarz), which is that of the constant. So percentiles
// are kept up to 3/2: the spread of the wait is then at most as much above the exponential's as
// that of a constant service can be below. Rare long services have far more: with one in a
// thousand that is 100 times longer, κ is about 6. Where the third moment is infinite, the wait has
// no variance, and no exponential resembles its tail.
//
// Source: Kleinrock, "Queueing Systems" I, §5.7, for the moments of the wait; the quotient is our
// algebra. Other arrivals and more servers are judged alike, because for them nothing is exact.
// Cost: O(1).

/// The largest quotient of E\[W²\] at which percentiles are kept.
const MOST: f64 = 1.5;

impl Prediction {
    /// The same, but without approximate percentiles if the skewness of `service` contradicts them
    /// (the third central moment over the third power of the deviation; infinite where the third
    /// moment is). Means, and laws that are exact, stay as they are.
    pub fn given_skewness(self, service: Service, skewness: f64) -> Self {
        let exact = !matches!(self.wait.law_basis(), Some(Basis::Approximation { .. }));
        let spread = self.utilization + (1.0 - self.utilization) * kappa(service.scv, skewness);
        // What is no number is no reason to trust.
        if exact || spread <= MOST {
            return self;
        }
        Self { wait: self.wait.without_law(), ..self }
    }
}

/// 2E\[S\]E\[S³\]/(3E\[S²\]²), in units of the mean.
fn kappa(scv: f64, skewness: f64) -> f64 {
    let second = 1.0 + scv;
    // A constant has no third central moment, whatever its skewness is said to be.
    let central = if scv == 0.0 { 0.0 } else { skewness * scv * scv.sqrt() };
    2.0 * (central + 3.0 * scv + 1.0) / (3.0 * second * second)
}
