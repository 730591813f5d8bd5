//! The worlds that experiments simulate. Each world contains only what it supports.

use curtail_dist::Distribution;
use curtail_kernel::Tuning;

use crate::calendar::{Disturbance, Slowdown};

/// A checked world.
#[derive(Clone, Debug)]
pub enum World {
    /// Shards, each with its own servers. They share nothing but arrivals.
    Shards(Shards),
    /// Servers that clients share.
    Shared(Shared),
}

/// Shards with servers of their own. Every request goes to all of them.
#[derive(Clone, Debug)]
pub struct Shards {
    /// The number of shards.
    pub count: u32,
    /// The speed of each replica of a shard.
    pub speeds: Vec<f64>,
    /// Error of cost hints: the standard deviation of their logarithm. `None` without hints.
    pub hint_error: Option<f64>,
    /// The slow intervals of each replica.
    pub slowdown: Option<Slowdown>,
    /// Failures of each replica.
    pub outages: Option<Disturbance>,
    /// The change during the run.
    pub change: Option<Change>,
}

/// A change of shards that takes effect at a given request.
#[derive(Clone, Debug)]
pub struct Change {
    /// The first request after the change, counted from 0.
    pub at: u64,
    /// The changes, as the user wrote them.
    pub texts: Vec<String>,
    /// P.
    pub service: Distribution,
    /// J. `None` if it is always zero.
    pub jitter: Option<Distribution>,
    /// The speed of each replica of a shard.
    pub speeds: Vec<f64>,
}

/// Servers that clients share. Each client has its own cell.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The number of servers.
    pub servers: u32,
    /// The number of clients.
    pub clients: u32,
    /// The number of slots of a server in the clients' configuration. `None` stands for the actual
    /// number.
    pub client_slots: Option<u32>,
    /// The number of servers per group. Groups are rings of neighbors.
    pub replicas: u32,
    /// The speed of the servers.
    pub speed: Speed,
    /// The clients that account for most of the demand. `None` if all clients are alike.
    pub demand: Option<Skew>,
    /// The clients whose demand rises at some time.
    pub surge: Option<Surge>,
    /// The speed of the first server before and after a certain time.
    pub turn: Option<Turn>,
    /// The share of requests that are served by all servers of their group.
    pub repair: f64,
    /// The parameters of adaptive policies.
    pub tuning: Tuning,
    /// The stages that copies pass through after the server's own stage: first those of servers,
    /// then those of clients.
    pub hops: Vec<Hop>,
    /// The latency of responses, including noise. `None` if it is equal to the network latency.
    pub noise: Option<Distribution>,
    /// Interval, in ns, at which a low-priority job can be interrupted, counted from the time at
    /// which it began to run. The value 0 means that it can be interrupted at any time.
    pub chunk_ns: u64,
    /// How the load of the servers is reported. `None` if it is not.
    pub load: Option<LoadWindows>,
}

/// The speed of servers that clients share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// The speed never changes.
    Constant(f64),
    /// Every `period_ns`, each server draws 1 or `factor` with equal probability.
    Changing {
        /// D.
        factor: f64,
        /// T, in ns.
        period_ns: u64,
    },
}

/// The windows in which the load of servers is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadWindows {
    /// The length of a window, in ns.
    pub length_ns: u64,
    /// Whether to report the queue of the first server for each window.
    pub series: bool,
}

/// A further stage on the path of copies.
#[derive(Clone, Debug)]
pub struct Hop {
    /// The name of the stage in reports.
    pub name: String,
    /// Whether each client, rather than each server, has such a stage.
    pub at_client: bool,
    /// Whether it supports priorities and purges. A legacy layer does not.
    pub prioritizes: bool,
    /// Work per request. The work is the same for both copies of a request.
    pub work: Distribution,
}

/// The first server has a different speed before a certain time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// The time, in ns.
    pub at_ns: u64,
    /// The speed before that time. It is 0 if the server is down, which its clients can see.
    pub before: f64,
    /// The speed after that time.
    pub after: f64,
}

/// A share of the clients accounts for a share of the demand. The other clients account for the
/// rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skew {
    /// The share of the clients, counted from the first one.
    pub clients: f64,
    /// The share of the demand.
    pub demand: f64,
}

/// A rise in the demand of some clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Surge {
    /// The first request after the rise, counted from 0.
    pub at: u64,
    /// The rise, as the user wrote it.
    pub text: String,
    /// The number of clients whose demand rises, counted from the first one.
    pub clients: u32,
    /// Utilization before the rise.
    pub before: f64,
    /// The utilization after the rise.
    pub utilization: f64,
}

