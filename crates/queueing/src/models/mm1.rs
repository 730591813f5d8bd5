//! M/M/1: Poisson arrivals, exponential service, one server.
//!
//! The sojourn time is exponential with rate μ - λ, so its p-quantile is -E\[S\]·ln(1 - p)/(1 - ρ).
//! The tutorial (document 004, "Takeaway 2") prints that without the minus sign.
//!
//! Source: document 004; Kleinrock, "Queueing Systems" I, §3.2 and §5.7. Exact. Cost: O(1).

use crate::check;
use crate::error::ModelError;
use crate::law::Law;
use crate::tail::{Basis, Prediction, Tail};

/// Predicts M/M/1. Rates are per unit of time, above 0.
///
/// ```
/// use curtail_queueing::models::mm1;
///
/// let at_half = mm1(0.5, 1.0)?;
/// assert_eq!(at_half.sojourn.mean(), 2.0);
/// assert!((at_half.sojourn.quantile(0.99)? - 2.0 * 100_f64.ln()).abs() < 1e-9);
/// # Ok::<(), curtail_queueing::ModelError>(())
/// ```
pub fn mm1(arrival_rate: f64, service_rate: f64) -> Result<Prediction, ModelError> {
    let utilization = utilization(arrival_rate, service_rate)?;
    let slack = service_rate - arrival_rate;
    let wait = Law::exponential(utilization, slack);
    let sojourn = Law::exponential(1.0, slack);
    let tail = |mean, law| Tail::full("M/M/1", mean, law, Basis::Exact);
    Ok(Prediction {
        model: "M/M/1",
        arrival_rate,
        utilization,
        wait: tail(utilization / slack, wait)?,
        sojourn: tail(1.0 / slack, sojourn)?,
    })
}

/// The probability that M/M/1 holds exactly `number` queries, the one in service included:
/// (1 - ρ)·ρⁿ.
pub fn mm1_in_system(arrival_rate: f64, service_rate: f64, number: u32) -> Result<f64, ModelError> {
    let utilization = utilization(arrival_rate, service_rate)?;
    Ok((1.0 - utilization) * utilization.powf(f64::from(number)))
}

fn utilization(arrival_rate: f64, service_rate: f64) -> Result<f64, ModelError> {
    check::positive("arrival rate", arrival_rate)?;
    check::positive("service rate", service_rate)?;
    check::stable(arrival_rate / service_rate)
}
