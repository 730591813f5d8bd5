//! A query to many shards while nothing queues: the longest of independent service times.
//!
//! A service time is S = P + J: an exponential processing time P, and a hiccup J that is a constant
//! with a small probability and else zero (`exp:MEAN+bimodal:PROB:VALUE` of `curtail-dist`). A
//! naive hedge sends each shard's query to several replicas. P belongs to the query, so its copies
//! share it, while each replica hiccups on its own: S = P + min(J₁, J₂, …), and the hiccup's
//! probability is raised to the number of copies. This is what hedging can win at best: there is no
//! load yet.
//!
//! Source: documents 000 and 001, whose services are of this form; Dean and Barroso, "The tail at
//! scale", 2013, for the maximum over shards. Exact. Cost: O(1), a percentile about 100
//! exponentials.

use crate::check;
use crate::check::ModelError;
use crate::law::Law;

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
    /// use curtail_queueing::unloaded::HiccupService;
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
