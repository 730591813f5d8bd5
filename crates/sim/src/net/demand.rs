//! Draws the client, the group and the work of each request.
//!
//! All draws come from their own streams, in the order of arrivals, independently of the policy.

use curtail_dist::{Distribution, seed};
use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

use crate::setup::Setup;
use crate::world::{Shared, Skew, Surge};

#[derive(Clone, Copy, Debug)]
pub(super) struct NewRequest {
    pub(super) client: u32,
    pub(super) group: u32,
    /// P.
    pub(super) work_ns: f64,
    /// The J of the first two copies.
    pub(super) jitter_ns: [f64; 2],
    /// Whether all servers of the request's group read it.
    pub(super) repairs: bool,
}

pub(super) struct Demand {
    clients: u32,
    groups: u32,
    servers: u32,
    /// The number of busy clients, and their share of the demand. Busy clients come first.
    busy: (u32, f64),
    repair: f64,
    service: Distribution,
    rng: Pcg64Mcg,
    service_rng: Pcg64Mcg,
    jitter: Option<(Distribution, [Pcg64Mcg; 2])>,
}

impl Demand {
    pub(super) fn new(setup: &Setup<'_>, shared: &Shared, shard: u32) -> Self {
        let Shared { clients, servers, .. } = *shared;
        let busy = shared.demand.map_or((clients, 1.0), |Skew { clients: share, demand }| {
            ((f64::from(clients) * share).round().clamp(1.0, f64::from(clients)) as u32, demand)
        });
        let stream = |what: &[u8]| seed::rng(setup.stream(what, shard));
        Self {
            clients,
            groups: shared.rings(),
            servers,
            busy,
            repair: shared.repair,
            service: setup.experiment.service.clone(),
            rng: stream(b"demand"),
            service_rng: stream(b"P"),
            jitter: setup.jitter().map(|of| (of.clone(), [stream(b"J1"), stream(b"J2")])),
        }
    }

    /// Raises the demand of the first clients. The rest of the demand comes equally from all
    /// clients, as before.
    pub(super) fn rise(&mut self, surge: &Surge) {
        let before = surge.before / surge.utilization;
        let share = 1.0 - before + before * f64::from(surge.clients) / f64::from(self.clients);
        self.busy = (surge.clients, share);
    }

    /// Returns the number of busy clients, or the number of all clients if they are alike.
    pub(super) fn busy(&self) -> u32 {
        self.busy.0
    }

    pub(super) fn next(&mut self) -> NewRequest {
        let (busy, share) = self.busy;
        let client = if busy == self.clients || seed::unit(&mut self.rng) < share {
            self.below(busy)
        } else {
            busy + self.below(self.clients - busy)
        };
        let group = self.below(self.servers).min(self.groups - 1);
        let repairs = self.repair > 0.0 && seed::unit(&mut self.rng) < self.repair;
        let work_ns = self.service.sample(&mut self.service_rng).max(1.0);
        let jitter =
            self.jitter.as_mut().map(|(of, rngs)| rngs.each_mut().map(|rng| of.sample(rng)));
        NewRequest { client, group, work_ns, jitter_ns: jitter.unwrap_or_default(), repairs }
    }

    /// Draws a number from 0 to n − 1.
    fn below(&mut self, n: u32) -> u32 {
        (((self.rng.next_u64() >> 32) * u64::from(n)) >> 32) as u32
    }
}
