//! Requests and their times: with constant sizes, or with the sizes and gaps of Facebook's pools.
//!
//! Source: Atikoglu et al., "Workload analysis of a large-scale key-value store", SIGMETRICS 2012.
//! Published values used here: for ETC, 30 GETs per update, the sizes of keys (generalized extreme
//! values) and of values (generalized Pareto), and the gaps between requests (generalized Pareto);
//! for VAR, the facts that updates dominate and that 90 % of the keys have 31 bytes. Our own
//! choices: for VAR and APP, the share of updates, the sizes of values (most are below 500 bytes,
//! and no law is published), the keys of APP, and the gaps of ETC; for all pools, the popularity
//! (Zipf, 0.99) and the maximum of 8 KiB per value.

use std::sync::Arc;

use curtail_dist::seed::{rng, unit};
use curtail_load::Arrivals;
use rand_distr::{Distribution as _, Zipf};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

const VALUE_BYTES_MAX: f64 = 8192.0;
const REQUESTS: usize = 100_000;
const GAPS: usize = 100_000;
const ZIPF: f64 = 0.99;

/// The sizes and gaps of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pool {
    /// One size, Poisson arrivals
    #[default]
    Constant,
    /// General purpose
    Etc,
    /// Metadata of one application
    App,
    /// Mostly updates
    Var,
}

/// The requests of a load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Traffic {
    #[serde(default)]
    pub(crate) pool: Pool,
    pub(crate) keys: usize,
    /// The share of updates in constant traffic.
    #[serde(default)]
    pub(crate) updates: f64,
    /// The size of a value in constant traffic, in bytes.
    pub(crate) value: usize,
}

impl Traffic {
    fn updates(&self) -> f64 {
        match self.pool {
            Pool::Constant => self.updates,
            Pool::Etc => 1.0 / 31.0,
            Pool::App => 0.1,
            Pool::Var => 0.8,
        }
    }

    fn key_bytes(&self, random: &mut Pcg64Mcg) -> usize {
        match self.pool {
            Pool::Etc => {
                extreme(unit(random), 30.7984, 8.20449, 0.078688).clamp(8.0, 250.0) as usize
            }
            _ => 31,
        }
    }

    fn value_bytes(&self, random: &mut Pcg64Mcg) -> usize {
        let size = match self.pool {
            Pool::Constant => return self.value,
            Pool::Etc => pareto(unit(random), 214.476, 0.348238),
            Pool::App => 150.0 + 300.0 * unit(random),
            Pool::Var => 50.0 + 100.0 * unit(random),
        };
        size.clamp(1.0, VALUE_BYTES_MAX) as usize
    }

    /// Returns each key with the size of its value.
    fn items(&self) -> Vec<(String, usize)> {
        let mut random = rng(1);
        let item = |number| {
            let width = self.key_bytes(&mut random);
            (format!("{number:0width$}"), self.value_bytes(&mut random))
        };
        (0..self.keys).map(item).collect()
    }

    /// Returns the sizes of files, one per key.
    pub(crate) fn files(&self) -> Vec<usize> {
        self.items().into_iter().map(|(_, size)| size).collect()
    }

    /// Returns requests for files, drawn by popularity.
    pub(crate) fn paths(&self, seed: u64) -> Vec<String> {
        self.drawn(seed).map(|(file, _)| format!("/{file}")).collect()
    }

    /// Returns the commands that fill a cache.
    pub(crate) fn fill(&self) -> Vec<String> {
        self.items().iter().map(|(key, bytes)| update(key, *bytes)).collect()
    }

    /// Returns memcached commands, drawn by popularity.
    pub(crate) fn commands(&self, seed: u64) -> Vec<String> {
        let (items, updates) = (self.items(), self.updates());
        let command = |(at, share): (usize, f64)| {
            let (key, bytes) = &items[at];
            if share < updates { update(key, *bytes) } else { format!("get {key}") }
        };
        self.drawn(seed).map(command).collect()
    }

    fn drawn(&self, seed: u64) -> impl Iterator<Item = (usize, f64)> {
        let mut random = rng(seed);
        let popular = Zipf::new(self.keys as f64, ZIPF).expect("there are keys");
        // The rank of a key also serves as its number, because sizes do not depend on the number.
        (0..REQUESTS).map(move |_| (popular.sample(&mut random) as usize - 1, unit(&mut random)))
    }

    /// Returns the arrival process, scaled to any rate.
    pub(crate) fn arrivals(&self, seed: u64) -> Arrivals {
        if self.pool == Pool::Constant {
            return Arrivals::Poisson;
        }
        let mut random = rng(seed);
        let gaps: Vec<f64> =
            (0..GAPS).map(|_| pareto(unit(&mut random), 16.0292, 0.154971)).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let gaps: Arc<[f64]> = gaps.iter().map(|gap| gap / mean).collect();
        Arrivals::Trace { path: "etc".into(), gaps, mean_ns: None }
    }
}

fn update(key: &str, bytes: usize) -> String {
    format!("set {key} {} 0", "v".repeat(bytes))
}

/// Returns the quantile of the generalized Pareto distribution that starts at 0.
fn pareto(share: f64, scale: f64, shape: f64) -> f64 {
    scale / shape * ((1.0 - share).powf(-shape) - 1.0)
}

/// Returns the quantile of the generalized extreme value distribution.
fn extreme(share: f64, location: f64, scale: f64, shape: f64) -> f64 {
    location + scale / shape * ((-share.max(f64::MIN_POSITIVE).ln()).powf(-shape) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(pool: Pool) -> Traffic {
        Traffic { pool, keys: 5_000, updates: 0.25, value: 100 }
    }

    #[test]
    fn sizes_and_shares_are_those_of_the_pool() {
        for (pool, updates, mean) in [
            (Pool::Constant, 0.25, 100.0),
            (Pool::Etc, 0.032, 320.0),
            (Pool::Var, 0.8, 100.0),
            (Pool::App, 0.1, 300.0),
        ] {
            let traffic = traffic(pool);
            let commands = traffic.commands(7);
            let sets = commands.iter().filter(|command| command.starts_with("set ")).count();
            assert!((sets as f64 / commands.len() as f64 - updates).abs() < 0.01, "{pool:?}");
            let files = traffic.files();
            let found = files.iter().sum::<usize>() as f64 / files.len() as f64;
            assert!((found / mean - 1.0).abs() < 0.1, "{pool:?}: {found}");
        }
    }

    #[test]
    fn gaps_are_scaled_to_a_mean_of_one_and_vary_more_than_poisson() {
        let Arrivals::Trace { gaps, .. } = traffic(Pool::Etc).arrivals(3) else {
            panic!("a trace")
        };
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 1e-9 && square > 2.2, "{square}");
    }

    #[test]
    fn medians_match_the_formulas_of_the_distributions() {
        assert!((pareto(0.5, 214.476, 0.348238) - 168.1).abs() < 0.5);
        assert!((extreme(0.5, 30.7984, 8.20449, 0.078688) - 33.85).abs() < 0.05);
    }
}
