//! Fork-join models: every query is sent to n parallel M/M/1 stations and is complete when the last
//! of them has finished.
//!
//! The stations see the same arrivals, so their queues are correlated, and no closed form is known
//! for n > 2. These figures bracket or approximate the sojourn:
//! - *Lower bound*: no query waits. The sojourn is then the longest of n service times, with mean
//!   H_n/μ, where H_n = 1 + 1/2 + … + 1/n.
//! - *Upper bound*: sojourn times of stations with common arrivals are associated, so the longest
//!   is stochastically below the longest sojourn at n independent stations. Its mean is H_n/(μ-λ),
//!   and its p-quantile is the quantile of one station at p^(1/n).
//! - *Approximation* of the mean: (H_n/H₂ + (1 - H_n/H₂)·4ρ/11)·(12-ρ)/(8(μ-λ)), within 5 % of
//!   simulations for n ≤ 32. It is exact for n = 2. For n = 1, the results of M/M/1 are used.
//!
//! Source: Nelson and Tantawi, "Approximate analysis of fork/join synchronization in parallel
//! queues", IEEE Transactions on Computers 37(6), 1988; for two stations, Flatto and Hahn 1984.
//! Cost: O(1).

use statrs::function::harmonic::harmonic;

use crate::check::{self, ModelError};
use crate::law::Law;
use crate::tail::{Basis, Tail};

/// The results for a fork-join of M/M/1 stations. Sojourns end when the last station is done.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkJoin {
    /// λ/μ of each station; from 0 to below 1.
    pub utilization: f64,
    /// The best estimate of the mean sojourn. It has percentiles only if there is a single station.
    pub estimate: Tail,
    /// A law that is stochastically below the sojourn, so its percentiles are lower bounds.
    pub lower: Tail,
    /// A law that is stochastically above the sojourn, so its percentiles are upper bounds.
    pub upper: Tail,
}

/// Predicts the sojourn at `stations` (1 to 1,000,000) M/M/1 stations, all of which serve every
/// query. `arrival_rate` is the rate of queries, which is also the rate at each station.
/// `service_rate` is the rate of one station. Both are per unit of time, above 0.
pub fn fork_join(
    arrival_rate: f64,
    service_rate: f64,
    stations: u32,
) -> Result<ForkJoin, ModelError> {
    const MODEL: &str = "fork-join of M/M/1";
    check::count("number of stations", stations)?;
    let utilization = check::stable(check::offered(arrival_rate, service_rate)?)?;
    let slack = service_rate - arrival_rate;
    let longest = |rate, basis| {
        let law = Law::exponential(1.0, rate).longest_of(stations)?;
        Tail::full(MODEL, harmonic(stations.into()) / rate, law, basis)
    };
    let estimate = match stations {
        1 => Tail::full(MODEL, 1.0 / slack, Law::exponential(1.0, slack), Basis::Exact)?,
        2 => Tail::new(MODEL, of_two(utilization) / slack, Basis::Exact, None)?,
        _ => {
            let scale = harmonic(stations.into()) / harmonic(2);
            let scale = scale + (1.0 - scale) * 4.0 * utilization / 11.0;
            let method = Basis::Approximation { method: "Nelson and Tantawi" };
            Tail::new(MODEL, scale * of_two(utilization) / slack, method, None)?
        }
    };
    Ok(ForkJoin {
        utilization,
        estimate,
        lower: longest(service_rate, Basis::LowerBound)?,
        upper: longest(slack, Basis::UpperBound)?,
    })
}

/// Returns the mean sojourn of two stations, in units of the mean sojourn of one station.
fn of_two(utilization: f64) -> f64 {
    (12.0 - utilization) / 8.0
}

// Without queueing, a query to many shards takes as long as the longest of several independent
// service times.
//
// A service time is S = P + J. P is an exponential processing time, and J is a hiccup, which is a
// constant with a small probability and zero otherwise (`exp:MEAN+bimodal:PROB:VALUE` in
// `curtail-dist`). A naive hedge sends each shard's query to several replicas. P belongs to the
// query, so its copies share it, but each replica has its own hiccups: S = P + min(J₁, J₂, …). The
// hiccup's probability is thus raised to the power of the number of copies. Hedging cannot achieve
// more than this, because the model ignores load.
//
// Source: documents 000 and 001, whose services have this form; Dean and Barroso, "The tail at
// scale", 2013, for the maximum over shards. Exact. Cost: O(1), except that a percentile takes
// about 100 evaluations of the exponential function.

/// A service time that consists of an exponential part and an occasional hiccup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HiccupService {
    /// The mean of the exponential part, in units of time; above 0.
    pub mean: f64,
    /// The probability of a hiccup, from 0 to 1.
    pub probability: f64,
    /// The length of a hiccup, in units of time; above 0.
    pub hiccup: f64,
}

impl HiccupService {
    /// Returns the law of one query to one shard, with `copies` replicas (1 to 1,000,000) working
    /// on it. The query ends with the first response.
    pub fn one_shard(&self, copies: u32) -> Result<Law, ModelError> {
        let mean = check::positive("mean of the exponential part", self.mean)?;
        let probability = check::probability("probability of a hiccup", self.probability)?;
        let hiccup = check::positive("length of a hiccup", self.hiccup)?;
        let copies = check::count("number of copies", copies)?;
        Ok(Law::hiccup(1.0 / mean, probability.powf(f64::from(copies)), hiccup))
    }

    /// Returns the law of a query that needs the responses of all `shards` (1 to 1,000,000), each
    /// of which runs `copies` copies.
    ///
    /// ```
    /// use curtail_queueing::HiccupService;
    ///
    /// let service = HiccupService { mean: 1.0, probability: 0.001, hiccup: 15.0 };
    /// let p99 = |copies| service.all_shards(50, copies)?.quantile(0.99);
    /// assert!((p99(1)? - 16.6).abs() < 0.1 && (p99(2)? - 8.5).abs() < 0.1);
    /// # Ok::<(), curtail_queueing::ModelError>(())
    /// ```
    pub fn all_shards(&self, shards: u32, copies: u32) -> Result<Law, ModelError> {
        self.one_shard(copies)?.longest_of(shards)
    }
}
