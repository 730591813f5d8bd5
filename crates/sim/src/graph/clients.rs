//! The clients of a graph. Open clients send independently of responses, and closed clients send
//! only after their previous request has ended.

use curtail_dist::seed;
use rand_pcg::Pcg64Mcg;

use super::books::Ending;
use super::spec::{Clients, Graph};

#[derive(Debug)]
struct Sender {
    workflow: u32,
    /// The seed of all its draws. The draws do not depend on other senders.
    seed: u64,
    clients: Clients,
    /// The generator of the times between requests.
    rng: Pcg64Mcg,
    sent: u64,
}

/// A request that a client is about to send.
#[derive(Clone, Debug)]
pub struct NewRequest {
    /// The index of its workflow.
    pub workflow: u32,
    /// The generator of its draws.
    pub rng: Pcg64Mcg,
}

/// All clients of a graph, numbered from 0.
#[derive(Debug)]
pub struct Senders {
    senders: Vec<Sender>,
}

impl Senders {
    /// Creates the clients of a graph.
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

    /// Returns the number of senders.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.senders.len() as u32
    }

    /// Returns the time of a sender's first request.
    pub fn first(&mut self, sender: u32) -> Option<u64> {
        let of = &mut self.senders[sender as usize];
        let from = of.clients.from_ns;
        if of.clients.open.is_some() {
            return self.next_open(sender, from);
        }
        // Closed clients must not all send their first request at the same time.
        let spread = of.clients.think_ns.max(100_000_000) as f64;
        let at = from + (seed::unit(&mut of.rng) * spread) as u64;
        (at < of.clients.until_ns).then_some(at)
    }

    /// Returns a sender's next request.
    pub fn request(&mut self, sender: u32) -> NewRequest {
        let of = &mut self.senders[sender as usize];
        let number = of.sent.to_le_bytes();
        of.sent += 1;
        let rng = seed::rng(seed::stream(of.seed, &[b"request", &number]));
        NewRequest { workflow: of.workflow, rng }
    }

    /// Returns the time of an open client's next request.
    pub fn next_open(&mut self, sender: u32, now: u64) -> Option<u64> {
        let of = &mut self.senders[sender as usize];
        let rate = of.clients.open?;
        let gap_s = -(1.0 - seed::unit(&mut of.rng)).ln() / rate;
        let at = now + (gap_s * 1e9) as u64;
        (at < of.clients.until_ns).then_some(at)
    }

    /// Returns the time of a closed client's next request, given the end of its last one.
    pub fn next_closed(&mut self, sender: u32, now: u64, ending: Ending) -> Option<u64> {
        let Clients { open, think_ns, backoff_ns, until_ns, .. } =
            self.senders[sender as usize].clients;
        let pause = if ending == Ending::Responded { think_ns } else { think_ns + backoff_ns };
        (open.is_none() && now + pause < until_ns).then_some(now + pause)
    }
}
