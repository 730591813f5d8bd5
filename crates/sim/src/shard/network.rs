//! The network between the balancer of a shard and its servers, and failures of servers.

use curtail_dist::{Distribution, seed};
use rand_pcg::Pcg64Mcg;

use super::mail::{Mail, Message};
use crate::calendar::Disturbance;

/// What comes later than it is sent.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) mail: Mail,
    /// One way, where it takes time.
    latency: Option<Distribution>,
    latency_rng: Pcg64Mcg,
    outages: Option<Disturbance>,
    outage_rngs: Vec<Pcg64Mcg>,
}

impl Network {
    pub(super) fn new(
        latency: Option<&Distribution>,
        outages: Option<&Disturbance>,
        servers: u32,
        stream: impl Fn(&[u8]) -> u64,
    ) -> Self {
        let outage =
            |server: u32| seed::rng(seed::stream(stream(b"outage"), &[&server.to_le_bytes()]));
        let mut network = Self {
            mail: Mail::new(),
            latency: latency.cloned(),
            latency_rng: seed::rng(stream(b"network")),
            outages: outages.cloned(),
            outage_rngs: (0..servers).map(outage).collect(),
        };
        (0..servers).for_each(|server| network.plan_outage(0, server));
        network
    }

    /// Does anything take time on its way?
    #[inline(always)]
    pub(super) fn takes_time(&self) -> bool {
        self.latency.is_some()
    }

    /// Sends a message, one way.
    pub(super) fn send(&mut self, now: u64, message: Message) {
        let latency = self.latency.as_ref();
        let ns = latency.map_or(0, |latency| latency.sample(&mut self.latency_rng) as u64);
        self.mail.send(now.saturating_add(ns), message);
    }

    /// A server that is up will fail.
    pub(super) fn plan_outage(&mut self, now: u64, server: u32) {
        let Some(outages) = &self.outages else { return };
        let length = outages.every.sample(&mut self.outage_rngs[server as usize]) as u64;
        self.mail.send(now.saturating_add(length.max(1)), Message::Down(server));
    }

    /// A server that has failed will return.
    pub(super) fn plan_return(&mut self, now: u64, server: u32) {
        let Some(outages) = &self.outages else { return };
        let length = outages.lasts.sample(&mut self.outage_rngs[server as usize]) as u64;
        self.mail.send(now.saturating_add(length.max(1)), Message::Up(server));
    }
}
