//! Fork-join: every query forks to n parallel M/M/1 stations and is done when the last is.
//!
//! The stations see the same arrivals, so their queues are correlated and no closed form is known
//! for n > 2. Between which the truth lies:
//! - *lower bound*: no query ever waits, so the sojourn is the longest of n service times, with
//!   mean H_n/μ, H_n = 1 + 1/2 + … + 1/n;
//! - *upper bound*: sojourn times of stations with common arrivals are associated, so the longest
//!   is stochastically below that of n independent stations: mean H_n/(μ-λ), and the p-quantile is
//!   that of one station at p^(1/n);
//! - *approximation* of the mean: (H_n/H₂ + (1 - H_n/H₂)·4ρ/11)·(12-ρ)/(8(μ-λ)), within 5 % of
//!   simulations for n ≤ 32; exact for n = 2, and for n = 1, where M/M/1 is taken.
//!
//! Source: Nelson and Tantawi, "Approximate analysis of fork/join synchronization in parallel
//! queues", IEEE Transactions on Computers 37(6), 1988; for two stations, Flatto and Hahn 1984.
//! Cost: O(1).

use statrs::function::harmonic::harmonic;

use crate::check;
use crate::check::ModelError;
use crate::law::Law;
use crate::tail::{Basis, Tail};

/// What is known of a fork-join of M/M/1 stations. Sojourns run until the last station is done.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkJoin {
    /// λ/μ, of each station; from 0 to below 1.
    pub utilization: f64,
    /// The best estimate of the mean sojourn; no percentiles but for one station.
    pub estimate: Tail,
    /// A law that is stochastically below the sojourn: no percentile of the sojourn is less.
    pub lower: Tail,
    /// A law that is stochastically above the sojourn: no percentile of the sojourn is more.
    pub upper: Tail,
}

/// Bounds and an estimate for `stations` (1 to 1,000,000) M/M/1 stations that all serve every
/// query. `arrival_rate` is that of queries, and so of each station; `service_rate` that of one
/// station; both per unit of time, above 0.
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

/// The mean sojourn of two stations, in mean sojourns of one.
fn of_two(utilization: f64) -> f64 {
    (12.0 - utilization) / 8.0
}

// A query to many shards while nothing queues: the longest of independent service times.
//
// A service time is S = P + J: an exponential processing time P, and a hiccup J that is a constant
// with a small probability and else zero (`exp:MEAN+bimodal:PROB:VALUE` of `curtail-dist`). A naive
// hedge sends each shard's query to several replicas. P belongs to the query, so its copies share it,
// while each replica hiccups on its own: S = P + min(J₁, J₂, …), and the hiccup's probability is
// raised to the number of copies. This is what hedging can win at best: there is no load yet.
//
// Source: documents 000 and 001, whose services are of this form; Dean and Barroso, "The tail at
// scale", 2013, for the maximum over shards. Exact. Cost: O(1), a percentile about 100 exponentials.

/// A service time that is exponential, and now and then longer by a hiccup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HiccupService {
    /// The mean of the exponential part, in units of time; above 0.
    pub mean: f64,
    /// The probability of a hiccup, from 0 to 1.
    pub probability: f64,
    /// How long a hiccup is, in units of time; above 0.
    pub hiccup: f64,
}

impl HiccupService {
    /// The law of one query to one shard that `copies` replicas (1 to 1,000,000) work on; the first
    /// answer counts.
    pub fn one_shard(&self, copies: u32) -> Result<Law, ModelError> {
        let mean = check::positive("mean of the exponential part", self.mean)?;
        let probability = check::probability("probability of a hiccup", self.probability)?;
        let hiccup = check::positive("length of a hiccup", self.hiccup)?;
        let copies = check::count("number of copies", copies)?;
        Ok(Law::hiccup(1.0 / mean, probability.powf(f64::from(copies)), hiccup))
    }

    /// The law of a query that needs the answers of all of `shards` (1 to 1,000,000), with `copies`
    /// at each.
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
