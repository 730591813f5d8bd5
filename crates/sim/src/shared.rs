//! Servers that clients share, as people write them, and checked.

use curtail_kernel::Tuning;

use crate::error::Error;
use crate::parameters::Parameters;

/// Servers that clients share, checked.
#[derive(Clone, Debug)]
pub struct Shared {
    /// How many clients there are.
    pub clients: u32,
    /// Servers of a group; the groups are the rings of neighbors.
    pub replicas: u32,
    /// How speeds change; none: all are 1.
    pub speed: Option<Fluctuation>,
    /// Who makes most of the demand; none: all clients alike.
    pub demand: Option<Skew>,
    /// Who asks for more from a time on.
    pub surge: Option<Surge>,
    /// How the first server differs, and until when.
    pub turn: Option<Turn>,
    /// The share of requests that all servers of their group serve.
    pub repair: f64,
    /// Of the policies that adapt.
    pub tuning: Tuning,
    /// The length of the windows in which the load of servers is counted, in ns.
    pub window_ns: u64,
    /// Is the queue of a server reported, window by window?
    pub series: bool,
}

/// Speeds that change: every `period_ns`, each server draws 1 or `factor` by a fair coin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fluctuation {
    /// D.
    pub factor: f64,
    /// T, in ns.
    pub period_ns: u64,
}

/// The first server differs until a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// Until then, in ns.
    pub at_ns: u64,
    /// Its speed until then; 0: it is down, and the clients know.
    pub before: f64,
    /// Its speed from then on.
    pub after: f64,
}

/// A share of the clients makes a share of the demand; the others make the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skew {
    /// Of the clients: the first ones.
    pub clients: f64,
    /// Of the demand.
    pub demand: f64,
}

/// From a time on, some clients ask for more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surge {
    /// When, in ns.
    pub at_ns: u64,
    /// How many clients: the first ones.
    pub clients: u32,
    /// The utilization before.
    pub before: f64,
    /// What the utilization rises to.
    pub utilization: f64,
}

/// Each pair of a client and a server takes some 300 bytes, in each thread.
const MOST_PAIRS: u64 = 4_000_000;

const MOST: std::ops::RangeInclusive<u32> = 1..=10_000;

impl Parameters {
    /// Reads it; `time` reads times.
    pub(crate) fn shared(
        &self,
        mut time: impl FnMut(&'static str, &str) -> Result<u64, Error>,
    ) -> Result<Option<(u32, Shared)>, Error> {
        let Some(servers) = self.servers else {
            return match self.first_given() {
                Some(name) => Err(misplaced(
                    name,
                    "is for servers that clients share; add them, as --servers 50",
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
        let replicas = self.replicas;
        if replicas > servers {
            let fewer = format!("{servers} or fewer: there are no more servers");
            return Err(wrong("replicas", &replicas.to_string(), &fewer));
        }
        let repair = self.repair.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&repair) {
            return Err(wrong("repair", &repair.to_string(), "a share from 0 to 1"));
        }
        let speed = self.speed.as_deref().map(|text| -> Result<_, Error> {
            const FORM: &str = "D:T, as 3:500ms, with a speed D from 0.001 to 1000";
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
                "and speed both set the speed of the first server; drop one",
            ));
        }
        let window = self.load_window.as_deref().map(|text| -> Result<_, Error> {
            not_below("load-window", text, time("load-window", text)?)
        });
        let shared = Shared {
            clients,
            replicas,
            speed: speed.transpose()?,
            demand: self.demand.as_deref().map(skew).transpose()?,
            surge: surge.transpose()?,
            turn: turn.transpose()?,
            repair,
            tuning: self.tuning(clients)?,
            window_ns: window.transpose()?.unwrap_or(100_000_000),
            series: self.queue_series || self.turn.is_some(),
        };
        Ok(Some((servers, shared)))
    }

    fn surge(
        &self,
        text: &str,
        clients: u32,
        mut time: impl FnMut(&'static str, &str) -> Result<u64, Error>,
    ) -> Result<Surge, Error> {
        const FORM: &str = "AT:CLIENTS:UTILIZATION, as 10s:3:0.6";
        let parts: Vec<&str> = text.split(':').collect();
        let &[at, some, load] = &parts[..] else { return Err(wrong("surge", text, FORM)) };
        let most = f64::from(clients);
        let form = format!("{FORM}, with 1 to {clients} clients");
        let some = number("surge", text, some, 1.0..=most, &form)? as u32;
        let form = format!("{FORM}, with a utilization above {}", self.utilization);
        let utilization = number("surge", text, load, self.utilization..=1e6, &form)?;
        Ok(Surge { at_ns: time("surge", at)?, clients: some, before: 0.0, utilization })
    }

    /// The first parameter that means nothing without servers.
    fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("clients", self.clients.is_some()),
            ("speed", self.speed.is_some()),
            ("demand", self.demand.is_some()),
            ("surge", self.surge.is_some()),
            ("turn", self.turn.is_some()),
            ("repair", self.repair.is_some()),
            ("score-exponent", self.score_exponent.is_some()),
            ("tune", !self.tune.is_empty()),
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
    const FORM: &str = "AT:FROM:TO, as 5s:1:3, with speeds up to 1000, TO above 0";
    let parts: Vec<&str> = text.split(':').collect();
    let &[at, before, after] = &parts[..] else { return Err(wrong("turn", text, FORM)) };
    let before = number("turn", text, before, 0.0..=1e3, FORM)?;
    let after = number("turn", text, after, 1e-3..=1e3, FORM)?;
    Ok(Turn { at_ns: time("turn", at)?, before, after })
}

fn skew(text: &str) -> Result<Skew, Error> {
    const FORM: &str = "A:B, two shares above 0 and below 1, as 0.2:0.8";
    let (clients, demand) = text.split_once(':').ok_or_else(|| wrong("demand", text, FORM))?;
    let share = |of| number("demand", text, of, 1e-6..=1.0 - 1e-6, FORM);
    Ok(Skew { clients: share(clients)?, demand: share(demand)? })
}

/// The shortest of the times that recur: each costs an event.
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
