//! Models with exponential or constant services. Their laws are exact.

use crate::check::{self, ModelError};
use crate::law::{DeterministicWait, Law};
use crate::tail::{Prediction, Time};

// The M/M/1 queue: Poisson arrivals, exponential service, one server.
//
// The sojourn time is exponential with rate μ - λ, so its p-quantile is -E\[S\]·ln(1 - p)/(1 - ρ).
// The tutorial (document 004, "Takeaway 2") prints this formula without the minus sign.
//
// Source: document 004; Kleinrock, "Queueing Systems" I, §3.2 and §5.7. Exact. Cost: O(1).

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
    let utilization = check::stable(check::offered(arrival_rate, service_rate)?)?;
    let slack = service_rate - arrival_rate;
    let time = |weight| Time { mean: weight / slack, law: Law::exponential(weight, slack) };
    Prediction::exact("M/M/1", arrival_rate, utilization, time(utilization), time(1.0))
}

// The M/M/k queue: Poisson arrivals, exponential service, k servers behind one queue.
//
// A query waits with the probability of Erlang's C formula. If it waits, the wait is exponential
// with rate kμ - λ and independent of the service. C is computed from Erlang's B recursion, which
// only adds positive terms. The tutorial (document 004, "Takeaway 5") approximates C by ρᵏ. This
// approximation is rough and always too low for k ≥ 2 (0.11 instead of 0.41 at ρ = 0.8 and k = 10),
// so this crate does not provide it.
//
// Source: document 004; Gross and Harris, "Fundamentals of Queueing Theory", §2.3; Harchol-Balter,
// "Performance Modeling and Design of Computer Systems", §14. Exact. Cost: O(k).

/// Predicts M/M/k. Rates are per unit of time, above 0. `service_rate` is the rate of one server.
/// `servers` is from 1 to 1,000,000.
pub fn mmk(arrival_rate: f64, service_rate: f64, servers: u32) -> Result<Prediction, ModelError> {
    let offered = check::offered(arrival_rate, service_rate)?;
    let waits = erlang_c(offered, servers)?;
    let slack = f64::from(servers) * service_rate - arrival_rate;
    let wait = Time { mean: waits / slack, law: Law::exponential(waits, slack) };
    let sojourn = Time {
        mean: wait.mean + 1.0 / service_rate,
        law: Law::wait_and_serve(waits, slack, service_rate),
    };
    Prediction::exact("M/M/k", arrival_rate, offered / f64::from(servers), wait, sojourn)
}

/// Returns the probability that a query has to wait, by Erlang's C formula. `offered` is λ/μ (in
/// erlangs, 0 or more), and `servers` is from 1 to 1,000,000.
pub fn erlang_c(offered: f64, servers: u32) -> Result<f64, ModelError> {
    if offered.is_nan() || offered < 0.0 {
        let name = "offered load";
        return Err(ModelError::OutOfRange { name, value: offered, allowed: "0 or more" });
    }
    let servers = check::count("number of servers", servers)?;
    let utilization = check::stable(offered / f64::from(servers))?;
    let mut blocked = 1.0;
    for k in 1..=servers {
        blocked = offered * blocked / (f64::from(k) + offered * blocked);
    }
    Ok(blocked / (1.0 - utilization * (1.0 - blocked)))
}

// The M/D/1 queue: Poisson arrivals, a constant service time, one server.
//
// The mean wait is half of the mean wait in M/M/1. Percentiles come from the exact law of the wait
// (Franx).
//
// Source: document 004; Kleinrock, "Queueing Systems" I, ch. 5; for the law, see
// `law/deterministic.rs`. Exact. The cost is about 600 additions, followed by about 20 for each
// probability.

/// Predicts M/D/1. `arrival_rate` is per unit of time, and `service` is the constant service time;
/// both above 0.
pub fn md1(arrival_rate: f64, service: f64) -> Result<Prediction, ModelError> {
    check::positive("arrival rate", arrival_rate)?;
    check::positive("service time", service)?;
    let utilization = check::stable(arrival_rate * service)?;
    // A smaller utilization vanishes when it is added to 1, so the wait is 0 to machine precision.
    let wait = if utilization > f64::EPSILON {
        Law::deterministic_wait(DeterministicWait::new(utilization, service))
    } else {
        Law::exponentials(Vec::new())
    };
    let mean = utilization * service / (2.0 * (1.0 - utilization));
    let sojourn = Time { mean: mean + service, law: wait.clone().later(service) };
    Prediction::exact("M/D/1", arrival_rate, utilization, Time { mean, law: wait }, sojourn)
}
