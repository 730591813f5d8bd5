//! Parses and checks the parameters of servers that clients share.

use curtail_dist::Distribution;
use curtail_kernel::Tuning;

use crate::error::{Error, shown};
use crate::parameters::{NONE, Parameters};

/// Checked parameters of servers that clients share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The number of clients.
    pub clients: u32,
    /// The number of slots of a server in the clients' configuration. `None` stands for the actual
    /// number.
    pub client_slots: Option<u32>,
    /// The number of servers per group. Groups are rings of neighbors.
    pub replicas: u32,
    /// How speeds change. `None` if all speeds are 1.
    pub speed: Option<Fluctuation>,
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
    /// The length of the windows in which the load of servers is counted, in ns.
    pub window_ns: u64,
    /// Whether to report the queue of the first server for each window.
    pub series: bool,
}

impl Shared {
    /// Returns the settings for the unshared servers of one shard.
    pub(crate) fn shard(replicas: u32) -> Self {
        Self {
            clients: 1,
            client_slots: None,
            replicas,
            speed: None,
            demand: None,
            surge: None,
            turn: None,
            repair: 0.0,
            tuning: Tuning::default(),
            hops: Vec::new(),
            noise: None,
            chunk_ns: 0,
            window_ns: u64::MAX,
            series: false,
        }
    }

    /// Returns the number of groups that `servers` servers form. If every group would contain all
    /// servers, there is only one group.
    pub fn rings(&self, servers: u32) -> u32 {
        if self.replicas == servers { 1 } else { servers }
    }
}

/// How stages interrupt low-priority jobs and how they stop jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mechanism {
    /// Interval, in ns, at which a job can be interrupted, counted from the time at which it began
    /// to run. The value 0 means that it can be interrupted at any time.
    pub(crate) chunk_ns: u64,
    /// The time that it takes to stop a running job, in ns.
    pub(crate) stop_ns: u64,
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

/// Changing speeds: every `period_ns`, each server draws 1 or `factor` with equal probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fluctuation {
    /// D.
    pub factor: f64,
    /// T, in ns.
    pub period_ns: u64,
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surge {
    /// The time of the rise, in ns.
    pub at_ns: u64,
    /// The number of clients whose demand rises, counted from the first one.
    pub clients: u32,
    /// Utilization before the rise.
    pub before: f64,
    /// The utilization after the rise.
    pub utilization: f64,
}

/// The limit on the number of client-server pairs. A pair uses about 300 bytes in each thread.
const MOST_PAIRS: u64 = 4_000_000;

const MOST_STAGES: usize = 16;

const MOST: std::ops::RangeInclusive<u32> = 1..=10_000;

