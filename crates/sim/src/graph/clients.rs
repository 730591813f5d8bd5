//! Who sends requests: open clients by the clock, closed ones after their responses.

use curtail_dist::seed;
use rand_pcg::Pcg64Mcg;

use super::books::Ending;
use super::spec::{Clients, Graph};

#[derive(Debug)]
struct Sender {
    workflow: u32,
    /// What all its draws come from: they do not depend on other senders.
    seed: u64,
    clients: Clients,
    /// Of the times between requests.
    rng: Pcg64Mcg,
    sent: u64,
}

/// All clients of a graph.
#[derive(Debug)]
pub struct Senders {
    senders: Vec<Sender>,
}

impl Senders {
    /// Those of a graph, whose draws come from a seed.
    #[must_use]
    pub fn new(graph: &Graph, seed: u64) -> Self {
        let mut senders = Vec::new();
        for (workflow, of) in graph.workflows.iter().enumerate() {
            let first = senders.len();
            for clients in &of.clients {
                for _ in 0..clients.closed.max(1) {
                    let number = ((senders.len() - first) as u64).to_le_bytes();
                    let seed = seed::stream(seed, &[b"client", of.name.as_bytes(), &number]);
                    let rng = seed::rng(seed::stream(seed, &[b"arrivals"]));
                    let (workflow, clients) = (workflow as u32, *clients);
                    senders.push(Sender { workflow, seed, clients, rng, sent: 0 });
                }
            }
        }
        Self { senders }
    }

    /// They are numbered, from 0.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.senders.len() as u32
    }

    /// When a sender sends first.
    pub fn first(&mut self, sender: u32) -> Option<u64> {
        let of = &mut self.senders[sender as usize];
        let from = of.clients.from_ns;
        if of.clients.open.is_some() {
            return self.next_open(sender, from);
        }
        // Closed clients do not begin as one.
        let spread = of.clients.think_ns.max(100_000_000) as f64;
        let at = from + (seed::unit(&mut of.rng) * spread) as u64;
        (at < of.clients.until_ns).then_some(at)
    }

    /// The workflow of the next request, and what its draws come from.
    pub fn request(&mut self, sender: u32) -> (u32, Pcg64Mcg) {
        let of = &mut self.senders[sender as usize];
        let number = of.sent.to_le_bytes();
        of.sent += 1;
        (of.workflow, seed::rng(seed::stream(of.seed, &[b"request", &number])))
    }

    /// When an open client sends next.
    pub fn next_open(&mut self, sender: u32, now: u64) -> Option<u64> {
        let of = &mut self.senders[sender as usize];
        let rate = of.clients.open?;
        let gap_s = -(1.0 - seed::unit(&mut of.rng)).ln() / rate;
        let at = now + (gap_s * 1e9) as u64;
        (at < of.clients.until_ns).then_some(at)
    }

    /// When a closed client sends again whose request has ended.
    pub fn next_closed(&mut self, sender: u32, now: u64, ending: Ending) -> Option<u64> {
        let Clients { open, think_ns, backoff_ns, until_ns, .. } =
            self.senders[sender as usize].clients;
        let pause = if ending == Ending::Responded { think_ns } else { think_ns + backoff_ns };
        (open.is_none() && now + pause < until_ns).then_some(now + pause)
    }
}
