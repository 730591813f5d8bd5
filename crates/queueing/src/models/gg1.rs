//! G/G/1: any arrivals, any service, one server, by their first two moments.
//!
//! Three answers, since none is exact:
//! - Krämer and Langenbach-Belz: the refinement that is good at medium utilization too, and exact
//!   for Poisson arrivals;
//! - Kingman's heavy-traffic formula, ρ/(1-ρ)·(cₐ²+cₛ²)/2·E\[S\], simple, and exact for Poisson
//!   arrivals, but too high for regular ones;
//! - Kingman's bound, λ(σₐ²+σₛ²)/(2(1-ρ)), which nothing exceeds.
//!
//! All take gaps and service times for independent; bursts that last longer than a gap make it
//! worse.
//!
//! Source: Kingman, "The single server queue in heavy traffic", 1961, and "Some inequalities for
//! the queue GI/G/1", 1962; Krämer and Langenbach-Belz, "Approximate formulae for the delay in the
//! queueing system GI/G/1", 8th International Teletraffic Congress, 1976. Cost: O(1).

use super::{Arrivals, Service, from_mean_wait};
use crate::check;
use crate::error::ModelError;
use crate::tail::{Basis, Prediction, Tail};

/// Predicts G/G/1 by Krämer and Langenbach-Belz.
pub fn gg1(arrivals: Arrivals, service: Service) -> Result<Prediction, ModelError> {
    let utilization = utilization(arrivals, service)?;
    let factor = refinement(utilization, arrivals.scv, service.scv);
    let method = Basis::Approximation("Krämer and Langenbach-Belz");
    let wait = (heavy_traffic_wait(utilization, arrivals, service) * factor, method);
    from_mean_wait("G/G/1", arrivals.rate, utilization, service.mean, wait, utilization)
}

/// Predicts G/G/1 by Kingman's heavy-traffic formula.
pub fn gg1_heavy_traffic(arrivals: Arrivals, service: Service) -> Result<Prediction, ModelError> {
    let utilization = utilization(arrivals, service)?;
    let method = Basis::Approximation("Kingman, heavy traffic");
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
