//! M/M/k: Poisson arrivals, exponential service, k servers behind one queue.
//!
//! A query waits with the probability of Erlang's C formula, and then for an exponential time of
//! rate kμ - λ; its service is independent of its wait. C is computed from Erlang's B recursion,
//! which only adds positive terms. The tutorial (document 004, "Takeaway 5") gives ρᵏ for it: that
//! is rough, and always too low for k ≥ 2 (at ρ = 0.8 and k = 10, 0.11 for 0.41), so it is not
//! offered.
//!
//! Source: document 004; Gross and Harris, "Fundamentals of Queueing Theory", §2.3; Harchol-Balter,
//! "Performance Modeling and Design of Computer Systems", §14. Exact. Cost: O(k).

use crate::check;
use crate::error::ModelError;
use crate::law::Law;
use crate::tail::{Basis, Prediction, Tail};

/// Predicts M/M/k. Rates are per unit of time, above 0; `service_rate` is that of one server;
/// `servers` is 1 to 1,000,000.
pub fn mmk(arrival_rate: f64, service_rate: f64, servers: u32) -> Result<Prediction, ModelError> {
    check::positive("arrival rate", arrival_rate)?;
    check::positive("service rate", service_rate)?;
    let offered = arrival_rate / service_rate;
    let waits = erlang_c(offered, servers)?;
    let slack = f64::from(servers) * service_rate - arrival_rate;
    let mean_wait = waits / slack;
    let wait = Law::exponential(waits, slack);
    let sojourn = Law::wait_and_serve(waits, slack, service_rate);
    let tail = |mean, law| Tail::full("M/M/k", mean, law, Basis::Exact);
    Ok(Prediction {
        model: "M/M/k",
        arrival_rate,
        utilization: offered / f64::from(servers),
        wait: tail(mean_wait, wait)?,
        sojourn: tail(mean_wait + 1.0 / service_rate, sojourn)?,
    })
}

/// Erlang's C formula: the probability that a query has to wait. `offered` is λ/μ (in erlangs, 0 or
/// more), `servers` is 1 to 1,000,000.
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
