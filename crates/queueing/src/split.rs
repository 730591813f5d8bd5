//! The best split of a Poisson stream over servers of different speeds.
//!
//! With rate λᵢ to server i, the mean sojourn is Σ λᵢ/(μᵢ-λᵢ) / Σ λᵢ, for processor sharing as for
//! M/M/1. It is lowest where the marginal costs μᵢ/(μᵢ-λᵢ)² are equal: λᵢ = μᵢ - √μᵢ·(M - λ)/R,
//! where M and R are the sums of μ and √μ over the servers in use. So the slack goes by the square
//! root of the speed: faster servers get more than their proportion, and slow ones nothing while λ
//! is low.
//!
//! Source: document 004, "In Practice: Multi-Server Queueing Models" (the result, without the
//! rule); Bell and Stidham, "Individual versus social optimization in the allocation of
//! customers to alternative servers", Management Science 29, 1983. Exact. Cost: O(n log n).

use crate::check;
use crate::error::ModelError;

/// How to split a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// λᵢ, per unit of time, in the order of the servers; 0 for those that get nothing. The sum is
    /// the arrival rate.
    pub rates: Vec<f64>,
    /// The mean sojourn with this split, in units of time.
    pub mean_sojourn: f64,
    /// The mean sojourn if every server got its proportion, λ·μᵢ/Σμ; never less.
    pub proportional: f64,
}

/// Splits Poisson arrivals of `arrival_rate` over servers with these service rates (both per unit
/// of time, above 0), so that the mean sojourn is lowest.
///
/// # Errors
///
/// [`ModelError::NoServers`] for an empty slice, [`ModelError::OutOfRange`] for a rate that is not
/// positive and finite, [`ModelError::Overload`] if the arrivals are not slower than all servers
/// together.
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
    let slack_share = slack_share(arrival_rate, &fastest_first);
    let rates: Vec<f64> =
        service_rates.iter().map(|rate| (rate - rate.sqrt() * slack_share).max(0.0)).collect();
    let in_system: f64 =
        rates.iter().zip(service_rates).map(|(sent, rate)| sent / (rate - sent)).sum();
    let servers = service_rates.len() as f64;
    Ok(Split {
        mean_sojourn: check::finite(in_system / arrival_rate)?,
        proportional: check::finite(servers / (total - utilization * total))?,
        rates,
    })
}

/// (M - λ)/R over the servers in use: a server is in use if its √μ exceeds it. Slower servers are
/// taken in one by one, as long as they are worth it.
fn slack_share(arrival_rate: f64, fastest_first: &[f64]) -> f64 {
    let (mut rates, mut roots) = (0.0, 0.0);
    let mut share = 0.0;
    for &rate in fastest_first {
        // Until the fast ones can carry the load there is no choice.
        if rates > arrival_rate && rate.sqrt() <= share {
            break;
        }
        rates += rate;
        roots += rate.sqrt();
        share = (rates - arrival_rate) / roots;
    }
    share
}
