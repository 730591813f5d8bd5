//! A fluid model of the queues at servers that clients share. Its differential equations are
//! evaluated step by step.
//!
//! Source: document 002 §4.5, "Stability": queues change with the service rates of the servers and
//! with how clients distribute their requests. The source does not go further, because a client's
//! metrics depend on the past. This module includes these metrics in the state. For server s with k
//! slots and service time S, network latency d, and n clients:
//!
//! - q′(t) = Λ·f(t − d) − x(t), with x = min(q, k)/S. q is the queue, including the requests in
//!   service.
//! - Each response updates the averages of q, S and the response time with weight α, as in C3. One
//!   client receives x/n of the responses.
//! - n·os is the number of requests for which clients still await a response. f sends everything to
//!   the server with the least Ψ = R̄ − 1/μ̄ + (1 + n·os + q̄)ᵇ/μ̄ (§4.2.1).
//!
//! All clients are alike and therefore act in unison, which is the worst case for herd behavior.
//! Under this assumption, n·os equals the queue without any delay, which stabilizes the queue.
//! Without n·os (this is 2C's ranking without its two choices), clients learn about a queue only
//! through responses, so the queue oscillates. In a stable state, Ψ is equal for all servers in
//! use, so the ratio of two queues is the b-th root of the ratio of their service times (Figure
//! 4.4).
//!
//! Cost: O(steps · servers), with 20 steps per d or service time, whichever is shorter. Rate limits
//! are not modeled, because the demand is below them.

use serde::Serialize;

use crate::check::{self, ModelError};

/// The number of steps in the shortest time constant.
const STEPS: f64 = 20.0;

const MOST_STEPS: f64 = 1e8;

/// The maximum number of points in a series.
const POINTS: usize = 200;

/// The parameters of clients and servers.
#[derive(Clone, Debug)]
pub struct Fluid {
    /// S of each server, in units of time; above 0.
    pub services: Vec<f64>,
    /// k: the number of requests that a server executes at the same time.
    pub slots: u32,
    /// n: the number of clients.
    pub clients: u32,
    /// Λ divided by the capacity of the servers, below 1.
    pub utilization: f64,
    /// d: the network latency in one direction, in units of time.
    pub network: f64,
    /// b: the exponent of the queue in the score, 1 to 8.
    pub exponent: u32,
    /// Whether the score includes the clients' outstanding requests (n·os).
    pub compensates: bool,
    /// α: the weight of a sample in the averages, above 0 and below 1.
    pub sample_weight: f64,
}

/// The queue of a server. `mean`, `least`, `most` and `share` refer to the second half of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evolution {
    /// The service time S, in units of time.
    pub service: f64,
    /// The mean queue.
    pub mean: f64,
    /// The shortest queue.
    pub least: f64,
    /// The longest queue.
    pub most: f64,
    /// The share of all requests that clients send to the server.
    pub share: f64,
    /// The queue at equal time intervals, beginning at the start.
    pub queue: Vec<f64>,
}

/// The amounts that leave the clients and the server in one step, and the queue that the server
/// reports.
#[derive(Clone, Copy, Default)]
struct Passing {
    sent: f64,
    served: f64,
    queue: f64,
}

struct Server {
    service: f64,
    queue: f64,
    /// The clients' averages of the reported queue and of the response time.
    reported: f64,
    response: f64,
    /// n·os: the requests in flight.
    outstanding: f64,
    /// A ring buffer with the steps of the last period of length d.
    under_way: Vec<Passing>,
    evolution: Evolution,
}

impl Fluid {
    /// Evaluates the model for `duration`, starting from empty queues.
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
                if at % every == 0 {
                    server.evolution.queue.push(server.queue);
                }
                if at >= steps / 2 {
                    server.count(share);
                }
            }
        }
        let half = (steps - steps / 2) as f64;
        let ended = servers.into_iter().map(|Server { evolution, .. }| {
            let Evolution { mean, share, .. } = evolution;
            Evolution { mean: mean / half, share: share / (sent * half), ..evolution }
        });
        Ok(ended.collect())
    }

    /// Validates the parameters and returns the length of a step.
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
        let allowed = "from 1 to 100,000,000 steps, where 20 steps are the shortest of the \
                       network latency and the service times";
        within((1.0..=MOST_STEPS).contains(&(duration / step)), "duration", duration, allowed)?;
        Ok(step)
    }

    fn server(&self, service: f64, delay: usize) -> Server {
        Server {
            service,
            queue: 0.0,
            reported: 0.0,
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

    /// Returns Ψ. The average of the service time is the service time itself, because it does not
    /// change.
    fn score(&self, server: &Server) -> f64 {
        let own = if self.compensates { server.outstanding } else { 0.0 };
        let expected = 1.0 + own + server.reported;
        let penalty = expected.powi(self.exponent as i32);
        server.response - server.service + penalty * server.service
    }

    /// Advances a server by one step. Requests sent d ago arrive, and responses sent d ago reach
    /// the clients.
    fn advance(&self, server: &mut Server, place: usize, sent: f64, step: f64) {
        let slots = f64::from(self.slots);
        let served = (server.queue.min(slots) / server.service * step).min(server.queue);
        let now = Passing { sent, served, queue: server.queue };
        let then = std::mem::replace(&mut server.under_way[place], now);
        server.queue += then.sent - served;
        server.outstanding += sent - then.served;
        // Each client receives only its share of the responses.
        let weight = 1.0 - (1.0 - self.sample_weight).powf(then.served / f64::from(self.clients));
        let took = 2.0 * self.network + server.service * (then.queue / slots).max(1.0);
        server.reported += weight * (then.queue - server.reported);
        server.response += weight * (took - server.response);
    }
}

impl Server {
    fn count(&mut self, sent: f64) {
        let Self { queue, evolution, .. } = self;
        evolution.mean += *queue;
        evolution.share += sent;
        evolution.least = evolution.least.min(*queue);
        evolution.most = evolution.most.max(*queue);
    }
}
