//! M/D/1: Poisson arrivals, a constant service time, one server.
//!
//! The mean wait is half of M/M/1's; percentiles come from the exact law of the wait (Franx).
//!
//! Source: document 004; Kleinrock, "Queueing Systems" I, ch. 5; for the law, see
//! `law/deterministic.rs`. Exact. Cost: about 600 additions, then some 20 for each probability.

use crate::check;
use crate::error::ModelError;
use crate::law::{DeterministicWait, Law};
use crate::tail::{Basis, Prediction, Tail};

/// Predicts M/D/1. `arrival_rate` is per unit of time, `service` is the constant service time; both
/// above 0.
pub fn md1(arrival_rate: f64, service: f64) -> Result<Prediction, ModelError> {
    check::positive("arrival rate", arrival_rate)?;
    check::positive("service time", service)?;
    let utilization = check::stable(arrival_rate * service)?;
    // Less would be lost beside 1: the wait is then zero to the last digit.
    let wait = if utilization > f64::EPSILON {
        Law::deterministic_wait(DeterministicWait::new(utilization, service))
    } else {
        Law::exponentials(Vec::new())
    };
    let mean_wait = utilization * service / (2.0 * (1.0 - utilization));
    let sojourn = wait.clone().later(service);
    let tail = |mean, law| Tail::full("M/D/1", mean, law, Basis::Exact);
    Ok(Prediction {
        model: "M/D/1",
        arrival_rate,
        utilization,
        wait: tail(mean_wait, wait)?,
        sojourn: tail(mean_wait + service, sojourn)?,
    })
}
