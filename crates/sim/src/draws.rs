//! The random draws of a shard: a service time P for each query, and a jitter J for each copy.
//!
//! The draws are common random numbers, so none of them depends on the policy. P and the J of the
//! first two copies are drawn from streams in the order of arrivals. Few queries have further
//! copies, and each policy starts them in a different order, so their J comes from a generator that
//! is seeded by query and copy. If all copies of a query share their jitter, it is the J of the
//! first copy. Cost hints come from a separate stream in the order of arrivals, and are drawn only
//! if the experiment uses them.

use std::num::NonZeroU64;

use curtail_dist::{Distribution, seed};
use rand_distr::StandardNormal;
use rand_pcg::Pcg64Mcg;

use crate::experiment::JitterOf;
use crate::setup::Setup;

/// The number of generators per query. A copy beyond this number would share a generator with the
/// next query.
const COPIES: u64 = 64;

#[derive(Debug)]
pub(crate) struct Draws {
    service: Distribution,
    jitter: Option<Distribution>,
    service_rng: Pcg64Mcg,
    jitter_rngs: [Pcg64Mcg; 2],
    /// The number of jitters to draw per query. It is one if queries have only one copy or if all
    /// copies share a jitter, otherwise two.
    copies: usize,
    shared: bool,
    further: u64,
    hints: Option<Hints>,
    /// After a change, the first request with the new distributions, and the old jitter
    /// distribution.
    before: Option<(u64, Option<Distribution>)>,
    scratch: Vec<f64>,
    service_ns: Vec<u64>,
    jitter_ns: [Vec<u64>; 2],
}

/// The draws for one query: P, and the J of its first two copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    pub(crate) service_ns: u64,
    pub(crate) jitter_ns: [u64; 2],
}

#[derive(Debug)]
struct Hints {
    /// The standard deviation of the logarithm of a guess.
    error: f64,
    rng: Pcg64Mcg,
}

impl Hints {
    /// Returns a guess of a cost, in ns. A query without work still costs 1 ns.
    fn of(&mut self, service_ns: u64) -> NonZeroU64 {
        let z: f64 = rand_distr::Distribution::sample(&StandardNormal, &mut self.rng);
        let guess = service_ns as f64 * (self.error * z).exp();
        NonZeroU64::new(guess.round_ties_even() as u64).unwrap_or(NonZeroU64::MIN)
    }
}

impl Draws {
    pub(crate) fn new(setup: &Setup<'_>, index: u32) -> Self {
        let shared = setup.experiment.jitter_of == JitterOf::Query;
        let copies = if shared { 1 } else { setup.copies() };
        let hints = |error| Hints { error, rng: seed::rng(setup.stream(b"hint", index)) };
        Self {
            shared,
            hints: setup.experiment.world.hint_error().map(hints),
            ..Self::of(&setup.experiment.service, setup.jitter(), copies, |what| {
                setup.stream(what, index)
            })
        }
    }

    /// Draws from the given distributions, with jitter for the first `copies` copies of a query.
    pub(crate) fn of(
        service: &Distribution,
        jitter: Option<&Distribution>,
        copies: usize,
        stream: impl Fn(&[u8]) -> u64,
    ) -> Self {
        Self {
            service: service.clone(),
            jitter: jitter.cloned(),
            service_rng: seed::rng(stream(b"P")),
            jitter_rngs: [&b"J1"[..], b"J2"].map(|name| seed::rng(stream(name))),
            copies,
            shared: false,
            further: stream(b"further"),
            hints: None,
            before: None,
            scratch: Vec::new(),
            service_ns: Vec::new(),
            jitter_ns: [Vec::new(), Vec::new()],
        }
    }

    /// Switches to other distributions for request `at` and all later ones. The streams continue.
    pub(crate) fn change(
        &mut self,
        service: &Distribution,
        jitter: Option<&Distribution>,
        at: u64,
    ) {
        self.service = service.clone();
        self.before = Some((at, std::mem::replace(&mut self.jitter, jitter.cloned())));
        // If there is no jitter after the change, `block` must not reuse the old values.
        self.jitter_ns.iter_mut().for_each(Vec::clear);
    }

    pub(crate) fn block(&mut self, count: usize, drawn: &mut Vec<Drawn>) {
        self.scratch.resize(count, 0.0);
        self.service_ns.resize(count, 0);
        self.jitter_ns.iter_mut().for_each(|ns| ns.resize(count, 0));
        self.service.fill_ns(&mut self.service_rng, &mut self.scratch, &mut self.service_ns);
        if let Some(jitter) = &self.jitter {
            let streams = self.jitter_rngs.iter_mut().zip(&mut self.jitter_ns);
            for (rng, ns) in streams.take(self.copies) {
                jitter.fill_ns(rng, &mut self.scratch, ns);
            }
        }
        let [first, second] = &self.jitter_ns;
        let second = if self.shared { first } else { second };
        let jitter_ns = first.iter().zip(second).map(|(&first, &second)| [first, second]);
        let all = self.service_ns.iter().zip(jitter_ns);
        drawn.clear();
        drawn.extend(all.map(|(&service_ns, jitter_ns)| Drawn { service_ns, jitter_ns }));
    }