impl Parameters {
    /// Reads the parameters of shared servers. `read` parses distributions.
    pub(crate) fn shared(
        &self,
        mut read: impl FnMut(&'static str, &str) -> Result<Distribution, Error>,
    ) -> Result<Option<(u32, Shared)>, Error> {
        let Some(servers) = self.servers else {
            return match self.first_given() {
                Some(name) => Err(misplaced(
                    name,
                    "is for servers that clients share; add them, like --servers 50",
                )),
                None => Ok(None),
            };
        };
        let clients = self.clients.unwrap_or(1);
        for (name, value) in [("servers", servers), ("clients", clients)] {
            if !MOST.contains(&value) {
                return Err(wrong(name, &value.to_string(), "1 to 10000"));
            }
        }
        if u64::from(servers) * u64::from(clients) > MOST_PAIRS {
            let fewer = format!("fewer, or fewer servers: at most {MOST_PAIRS} pairs of both");
            return Err(wrong("clients", &clients.to_string(), &fewer));
        }
        let Self { replicas, client_slots, .. } = *self;
        if replicas > servers {
            let fewer = format!("{servers} or fewer, the number of servers");
            return Err(wrong("replicas", &replicas.to_string(), &fewer));
        }
        let hops = self.hops(&mut read)?;
        let noise = self.noise(&mut read)?;
        let mut time = |name, text: &str| Ok(read(name, &format!("det:{text}"))?.mean() as u64);
        let repair = self.repair.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&repair) {
            return Err(wrong("repair", &shown(repair), "a share from 0 to 1"));
        }
        let speed = self.speed.as_deref().map(|text| -> Result<_, Error> {
            const FORM: &str = "D:T, like 3:500ms, with a speed D from 0.001 to 1000";
            let (factor, period) =
                text.split_once(':').ok_or_else(|| wrong("speed", text, FORM))?;
            let factor = number("speed", text, factor, 1e-3..=1e3, FORM)?;
            let period_ns = not_below("speed", text, time("speed", period)?)?;
            Ok(Fluctuation { factor, period_ns })
        });
        let surge = self.surge.as_deref().map(|text| self.surge(text, clients, &mut time));
        let turn = self.turn.as_deref().map(|text| turn(text, &mut time));
        if self.turn.is_some() && self.speed.is_some() {
            return Err(misplaced(
                "turn",
                "and speed both set the speed of the first server; remove one",
            ));
        }
        let mut span = |name, text: Option<&str>| {
            text.map(|text| not_below(name, text, time(name, text)?)).transpose()
        };
        let window_ns = span("load-window", self.load_window.as_deref())?.unwrap_or(100_000_000);
        let chunk_ns = span("chunk", self.chunk.as_deref())?.unwrap_or(0);
        let shared = Shared {
            hops,
            noise,
            chunk_ns,
            clients,
            client_slots,
            replicas,
            speed: speed.transpose()?,
            demand: self.demand.as_deref().map(skew).transpose()?,
            surge: surge.transpose()?,
            turn: turn.transpose()?,
            repair,
            tuning: self.tuning(clients)?,
            window_ns,
            series: self.queue_series || self.turn.is_some(),
        };
        Ok(Some((servers, shared)))
    }