impl World {
    /// Returns the number of shards. Servers that clients share form a single one.
    pub fn shards(&self) -> u32 {
        match self {
            Self::Shards(shards) => shards.count,
            Self::Shared(_) => 1,
        }
    }

    /// Returns the number of servers per shard.
    pub fn servers(&self) -> u32 {
        match self {
            Self::Shards(shards) => shards.speeds.len() as u32,
            Self::Shared(shared) => shared.servers,
        }
    }

    /// Returns the sum of the mean speeds of a shard's servers.
    pub(crate) fn speed(&self) -> f64 {
        match self {
            Self::Shards(shards) => shards.speeds.iter().sum(),
            Self::Shared(Shared { speed, servers, .. }) => {
                let mean = match speed {
                    Speed::Constant(speed) => *speed,
                    Speed::Changing { factor, .. } => f64::midpoint(1.0, *factor),
                };
                std::iter::repeat_n(mean, *servers as usize).sum()
            }
        }
    }

    fn own(&self) -> Option<&Shards> {
        if let Self::Shards(shards) = self { Some(shards) } else { None }
    }

    fn shared(&self) -> Option<&Shared> {
        if let Self::Shared(shared) = self { Some(shared) } else { None }
    }

    /// Returns the number of clients per shard.
    pub(crate) fn clients(&self) -> u32 {
        self.shared().map_or(1, |shared| shared.clients)
    }

    /// Returns the parameters of adaptive policies.
    pub(crate) fn tuning(&self) -> Tuning {
        self.shared().map_or_else(Tuning::default, |shared| shared.tuning)
    }

    /// Returns the error of cost hints. `None` without hints.
    pub fn hint_error(&self) -> Option<f64> {
        self.own()?.hint_error
    }

    /// Returns the failures of each server.
    pub(crate) fn outages(&self) -> Option<&Disturbance> {
        self.own()?.outages.as_ref()
    }

    /// Whether servers are sometimes slower or faster than their speed, or down.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.own().is_some_and(|own| own.slowdown.is_some() || own.outages.is_some())
    }

    /// Returns the first request after the change during the run, counted from 0.
    pub fn change_at(&self) -> Option<u64> {
        match self {
            Self::Shards(shards) => shards.change.as_ref().map(|change| change.at),
            Self::Shared(shared) => shared.surge.as_ref().map(|surge| surge.at),
        }
    }

    /// Returns the changes during the run, as the user wrote them.
    pub fn change_texts(&self) -> &[String] {
        match self {
            Self::Shards(shards) => shards.change.as_ref().map_or(&[], |change| &change.texts),
            Self::Shared(shared) => {
                shared.surge.as_ref().map_or(&[], |surge| std::slice::from_ref(&surge.text))
            }
        }
    }

    /// Returns the world without its change.
    pub(crate) fn unchanged(&self) -> Self {
        match self.clone() {
            Self::Shards(shards) => Self::Shards(Shards { change: None, ..shards }),
            Self::Shared(shared) => Self::Shared(Shared { surge: None, ..shared }),
        }
    }

    /// Returns a part of the world with at most this number of shards.
    pub(crate) fn part(self, most: u32) -> Self {
        match self {
            Self::Shards(shards) => {
                Self::Shards(Shards { count: shards.count.min(most), ..shards })
            }
            shared @ Self::Shared(_) => shared,
        }
    }
}

impl Shards {
    /// Returns one shard whose servers give priorities to copies, like those that clients share.
    /// It has one client, and nobody reports its load.
    ///
    /// # Errors
    /// The name of a parameter that such servers do not support.
    pub(crate) fn with_priorities(&self) -> Result<Shared, &'static str> {
        let Self { speeds, hint_error, slowdown, outages, change, .. } = self;
        let unsupported = [
            ("slowdown", slowdown.is_some()),
            ("outage", outages.is_some()),
            ("change", change.is_some()),
            ("hint-error", hint_error.is_some()),
            ("speeds", speeds.iter().any(|&speed| speed != speeds[0])),
        ];
        if let Some((name, _)) = unsupported.into_iter().find(|(_, is_given)| *is_given) {
            return Err(name);
        }
        Ok(Shared {
            servers: speeds.len() as u32,
            clients: 1,
            client_slots: None,
            replicas: speeds.len() as u32,
            speed: Speed::Constant(speeds[0]),
            demand: None,
            surge: None,
            turn: None,
            repair: 0.0,
            tuning: Tuning::default(),
            hops: Vec::new(),
            noise: None,
            chunk_ns: 0,
            load: None,
        })
    }
}

impl Shared {
    /// Returns the number of groups that the servers form. If every group would contain all
    /// servers, there is only one group.
    pub fn rings(&self) -> u32 {
        if self.replicas == self.servers { 1 } else { self.servers }
    }
}
