//! Draws a query's own service time and its hiccup.
//!
//! Both come from random streams ([`curtail_dist::seed`]). A stream is identified by everything
//! that its draw may depend on. With a single generator, the draws would depend on the order of
//! arrivals and on the policy. A hiccup is not a property of a query, so the stream of `J` also
//! depends on the execution: the first execution of a query on this replica, the second, and so on.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use curtail_dist::{Distribution, seed};
use rand_core::Rng as _;

use super::config::{Hiccup, LeafConfig};

/// Maximum number of queries whose executions are counted. For further queries, every execution
/// draws the same values as the first one.
const COUNTED_MAX: usize = 1 << 20;

/// The source of all draws.
#[derive(Debug)]
pub(super) struct Draws {
    /// How often each query has been executed, by a hash of its key.
    executions: Mutex<HashMap<u64, u32>>,
    service_time: Option<Distribution>,
    hiccup: Option<Hiccup>,
    stratified: bool,
    seed: u64,
    shard: u32,
    replica: u32,
}

/// The draws for a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drawn {
    /// `P`, or `None` if it is the real time.
    pub(super) own: Option<Duration>,
    /// `J`, or zero if there is no hiccup.
    pub(super) hiccup: Duration,
}

impl Draws {
    pub(super) fn new(config: &LeafConfig) -> Self {
        let LeafConfig { hiccup, stratified, seed, shard, replica, .. } = *config;
        let (executions, service_time) = (Mutex::default(), config.service_time.clone());
        Self { executions, service_time, hiccup, stratified, seed, shard, replica }
    }

    /// Returns the draws for an execution of the query with this key.
    pub(super) fn draw(&self, key: &[u8]) -> Drawn {
        let shard = self.shard.to_le_bytes();
        let own = self.service_time.as_ref().map(|time| {
            let stream = seed::stream(self.seed, &[b"P", &shard, key]);
            Duration::from_nanos(time.sample(&mut seed::rng(stream)) as u64)
        });
        let hit = |hiccup: &Hiccup| {
            let replica = self.replica.to_le_bytes();
            let stream = seed::stream(self.seed, &[b"J", &shard, key, &replica]);
            let stream = match (self.execution(key), Stratum::of(key, hiccup.probability)) {
                (0, Some(stratum)) if self.stratified => {
                    let place = [stratum.prefix, &stratum.number.to_le_bytes()].concat();
                    let stream = seed::stream(self.seed, &[b"JS", &shard, &replica, &place]);
                    return seed::rng(stream).next_u64() % stratum.size == stratum.position;
                }
                (0, _) => stream,
                (nth, _) => seed::stream(stream, &[&nth.to_le_bytes()]),
            };
            unit(seed::rng(stream).next_u64()) < hiccup.probability
        };
        let hiccup = self.hiccup.filter(hit).map(|hiccup| Duration::from_nanos(hiccup.duration_ns));
        Drawn { own, hiccup: hiccup.unwrap_or_default() }
    }

    /// Returns the number of earlier executions of this query, and counts this one.
    fn execution(&self, key: &[u8]) -> u32 {
        let hash = seed::stream(0, &[key]);
        // No code panics while it holds the lock, so the map is consistent.
        let mut executions = self.executions.lock().unwrap_or_else(PoisonError::into_inner);
        if executions.len() >= COUNTED_MAX && !executions.contains_key(&hash) {
            return 0;
        }
        let count = executions.entry(hash).or_insert(0);
        let before = *count;
        *count = before.saturating_add(1);
        before
    }
}

/// A run of consecutive queries, and the position of a query in the run. Exactly one query in the
/// run has a hiccup.
struct Stratum<'a> {
    /// The part that all keys of a run share, which is the last parameter without its number.
    prefix: &'a [u8],
    number: u64,
    position: u64,
    size: u64,
}

