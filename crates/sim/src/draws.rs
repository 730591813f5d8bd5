//! What a shard draws: for each query its own service time P and the jitter J of its first copy,
//! and for each further copy a jitter of its own.
//!
//! Common random numbers: nothing here depends on the policy. P and the J of the first two copies
//! come from streams in the order of arrivals; those of further copies, which few queries have and
//! each policy starts in an order of its own, from a generator named by query and copy. Where all
//! copies of a query share their jitter, that is the J of its first copy.

use curtail_dist::{Distribution, seed};
use rand_pcg::Pcg64Mcg;

use crate::experiment::{JitterOf, Setup};

/// How many copies of a query have generators of their own; a further one would share those of the
/// next query.
const COPIES: u64 = 64;

/// The draws of one shard.
#[derive(Debug)]
pub(crate) struct Draws {
    service: Distribution,
    /// None where there is none.
    jitter: Option<Distribution>,
    service_rng: Pcg64Mcg,
    jitter_rngs: [Pcg64Mcg; 2],
    /// The copies whose jitter is drawn: two, or one where no query has more, or where all copies
    /// share one.
    copies: usize,
    shared: bool,
    further: u64,
    /// The first request that meets other distributions, and the jitter of those before.
    before: Option<(u64, Option<Distribution>)>,
    scratch: Vec<f64>,
    service_ns: Vec<u64>,
    jitter_ns: [Vec<u64>; 2],
}

/// What is drawn for a query: P, and the J of its first two copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    pub(crate) service_ns: u64,
    pub(crate) jitter_ns: [u64; 2],
}

impl Draws {
    /// Those of the shard `index`.
    pub(crate) fn new(setup: &Setup<'_>, index: u32) -> Self {
        let shared = setup.experiment.jitter_of == JitterOf::Query;
        let copies = if shared { 1 } else { setup.copies() };
        Self {
            shared,
            ..Self::of(&setup.experiment.service, setup.jitter(), copies, |what| {
                setup.stream(what, index)
            })
        }
    }

    /// Draws from these, with jitter for so many copies of a query.
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
            before: None,
            scratch: Vec::new(),
            service_ns: Vec::new(),
            jitter_ns: [Vec::new(), Vec::new()],
        }
    }

    /// The request `at` and those behind it draw from other distributions, and the streams go on.
    pub(crate) fn change(
        &mut self,
        service: &Distribution,
        jitter: Option<&Distribution>,
        at: u64,
    ) {
        self.service = service.clone();
        self.before = Some((at, std::mem::replace(&mut self.jitter, jitter.cloned())));
        // Where there is none any more, none is left over.
        self.jitter_ns.iter_mut().for_each(Vec::clear);
    }

    /// Draws for the next `count` arrivals.
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

    /// J of a further copy of a query, 2 for the third, in ns; `first_ns` is that of its first one.
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

    /// The draws of a shard, by the jitter's owner, for a policy with second copies.
    fn drawn(jitter_of: JitterOf) -> (Draws, Vec<Drawn>) {
        let jitter = Some("exp:3".to_owned());
        let parameters = Parameters { jitter, jitter_of, ..Parameters::default() };
        let experiment = parameters.experiment().expect("an experiment");
        let candidate = Candidate::parse("naive", 1).expect("a policy");
        let setup = Setup { experiment: &experiment, candidate, replication: 0 };
        let (mut draws, mut drawn) = (Draws::new(&setup, 0), Vec::new());
        draws.block(100, &mut drawn);
        (draws, drawn)
    }

    #[test]
    fn the_jitter_of_a_query_is_that_of_its_first_copy() {
        let (of_copy, own) = drawn(JitterOf::Copy);
        let (of_query, shared) = drawn(JitterOf::Query);
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