    /// Guesses the cost of each query in a block. Does nothing if the experiment has no hints. The
    /// guesses are not part of [`Drawn`], because few experiments use them.
    pub(crate) fn guess(&mut self, drawn: &[Drawn], guesses: &mut Vec<NonZeroU64>) {
        let Some(hints) = &mut self.hints else { return };
        guesses.clear();
        guesses.extend(drawn.iter().map(|drawn| hints.of(drawn.service_ns)));
    }

    /// Returns the jitter, in ns, of a further copy of a query. `copy` is 2 for the third copy.
    /// `first_ns` is the jitter of the query's first copy.
    #[inline(never)]
    pub(crate) fn further(&self, request: u64, copy: u32, first_ns: u64) -> u64 {
        let jitter = match &self.before {
            Some((at, before)) if request < *at => before,
            _ => &self.jitter,
        };
        let Some(jitter) = jitter else { return 0 };
        if self.shared {
            return first_ns;
        }
        let own = request.wrapping_mul(COPIES).wrapping_add(u64::from(copy));
        let drawn = jitter.sample(&mut seed::rng(self.further.wrapping_add(own)));
        drawn.round_ties_even() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Candidate, Parameters};

    /// Returns the draws of a shard for a policy.
    fn draws(policy: &str, hint_error: Option<f64>, jitter_of: JitterOf) -> Draws {
        let jitter = Some("exp:3".to_owned());
        let parameters = Parameters { jitter, jitter_of, hint_error, ..Parameters::default() };
        let experiment = parameters.experiment().expect("an experiment");
        let candidate = Candidate::parse(policy, 1).expect("a policy");
        Draws::new(&Setup { experiment: &experiment, candidate, replication: 0 }, 0)
    }

    /// Returns draws and guesses for a policy and a cost-hint error.
    fn hinted(policy: &str, hint_error: Option<f64>) -> (Vec<Drawn>, Vec<u64>) {
        let mut draws = draws(policy, hint_error, JitterOf::Copy);
        let (mut drawn, mut guesses) = (Vec::new(), Vec::new());
        let (mut all, mut hints) = (Vec::new(), Vec::new());
        for _ in 0..40 {
            draws.block(256, &mut drawn);
            draws.guess(&drawn, &mut guesses);
            all.extend_from_slice(&drawn);
            hints.extend(guesses.iter().map(|guess| guess.get()));
        }
        (all, hints)
    }

    #[test]
    fn a_hint_without_an_error_is_the_service_time() {
        let (drawn, hints) = hinted("naive", Some(0.0));
        let times: Vec<u64> = drawn.iter().map(|drawn| drawn.service_ns.max(1)).collect();
        assert_eq!(hints, times);
        assert!(hinted("naive", None).1.is_empty());
    }

    #[test]
    fn hints_have_the_given_error_and_change_nothing_else() {
        let (drawn, hints) = hinted("naive", Some(0.5));
        let pairs = drawn.iter().zip(&hints);
        let logs: Vec<f64> =
            pairs.map(|(drawn, &hint)| (hint as f64 / drawn.service_ns as f64).ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / count;
        // Each bound is six standard errors, so the test fails by chance for one seed in 10⁸.
        assert!(mean.abs() < 6.0 * 0.5 / count.sqrt(), "{mean}");
        assert!((variance.sqrt() / 0.5 - 1.0).abs() < 6.0 / (2.0 * count).sqrt(), "{variance}");
        for (drawn, without) in drawn.iter().zip(&hinted("naive", None).0) {
            assert_eq!(drawn.service_ns, without.service_ns);
            assert_eq!(drawn.jitter_ns, without.jitter_ns);
        }
        assert_eq!(hints, hinted("psq", Some(0.5)).1, "whatever the policy");
    }

    #[test]
    fn the_jitter_of_a_query_is_that_of_its_first_copy() {
        let [(of_copy, own), (of_query, shared)] =
            [JitterOf::Copy, JitterOf::Query].map(|jitter_of| {
                let (mut draws, mut drawn) = (draws("naive", None, jitter_of), Vec::new());
                draws.block(100, &mut drawn);
                (draws, drawn)
            });
        for (request, (own, shared)) in own.iter().zip(&shared).enumerate() {
            let first = own.jitter_ns[0];
            assert_eq!((shared.service_ns, shared.jitter_ns), (own.service_ns, [first; 2]));
            assert_ne!(own.jitter_ns[1], first);
            for copy in 2..5 {
                assert_eq!(of_query.further(request as u64, copy, first), first);
                assert_ne!(of_copy.further(request as u64, copy, first), first);
            }
        }
    }
}
