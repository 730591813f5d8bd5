//! Reads the parameters of servers that clients share.

use curtail_dist::Distribution;
use curtail_kernel::Tuning;

use super::units::Units;
use super::{NONE, Parameters};
use crate::error::{Error, misplaced, shown, wrong};
use crate::experiment::Experiment;
use crate::world::{Hop, LoadWindows, Shared, Skew, Speed, Surge, Turn};

/// The limit on the number of client-server pairs. A pair uses about 300 bytes in each thread.
const MOST_PAIRS: u64 = 4_000_000;

const MOST_STAGES: usize = 16;

const MOST: std::ops::RangeInclusive<u32> = 1..=10_000;

impl Parameters {
    /// Reads the servers, except for what happens at a certain time ([`Self::schedule`]).
    pub(super) fn shared(&self, servers: u32, units: &mut Units) -> Result<Shared, Error> {
        let clients = self.clients.unwrap_or(1);
        for (name, value) in [("servers", servers), ("clients", clients)] {
            if !MOST.contains(&value) {
                return Err(wrong(name, value.to_string(), "1 to 10000"));
            }
        }
        if u64::from(servers) * u64::from(clients) > MOST_PAIRS {
            let fewer = format!("fewer, or fewer servers: at most {MOST_PAIRS} pairs of both");
            return Err(wrong("clients", clients.to_string(), fewer));
        }
        let Self { replicas, client_slots, .. } = *self;
        if replicas > servers {
            let fewer = format!("{servers} or fewer, the number of servers");
            return Err(wrong("replicas", replicas.to_string(), fewer));
        }
        let hops = self.hops(units)?;
        let noise = self.noise(units)?;
        let repair = self.repair.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&repair) {
            return Err(wrong("repair", shown(repair), "a share from 0 to 1"));
        }
        if self.turn.is_some() && self.speed.is_some() {
            let why = "it and speed both set the speed of the first server; remove one";
            return Err(misplaced("turn", why));
        }
        let speed = self.speed.as_deref().map(|text| speed(text, units)).transpose()?;
        let mut span = |name, text: Option<&str>| {
            text.map(|text| not_below(name, text, units.time(name, text)?)).transpose()
        };
        let window_ns = span("load-window", self.load_window.as_deref())?.unwrap_or(100_000_000);
        let chunk_ns = span("chunk", self.chunk.as_deref())?.unwrap_or(0);
        Ok(Shared {
            servers,
            clients,
            client_slots,
            replicas,
            speed: speed.unwrap_or(Speed::Constant(1.0)),
            demand: self.demand.as_deref().map(skew).transpose()?,
            surge: None,
            turn: None,
            repair,
            tuning: self.tuning(clients)?,
            hops,
            noise,
            chunk_ns,
            load: Some(LoadWindows {
                length_ns: window_ns,
                series: self.queue_series || self.turn.is_some(),
            }),
        })
    }

    /// Adds what happens at a certain time. `before` is the experiment without it.
    pub(super) fn schedule(
        &self,
        shared: &mut Shared,
        before: &Experiment,
        units: &mut Units,
    ) -> Result<(), Error> {
        if let Some(text) = self.surge.as_deref() {
            shared.surge = Some(self.surge(text, shared.clients, before, units)?);
        }
        if let Some(text) = self.turn.as_deref() {
            let turn = turn(text, units)?;
            arrivals_before("turn", turn.at_ns, before)?;
            shared.turn = Some(turn);
        }
        Ok(())
    }

    /// Returns the latency of responses including the network, or `None` if there is no noise.
    fn noise(&self, units: &mut Units) -> Result<Option<Distribution>, Error> {
        let network = self.network.as_deref().filter(|_| self.noise.is_some());
        let both = self.noise.iter().map(String::as_str).chain(network);
        let both = both.filter(|text| *text != NONE).collect::<Vec<_>>().join("+");
        (!both.is_empty()).then(|| units.distribution("noise", &both)).transpose()
    }

    /// Returns the stages after the server's own stage, in the order in which copies pass through
    /// them.
    fn hops(&self, units: &mut Units) -> Result<Vec<Hop>, Error> {
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
            let work = units.distribution("stage", work)?;
            if !(work.mean() > 0.0 && work.mean().is_finite()) {
                return Err(wrong("stage", text, "a distribution with a mean above 0"));
            }
            hops.push(Hop { name: name.to_owned(), at_client: client, prioritizes: !legacy, work });
        }
        if hops.len() > MOST_STAGES {
            let value = format!("given {} times", hops.len());
            return Err(wrong("stage", value, format!("{MOST_STAGES} stages or fewer")));
        }
        Ok(hops)
    }

    fn surge(
        &self,
        text: &str,
        clients: u32,
        before: &Experiment,
        units: &mut Units,
    ) -> Result<Surge, Error> {
        const FORM: &str = "AT:CLIENTS:UTILIZATION, like 10s:3:0.6";
        let parts: Vec<&str> = text.split(':').collect();
        let &[at, some, load] = &parts[..] else {
            return Err(wrong("surge", text, FORM));
        };
        let most = f64::from(clients);
        let form = format!("{FORM}, with 1 to {clients} clients");
        let some = number("surge", text, some, 1.0..=most, &form)? as u32;
        let form = format!("{FORM}, with a utilization above {}", self.utilization);
        Ok(Surge {
            utilization: number("surge", text, load, self.utilization..=1e6, &form)?,
            at: arrivals_before("surge", units.time("surge", at)?, before)?,
            text: format!("surge={text}"),
            clients: some,
            before: self.utilization,
        })
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

fn speed(text: &str, units: &mut Units) -> Result<Speed, Error> {
    const FORM: &str = "D:T, like 3:500ms, with a speed D from 0.001 to 1000";
    let (factor, period) = text.split_once(':').ok_or_else(|| wrong("speed", text, FORM))?;
    let factor = number("speed", text, factor, 1e-3..=1e3, FORM)?;
    let period_ns = not_below("speed", text, units.time("speed", period)?)?;
    Ok(Speed::Changing { factor, period_ns })
}

fn turn(text: &str, units: &mut Units) -> Result<Turn, Error> {
    const FORM: &str = "AT:FROM:TO, like 5s:1:3, with speeds up to 1000, TO above 0";
    let parts: Vec<&str> = text.split(':').collect();
    let &[at, before, after] = &parts[..] else {
        return Err(wrong("turn", text, FORM));
    };
    let before = number("turn", text, before, 0.0..=1e3, FORM)?;
    let after = number("turn", text, after, 1e-3..=1e3, FORM)?;
    Ok(Turn { at_ns: units.time("turn", at)?, before, after })
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

/// Returns the expected number of arrivals before a time, which must come before the last request.
fn arrivals_before(name: &'static str, at_ns: u64, of: &Experiment) -> Result<u64, Error> {
    let (arrivals, requests) = ((at_ns as f64 / of.gap_ns()).round() as u64, of.requests);
    if arrivals < requests {
        return Ok(arrivals);
    }
    let why = format!("it comes after the last of {requests} requests; use more requests");
    Err(misplaced(name, why))
}
