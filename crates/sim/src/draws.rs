//! What a shard draws: for each query its own service time P and the jitter J of its first copy,
//! and for each further copy a jitter of its own.
//!
//! Common random numbers: nothing here depends on the policy. P and the J of the first two copies
//! come from streams in the order of arrivals; those of further copies, which few queries have and
//! each policy starts in an order of its own, from a generator named by query and copy.

use curtail_dist::{Distribution, seed};
use rand_pcg::Pcg64Mcg;

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
    /// The copies whose jitter is drawn: two, or one where no query has more.
    copies: usize,
    further: u64,
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
    pub(crate) fn new(
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
            further: stream(b"further"),
            scratch: Vec::new(),
            service_ns: Vec::new(),
            jitter_ns: [Vec::new(), Vec::new()],
        }
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
        let jitter_ns = first.iter().zip(second).map(|(&first, &second)| [first, second]);
        let all = self.service_ns.iter().zip(jitter_ns);
        drawn.clear();
        drawn.extend(all.map(|(&service_ns, jitter_ns)| Drawn { service_ns, jitter_ns }));
    }

    /// J of a further copy of a query, 2 for the third, in ns.
    #[inline(never)]
    pub(crate) fn further(&self, request: u64, copy: u32) -> u64 {
        let Some(jitter) = &self.jitter else { return 0 };
        let own = request.wrapping_mul(COPIES).wrapping_add(u64::from(copy));
        let drawn = jitter.sample(&mut seed::rng(self.further.wrapping_add(own)));
        drawn.round_ties_even() as u64
    }
}
