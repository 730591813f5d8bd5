//! The queues of servers that clients share, as a fluid: differential equations, evaluated step by step.
//!
//! Source: document 002 §4.5, "Stability": queues evolve by the service rates of the servers and by how clients
//! distribute what they send. The source stops there, because a client keeps metrics over time; here these are
//! part of the state. For server s with k slots and service time S, a network latency d, and n clients:
//!
//! - q′(t) = Λ·f(t − d) − x(t), with x = min(q, k)/S: its queue, of which all but what executes waits;
//! - each response moves the averages of q, S and the response time by α, as C3's do; one client sees x/n of them;
//! - n·os: what all sent and have not heard of; f: everything to the server with the least
//!   Ψ = R̄ − 1/μ̄ + (1 + n·os + q̄)ᵇ/μ̄ (§4.2.1).
//!
//! All clients are alike, and so act in step: the worst case for herds. What follows: n·os is then the queue
//! itself, without a delay, and holds it still; without it (2C's ranking without its two choices) clients
//! learn of a queue by its responses only, and it swings. Where it is still, Ψ is the same for all servers in
//! use, so queues differ by the b-th root of the ratio of service times (Figure 4.4).
//!
//! Cost: O(steps · servers), 20 steps per d or service time, whichever is shorter. No rates: demand is
//! below what they allow.

use serde::Serialize;

use crate::check::{self, ModelError};

/// Steps in the shortest time that there is.
const STEPS: f64 = 20.0;

const MOST_STEPS: f64 = 1e8;

/// Points of a series.
const POINTS: usize = 200;

/// Clients and servers.
#[derive(Clone, Debug)]
pub struct Fluid {
    /// S of each server, in units of time.
    pub services: Vec<f64>,
    /// k: requests that a server executes at once.
    pub slots: u32,
    /// n.
    pub clients: u32,
    /// Λ over what the servers can do, below 1.
    pub utilization: f64,
    /// d, one way, in units of time.
    pub network: f64,
    /// b, 1 to 8.
    pub exponent: u32,
    /// Do clients count what they have outstanding, once for each client?
    pub compensates: bool,
    /// α: the weight of a sample, above 0 and below 1.
    pub sample_weight: f64,
}

/// The queue of a server; its range is that of the second half of the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evolution {
    /// S.
    pub service: f64,
    /// The mean.
    pub mean: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// The share of all that is sent which it gets.
    pub share: f64,
    /// The queue at equal distances in time, from the beginning on.
    pub queue: Vec<f64>,
}

/// What leaves a place during a step, and what the server says then.
#[derive(Clone, Copy, Default)]
struct Passing {
    sent: f64,
    served: f64,
    queue: f64,
}

struct Server {
    service: f64,
    queue: f64,
    /// What clients have heard: averages.
    heard: f64,
    response: f64,
    /// n·os.
    outstanding: f64,
    /// Of the last d.
    under_way: Vec<Passing>,
    evolution: Evolution,
}

impl Fluid {
    /// Evaluates it from empty queues on, for so long.
    pub fn evolve(&self, duration: f64) -> Result<Vec<Evolution>, ModelError> {
        let step = self.check(duration)?;
        let steps = (duration / step) as usize;
        let delay = ((self.network / step).round() as usize).max(1);
        let capacity: f64 = self.services.iter().map(|s| f64::from(self.slots) / s).sum();
        let sent = self.utilization * capacity * step;
        let mut servers: Vec<Server> =
            self.services.iter().map(|&service| self.server(service, delay)).collect();
        let every = steps.div_ceil(POINTS).max(1);
        for at in 0..steps {
            let best = (0..servers.len())
                .min_by(|&a, &b| self.score(&servers[a]).total_cmp(&self.score(&servers[b])));
            for (place, server) in servers.iter_mut().enumerate() {
                let share = if Some(place) == best { sent } else { 0.0 };
                self.advance(server, at % delay, share, step);
                server.keep(share, (at % every == 0, at >= steps / 2));
            }
        }
        let half = (steps - steps / 2) as f64;
        let ended = servers.into_iter().map(|Server { evolution, .. }| {
            let Evolution { mean, share, .. } = evolution;
            Evolution { mean: mean / half, share: share / (sent * half), ..evolution }
        });
        Ok(ended.collect())
    }

    /// Whether it makes sense; the length of a step.
    fn check(&self, duration: f64) -> Result<f64, ModelError> {
        let Self {
            services, slots, clients, utilization, network, exponent, sample_weight, ..
        } = self;
        if services.is_empty() {
            return Err(ModelError::NoServers);
        }
        for &service in services {
            check::positive("service time", service)?;
        }
        check::count("number of slots", *slots)?;
        check::count("number of clients", *clients)?;
        check::positive("utilization", *utilization)?;
        check::stable(*utilization)?;
        check::positive("network latency", *network)?;
        check::positive("duration", duration)?;
        let within = |is_allowed, name, value, allowed| {
            if is_allowed { Ok(()) } else { Err(ModelError::OutOfRange { name, value, allowed }) }
        };
        within((1..=8).contains(exponent), "exponent", f64::from(*exponent), "from 1 to 8")?;
        let fits = *sample_weight > 0.0 && *sample_weight < 1.0;
        within(fits, "weight of a sample", *sample_weight, "above 0 and below 1")?;
        let step = services.iter().copied().fold(*network, f64::min) / STEPS;
        let allowed = "at least the time of a step, and at most that of 100,000,000 of them: 20 to \
                       the network latency or a service time";
        within((1.0..=MOST_STEPS).contains(&(duration / step)), "duration", duration, allowed)?;
        Ok(step)
    }

    fn server(&self, service: f64, delay: usize) -> Server {
        Server {
            service,
            queue: 0.0,
            heard: 0.0,
            response: service + 2.0 * self.network,
            outstanding: 0.0,
            under_way: vec![Passing::default(); delay],
            evolution: Evolution {
                service,
                mean: 0.0,
                least: f64::INFINITY,
                most: 0.0,
                share: 0.0,
                queue: Vec::new(),
            },
        }
    }

    /// Ψ. A server's service time does not change, so its average is that.
    fn score(&self, server: &Server) -> f64 {
        let own = if self.compensates { server.outstanding } else { 0.0 };
        let expected = 1.0 + own + server.heard;
        let penalty = expected.powi(self.exponent as i32);
        server.response - server.service + penalty * server.service
    }

    /// A step: what was sent d ago arrives, and what was served d ago is heard of.
    fn advance(&self, server: &mut Server, place: usize, sent: f64, step: f64) {
        let slots = f64::from(self.slots);
        let served = (server.queue.min(slots) / server.service * step).min(server.queue);
        let now = Passing { sent, served, queue: server.queue };
        let then = std::mem::replace(&mut server.under_way[place], now);
        server.queue += then.sent - served;
        server.outstanding += sent - then.served;
        // A client hears of its part of the responses.
        let weight = 1.0 - (1.0 - self.sample_weight).powf(then.served / f64::from(self.clients));
        let took = 2.0 * self.network + server.service * (then.queue / slots).max(1.0);
        server.heard += weight * (then.queue - server.heard);
        server.response += weight * (took - server.response);
    }
}

impl Server {
    fn keep(&mut self, sent: f64, (is_point, counts): (bool, bool)) {
        let Self { queue, evolution, .. } = self;
        if is_point {
            evolution.queue.push(*queue);
        }
        if counts {
            evolution.mean += *queue;
            evolution.share += sent;
            evolution.least = evolution.least.min(*queue);
            evolution.most = evolution.most.max(*queue);
        }
    }
}