    /// Returns the latency of responses including the network, or `None` if there is no noise.
    fn noise(
        &self,
        read: &mut impl FnMut(&'static str, &str) -> Result<Distribution, Error>,
    ) -> Result<Option<Distribution>, Error> {
        let network = self.network.as_deref().filter(|_| self.noise.is_some());
        let both = self.noise.iter().map(String::as_str).chain(network);
        let both = both.filter(|text| *text != NONE).collect::<Vec<_>>().join("+");
        (!both.is_empty()).then(|| read("noise", &both)).transpose()
    }

    /// Returns the stages after the server's own stage, in the order in which copies pass through
    /// them.
    fn hops(
        &self,
        read: &mut impl FnMut(&'static str, &str) -> Result<Distribution, Error>,
    ) -> Result<Vec<Hop>, Error> {
        const FORM: &str =
            "NAME[@client][/legacy]:DISTRIBUTION, like network:exp:2ms or disk/legacy:exp:4ms";
        let mut hops: Vec<Hop> = Vec::new();
        for text in &self.stage {
            let (name, work) = text.split_once(':').ok_or_else(|| wrong("stage", text, FORM))?;
            let (name, legacy) =
                name.strip_suffix("/legacy").map_or((name, false), |of| (of, true));
            let (name, client) =
                name.strip_suffix("@client").map_or((name, false), |of| (of, true));
            if name.is_empty() || name.contains(['@', '/']) {
                return Err(wrong("stage", text, FORM));
            }
            let known = hops.iter().any(|hop| hop.name == name && hop.at_client == client);
            if known || (!client && hops.last().is_some_and(|hop| hop.at_client)) {
                let why = "each stage once, and put the stages of clients after those of servers";
                return Err(wrong("stage", text, why));
            }
            let work = read("stage", work)?;
            if !(work.mean() > 0.0 && work.mean().is_finite()) {
                return Err(wrong("stage", text, "a distribution with a mean above 0"));
            }
            hops.push(Hop { name: name.to_owned(), at_client: client, prioritizes: !legacy, work });
        }
        if hops.len() > MOST_STAGES {
            let value = format!("given {} times", hops.len());
            return Err(wrong("stage", &value, &format!("{MOST_STAGES} stages or fewer")));
        }
        Ok(hops)
    }

    fn surge(
        &self,
        text: &str,
        clients: u32,
        mut time: impl FnMut(&'static str, &str) -> Result<u64, Error>,
    ) -> Result<Surge, Error> {
        const FORM: &str = "AT:CLIENTS:UTILIZATION, like 10s:3:0.6";
        let parts: Vec<&str> = text.split(':').collect();
        let &[at, some, load] = &parts[..] else { return Err(wrong("surge", text, FORM)) };
        let most = f64::from(clients);
        let form = format!("{FORM}, with 1 to {clients} clients");
        let some = number("surge", text, some, 1.0..=most, &form)? as u32;
        let form = format!("{FORM}, with a utilization above {}", self.utilization);
        let utilization = number("surge", text, load, self.utilization..=1e6, &form)?;
        Ok(Surge { at_ns: time("surge", at)?, clients: some, before: 0.0, utilization })
    }

    /// Returns the name of the first parameter that requires shared servers.
    fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("clients", self.clients.is_some()),
            ("client-slots", self.client_slots.is_some()),
            ("speed", self.speed.is_some()),
            ("demand", self.demand.is_some()),
            ("surge", self.surge.is_some()),
            ("turn", self.turn.is_some()),
            ("repair", self.repair.is_some()),
            ("score-exponent", self.score_exponent.is_some()),
            ("tune", !self.tune.is_empty()),
            ("stage", !self.stage.is_empty()),
            ("chunk", self.chunk.is_some()),
            ("noise", self.noise.is_some()),
            ("load-window", self.load_window.is_some()),
            ("queue-series", self.queue_series),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|&(name, _)| name)
    }

    fn tuning(&self, clients: u32) -> Result<Tuning, Error> {
        let mut tuning = Tuning { clients, ..Tuning::default() };
        if let Some(exponent) = self.score_exponent {
            let bad = |why| Error::Misplaced { name: "score-exponent", why };
            tuning.set("score-exponent", exponent.into()).map_err(bad)?;
        }
        for text in &self.tune {
            let bad = |allowed: &str| wrong("tune", text, allowed);
            let (name, value) = text.split_once('=').ok_or_else(|| bad("NAME=VALUE"))?;
            let value = value.trim().parse().map_err(|_| bad("a number as its value"))?;
            let bad = |why| Error::Misplaced { name: "tune", why };
            tuning.set(name.trim(), value).map_err(bad)?;
        }
        Ok(tuning)
    }
}

fn turn(
    text: &str,
    mut time: impl FnMut(&'static str, &str) -> Result<u64, Error>,
) -> Result<Turn, Error> {
    const FORM: &str = "AT:FROM:TO, like 5s:1:3, with speeds up to 1000, TO above 0";
    let parts: Vec<&str> = text.split(':').collect();
    let &[at, before, after] = &parts[..] else { return Err(wrong("turn", text, FORM)) };
    let before = number("turn", text, before, 0.0..=1e3, FORM)?;
    let after = number("turn", text, after, 1e-3..=1e3, FORM)?;
    Ok(Turn { at_ns: time("turn", at)?, before, after })
}

fn skew(text: &str) -> Result<Skew, Error> {
    const FORM: &str = "A:B, two shares above 0 and below 1, like 0.2:0.8";
    let (clients, demand) = text.split_once(':').ok_or_else(|| wrong("demand", text, FORM))?;
    let share = |of| number("demand", text, of, 1e-6..=1.0 - 1e-6, FORM);
    Ok(Skew { clients: share(clients)?, demand: share(demand)? })
}

/// The minimum value of a recurring time, because each recurrence costs an event.
const SHORTEST_NS: u64 = 1_000;

fn not_below(name: &'static str, text: &str, ns: u64) -> Result<u64, Error> {
    if ns >= SHORTEST_NS { Ok(ns) } else { Err(wrong(name, text, "a time of 1us or more")) }
}

fn number(
    name: &'static str,
    text: &str,
    part: &str,
    range: std::ops::RangeInclusive<f64>,
    form: &str,
) -> Result<f64, Error> {
    let number = part.trim().parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| wrong(name, text, form))
}

fn wrong(name: &'static str, value: &str, allowed: &str) -> Error {
    Error::OutOfRange { name, value: value.to_owned(), allowed: allowed.to_owned() }
}

fn misplaced(name: &'static str, why: &str) -> Error {
    Error::Misplaced { name, why: format!("it {why}") }
}
