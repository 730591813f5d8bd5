//! M/G/1: Poisson arrivals, any service time, one server.
//!
//! The mean wait is that of Pollaczek and Khinchine, ρ/(1-ρ)·(1+c²)/2·E\[S\], and exact: of the
//! service it depends on mean and variance only. The percentiles of the wait do depend on the rest;
//! here the wait is zero with probability 1 - ρ (which is exact) and else taken for exponential
//! (which is so for exponential service, and in the limit of high utilization).
//!
//! Source: document 004, "Impact of Var(ST) and E\[ST\] on Latency"; Kleinrock, "Queueing Systems"
//! I, ch. 5. Cost: O(1).

use super::{Service, from_mean_wait};
use crate::check;
use crate::error::ModelError;
use crate::tail::{Basis, Prediction};

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
