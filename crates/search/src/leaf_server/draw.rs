//! What is drawn for a query: its own service time and its hiccup.
//!
//! Both come from streams named by what they may depend on ([`curtail_dist::seed`]), not from one
//! generator: the order of arrivals and the policy then have no say in them.

use std::time::Duration;

use curtail_dist::{Distribution, seed};
use rand_core::Rng as _;

use super::config::{Hiccup, LeafConfig};

/// Where the draws come from.
#[derive(Debug)]
pub(super) struct Draws {
    service_time: Option<Distribution>,
    hiccup: Option<Hiccup>,
    seed: u64,
    shard: u32,
    replica: u32,
}

/// What was drawn for a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drawn {
    /// `P`; none where the real time is it.
    pub(super) own: Option<Duration>,
    /// `J`; zero for no hiccup.
    pub(super) hiccup: Duration,
}

impl Draws {
    pub(super) fn new(config: &LeafConfig) -> Self {
        let LeafConfig { hiccup, seed, shard, replica, .. } = *config;
        Self { service_time: config.service_time.clone(), hiccup, seed, shard, replica }
    }

    pub(super) fn stretches(&self) -> bool {
        self.service_time.is_some() || self.hiccup.is_some()
    }

    /// The draws for the query with this key.
    pub(super) fn draw(&self, key: &[u8]) -> Drawn {
        let shard = self.shard.to_le_bytes();
        let own = self.service_time.as_ref().map(|time| {
            let stream = seed::stream(self.seed, &[b"P", &shard, key]);
            Duration::from_nanos(time.sample(&mut seed::rng(stream)) as u64)
        });
        let hit = |hiccup: &Hiccup| {
            let replica = self.replica.to_le_bytes();
            let stream = seed::stream(self.seed, &[b"J", &shard, key, &replica]);
            unit(seed::rng(stream).next_u64()) < hiccup.probability
        };
        let hiccup = self.hiccup.filter(hit).map(|hiccup| Duration::from_nanos(hiccup.duration_ns));
        Drawn { own, hiccup: hiccup.unwrap_or_default() }
    }
}

/// A number in [0, 1) from 64 random bits: as many of them as it can hold.
fn unit(bits: u64) -> f64 {
    const STEPS: f64 = (1_u64 << 53) as f64;
    (bits >> 11) as f64 / STEPS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(shard: u32, replica: u32, probability: f64) -> Draws {
        let spec = "exp:5ms".parse::<curtail_dist::Spec>().expect("a distribution");
        let hiccup = Some(Hiccup { probability, duration_ns: 75_000_000 });
        let service_time = Some(spec.resolve(1e6).expect("a distribution"));
        Draws { service_time, hiccup, seed: 42, shard, replica }
    }

    #[test]
    fn the_own_part_is_of_the_query_and_the_shard_alone() {
        let (one, twin, other) = (draws(0, 0, 0.0), draws(0, 1, 0.0), draws(1, 0, 0.0));
        let own = |draws: &Draws, key: u32| draws.draw(&key.to_le_bytes()).own;
        assert!((0..100).all(|key| own(&one, key) == own(&twin, key)));
        assert!((0..100).all(|key| own(&one, key) != own(&other, key)));
        assert_ne!(own(&one, 0), own(&one, 1));
    }

    #[test]
    fn hiccups_hit_as_often_as_they_should_and_replicas_apart() {
        let (one, twin) = (draws(0, 0, 0.1), draws(0, 1, 0.1));
        let hit = |draws: &Draws, key: u32| !draws.draw(&key.to_le_bytes()).hiccup.is_zero();
        let keys = 0..20_000_u32;
        let hits = keys.clone().filter(|&key| hit(&one, key)).count();
        let both = keys.filter(|&key| hit(&one, key) && hit(&twin, key)).count();
        // Five standard deviations: 2000 ± 212 and 200 ± 70.
        assert!((1788..=2212).contains(&hits), "{hits}");
        assert!((130..=270).contains(&both), "{both}");
    }

    #[test]
    fn probabilities_0_and_1_are_exact() {
        assert!(draws(0, 0, 0.0).draw(b"x").hiccup.is_zero());
        assert_eq!(draws(0, 0, 1.0).draw(b"x").hiccup, Duration::from_millis(75));
    }
}