impl<'a> Stratum<'a> {
    /// Returns `None` if the key does not end in a number, or if hiccups are not rare.
    fn of(key: &'a [u8], probability: f64) -> Option<Self> {
        let size = (1.0 / probability).round();
        let digits = key.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (before, digits) = key.split_at(key.len() - digits);
        let at: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let parameter = before.iter().rposition(|byte| matches!(byte, b'&' | b'?'));
        let prefix = &before[parameter.map_or(0, |at| at + 1)..];
        let size = (2.0..1e9).contains(&size).then_some(size as u64)?;
        Some(Self { prefix, number: at / size, position: at % size, size })
    }
}

/// Returns a number in [0, 1) from 64 random bits. It uses all the bits that a double can hold.
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
        Draws {
            executions: Mutex::default(),
            service_time,
            hiccup,
            stratified: false,
            seed: 42,
            shard,
            replica,
        }
    }

    #[test]
    fn the_own_part_depends_on_the_query_and_the_shard_alone() {
        let (one, twin, other) = (draws(0, 0, 0.0), draws(0, 1, 0.0), draws(1, 0, 0.0));
        let own = |draws: &Draws, key: u32| draws.draw(&key.to_le_bytes()).own;
        assert!((0..100).all(|key| own(&one, key) == own(&twin, key)));
        assert!((0..100).all(|key| own(&one, key) != own(&other, key)));
        assert_ne!(own(&one, 0), own(&one, 1));
    }

    #[test]
    fn hiccups_have_their_probability_and_replicas_are_independent() {
        let (one, twin) = (draws(0, 0, 0.1), draws(0, 1, 0.1));
        let hit = |draws: &Draws, key: u32| !draws.draw(&key.to_le_bytes()).hiccup.is_zero();
        let pairs: Vec<_> = (0..20_000_u32).map(|key| (hit(&one, key), hit(&twin, key))).collect();
        let hits = pairs.iter().filter(|(one, _)| *one).count();
        let both = pairs.iter().filter(|(one, twin)| *one && *twin).count();
        // The tolerances are five standard deviations: 2000 ± 212 and 200 ± 70.
        assert!((1788..=2212).contains(&hits), "{hits}");
        assert!((130..=270).contains(&both), "{both}");
    }

    #[test]
    fn strata_have_one_hiccup_each_wherever_it_is() {
        let [one, twin] =
            [0, 1].map(|replica| Draws { stratified: true, ..draws(0, replica, 0.01) });
        let hits = |draws: &Draws, load: u32| -> Vec<u32> {
            let key = |at: u32| format!("/search?q=word{}&n={load}-{at}", at % 7);
            let hit = |at: &u32| !draws.draw(key(*at).as_bytes()).hiccup.is_zero();
            (0..5_000).filter(hit).collect()
        };
        let first = hits(&one, 0);
        let strata: Vec<u32> = first.iter().map(|at| at / 100).collect();
        assert_eq!(strata, (0..50).collect::<Vec<_>>());
        assert_ne!(first, hits(&twin, 0), "replicas apart");
        assert_ne!(first, hits(&one, 1), "loads apart");
        assert!(first.windows(3).any(|w| w[1] - w[0] != w[2] - w[1]), "at random places");
    }

    #[test]
    fn executions_of_one_query_are_independent_and_reproducible() {
        let run = || {
            let leaf = draws(0, 0, 0.1);
            (0..20_000).map(|_| leaf.draw(b"x")).collect::<Vec<_>>()
        };
        let (one, again) = (run(), run());
        assert_eq!(one, again);
        assert!(one.iter().all(|drawn| drawn.own == one[0].own));
        let hits = one.iter().filter(|drawn| !drawn.hiccup.is_zero()).count();
        assert!((1788..=2212).contains(&hits), "{hits}");
    }

    #[test]
    fn probabilities_0_and_1_are_exact() {
        assert!(draws(0, 0, 0.0).draw(b"x").hiccup.is_zero());
        assert_eq!(draws(0, 0, 1.0).draw(b"x").hiccup, Duration::from_millis(75));
    }
}
