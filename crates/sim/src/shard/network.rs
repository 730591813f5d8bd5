//! The network between the balancer of a shard and its servers, and server failures.

use curtail_dist::{Distribution, seed};
use curtail_kernel::CopyId;
use rand_pcg::Pcg64Mcg;

use crate::calendar::Disturbance;
use crate::mail::Mail;

#[derive(Debug)]
pub(super) struct Network {
    pub(super) mail: Mail<Message>,
    /// The one-way latency, if messages take time.
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

    #[inline(always)]
    pub(super) fn takes_time(&self) -> bool {
        self.latency.is_some()
    }

    pub(super) fn send(&mut self, now: u64, message: Message) {
        let latency = self.latency.as_ref();
        let ns = latency.map_or(0, |latency| latency.sample(&mut self.latency_rng) as u64);
        self.mail.send(now.saturating_add(ns), message);
    }

    pub(super) fn plan_outage(&mut self, now: u64, server: u32) {
        let Some(outages) = &self.outages else { return };
        let length = outages.every.sample(&mut self.outage_rngs[server as usize]) as u64;
        self.mail.send(now.saturating_add(length.max(1)), Message::Down(server));
    }

    pub(super) fn plan_return(&mut self, now: u64, server: u32) {
        let Some(outages) = &self.outages else { return };
        let length = outages.lasts.sample(&mut self.outage_rngs[server as usize]) as u64;
        self.mail.send(now.saturating_add(length.max(1)), Message::Up(server));
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    /// A copy reaches its server.
    Deliver(CopyId),
    /// The order to stop a copy reaches its server.
    Stop(CopyId),
    /// A copy's response reaches the cell.
    Finished(CopyId),
    /// The report that a copy has stopped reaches the cell.
    Stopped(CopyId),
    /// The report that a copy has begun reaches the cell.
    Started(CopyId),
    Down(u32),
    Up(u32),
}
