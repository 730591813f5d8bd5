//! Finds the best split of a Poisson stream over servers with different speeds.
//!
//! With rate λᵢ to server i, the mean sojourn is Σ λᵢ/(μᵢ-λᵢ) / Σ λᵢ, for processor sharing as well
//! as for M/M/1. It is lowest if the marginal costs μᵢ/(μᵢ-λᵢ)² are equal: λᵢ = μᵢ - √μᵢ·(M - λ)/R,
//! where M and R are the sums of μ and √μ over the servers in use. The slack of a server is thus
//! proportional to the square root of its speed. Faster servers get more than their proportional
//! share, and slow servers get nothing while λ is low.
//!
//! Source: document 004, "In Practice: Multi-Server Queueing Models" (the result, without the
//! rule); Bell and Stidham, "Individual versus social optimization in the allocation of customers
//! to alternative servers", Management Science 29, 1983. Exact. Cost: O(n log n).
//!
//! At low loads, M - λ and μᵢ - √μᵢ·(M - λ)/R lose the digits of λ. The code therefore uses an
//! equivalent form without negative terms. Let s be the least √μ in use. The server with this √μ is
//! in use if λ exceeds T = Σ √μⱼ·(√μⱼ - s), and λᵢ = √μᵢ·((λ - T)/R + √μᵢ - s).

use crate::check::{self, ModelError};

/// The rates of the parts of a split stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// λᵢ, per unit of time, in the order of the servers; 0 for servers that get nothing. The sum
    /// is the arrival rate.
    pub rates: Vec<f64>,
    /// The mean sojourn with this split, in units of time.
    pub mean_sojourn: f64,
    /// The mean sojourn if every server got its proportional share, λ·μᵢ/Σμ. It is never less than
    /// `mean_sojourn`.
    pub proportional: f64,
}

/// Splits Poisson arrivals with the rate `arrival_rate` over servers with these service rates so
/// that the mean sojourn is lowest. All rates are per unit of time, above 0.
pub fn optimal_split(arrival_rate: f64, service_rates: &[f64]) -> Result<Split, ModelError> {
    if service_rates.is_empty() {
        return Err(ModelError::NoServers);
    }
    check::positive("arrival rate", arrival_rate)?;
    for &rate in service_rates {
        check::positive("service rate", rate)?;
    }
    let total = check::finite(service_rates.iter().sum())?;
    let utilization = check::stable(arrival_rate / total)?;
    let mut fastest_first: Vec<f64> = service_rates.to_vec();
    fastest_first.sort_by(|a, b| b.total_cmp(a));
    let InUse { slowest, excess, slack } = in_use(arrival_rate, &fastest_first);
    let sent = |root: f64| if root < slowest { 0.0 } else { root * (excess + (root - slowest)) };
    let rates: Vec<f64> = service_rates.iter().map(|rate| sent(rate.sqrt())).collect();
    // μᵢ - λᵢ is √μᵢ times the slack.
    let sojourns = rates.iter().zip(service_rates);
    let mean_sojourn =
        sojourns.map(|(sent, rate)| sent / arrival_rate / (rate.sqrt() * slack)).sum();
    let servers = service_rates.len() as f64;
    Ok(Split {
        mean_sojourn: check::finite(mean_sojourn)?,
        proportional: check::finite(servers / (total - utilization * total))?,
        rates,
    })
}

/// The servers in use.
struct InUse {
    /// √μ of the slowest server in use.
    slowest: f64,
    /// (λ - T)/R.
    excess: f64,
    /// (M - λ)/R.
    slack: f64,
}

/// Adds slower servers one by one, as long as they reduce the mean sojourn.
fn in_use(arrival_rate: f64, fastest_first: &[f64]) -> InUse {
    let (mut rates, mut roots, mut threshold) = (0.0, 0.0, 0.0);
    let mut slowest = fastest_first.first().map_or(0.0, |rate| rate.sqrt());
    for &rate in fastest_first {
        let root = rate.sqrt();
        let next = threshold + roots * (slowest - root);
        if next > arrival_rate {
            break;
        }
        (threshold, slowest) = (next, root);
        rates += rate;
        roots += root;
    }
    InUse {
        slowest,
        excess: (arrival_rate - threshold) / roots,
        slack: (rates - arrival_rate) / roots,
    }
}
