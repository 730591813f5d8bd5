//! What is measured besides latencies: how evenly servers are loaded over time, latencies by kind of client, and
//! the queue of one server.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::figures::{Figures, histogram};

/// The windows of a queue that are kept, at most; later ones are not.
const MOST_POINTS: usize = 100_000;

#[derive(Clone, Debug)]
pub(crate) struct LoadTally {
    /// By server: windows, requests in them, and the squares of these.
    windows: Vec<(u64, f64, f64)>,
    /// Latencies of the requests of busy clients, and of the others.
    by_client: [Histogram<u64>; 2],
    latency_ns: [u128; 2],
    /// Queries that a client has sent, and those of them that had waited in its cell.
    sent: u64,
    held: u64,
    /// Of the first server, by window from the beginning on.
    series: Vec<Point>,
    turn_ns: Option<u64>,
    window_ns: u64,
    most: u32,
    /// Further stages: their names, and how long their slots were busy, of how long there were, in ns.
    pub(crate) stages: Vec<(String, u128, u128)>,
}

/// A window of the first server.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    /// The most requests that were there at once.
    most: u32,
    /// Requests that it got, and that all servers got.
    requests: u32,
    of_all: u32,
}

impl LoadTally {
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, other) in self.windows.iter_mut().zip(&other.windows) {
            *sum = (sum.0 + other.0, sum.1 + other.1, sum.2 + other.2);
        }
        for (to, from) in self.by_client.iter_mut().zip(&other.by_client) {
            to.add(from).expect("all histograms have the same bounds");
        }
        for (to, from) in self.latency_ns.iter_mut().zip(other.latency_ns) {
            *to += from;
        }
        self.most = self.most.max(other.most);
        (self.sent, self.held) = (self.sent + other.sent, self.held + other.held);
        for (sum, other) in self.stages.iter_mut().zip(&other.stages) {
            (sum.1, sum.2) = (sum.1 + other.1, sum.2 + other.2);
        }
    }

    pub(crate) fn figures(&self, percentiles: &[f64]) -> ServerLoad {
        let cv = |&(count, sum, squares): &(u64, f64, f64)| {
            let mean = sum / count as f64;
            (squares / count as f64 - mean * mean).max(0.0).sqrt() / mean
        };
        let each: Vec<f64> = self.windows.iter().filter(|of| of.1 > 0.0).map(cv).collect();
        let busiest =
            self.windows.iter().filter(|of| of.1 > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
        let figures = |at: usize| {
            let (of, sum) = (&self.by_client[at], self.latency_ns[at] as f64);
            (!of.is_empty()).then(|| Figures::of(of, sum, percentiles))
        };
        ServerLoad {
            window_ns: self.window_ns,
            cv: (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64),
            busiest_cv: busiest.map(cv),
            most_outstanding: self.most,
            rate_limited: self.held as f64 / self.sent.max(1) as f64,
            first_cv: self.windows.first().filter(|of| of.1 > 0.0).map(cv),
            turn: self.turn(),
            busy_clients: figures(0),
            other_clients: figures(1),
            stages: self.stages.iter().map(StageLoad::of).collect(),
            queue: self.series.iter().map(|point| point.most).collect(),
            load: self.series.iter().map(|point| point.requests).collect(),
        }
    }

    /// What the first server got after it turned, in equal shares of what all servers got.
    fn turn(&self) -> Option<Turned> {
        let first = self.turn_ns?.div_ceil(self.window_ns) as usize;
        let second = (1_000_000_000_u64.div_ceil(self.window_ns) as usize).max(1);
        let servers = self.windows.len() as f64;
        let share = |points: &[Point]| {
            let sum = |of: fn(&Point) -> u32| points.iter().map(|p| f64::from(of(p))).sum::<f64>();
            sum(|p| p.requests) / (sum(|p| p.of_all) / servers).max(1.0)
        };
        // The last window may not be whole.
        let after = self.series.get(first..self.series.len().saturating_sub(1))?;
        let most = after.iter().map(|point| share(&[*point])).fold(0.0, f64::max);
        Some(Turned { most, next: share(after.get(second..2 * second)?) })
    }
}

/// How busy a stage behind the servers' own was.
#[derive(Clone, Debug, Serialize)]
pub struct StageLoad {
    /// Its name.
    pub name: String,
    /// The share of the time in which its slots were busy, with whatever copies.
    pub busy: f64,
}

impl StageLoad {
    fn of((name, busy, capacity): &(String, u128, u128)) -> Self {
        Self { name: name.clone(), busy: *busy as f64 / (*capacity).max(1) as f64 }
    }
}

/// How servers that clients share were loaded, and how clients of each kind fared.
#[derive(Clone, Debug, Serialize)]
pub struct ServerLoad {
    /// The length of a window, in ns.
    pub window_ns: u64,
    /// The coefficient of variation of the requests that a server gets per window, on average over servers.
    pub cv: Option<f64>,
    /// That of the server with the most requests.
    pub busiest_cv: Option<f64>,
    /// That of the first server.
    pub first_cv: Option<f64>,
    /// The first server, after it turned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turned>,
    /// The most requests that were at a server at once.
    pub most_outstanding: u32,
    /// The share of the queries, 0 to 1, that waited at their client: for a rate, or behind the gate of
    /// `psq` or `bounded:N`.
    pub rate_limited: f64,
    /// Latencies of the clients that make most of the demand, or whose demand surges.
    pub busy_clients: Option<Figures>,
    /// Latencies of the other clients; none where all are alike.
    pub other_clients: Option<Figures>,
    /// The stages behind the servers' own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageLoad>,
    /// Of the first server in the first replication, by window from the beginning on: the most requests that
    /// were there at once. Empty unless asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<u32>,
    /// The same: the requests that it got.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<u32>,
}

/// What the first server got after it turned, in equal shares of what all servers got; in the first replication.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Turned {
    /// In the window with the most.
    pub most: f64,
    /// In the second second.
    pub next: f64,
}

pub(crate) struct Meter {
    clients: u32,
    busy: u32,
    series: bool,
    window: u64,
    counts: Vec<u32>,
    measures: bool,
    tally: LoadTally,
}

impl Meter {
    pub(crate) fn new(
        servers: u32,
        window_ns: u64,
        (busy, clients): (u32, u32),
        (series, turn_ns): (bool, Option<u64>),
    ) -> Self {
        let tally = LoadTally {
            windows: vec![(0, 0.0, 0.0); servers as usize],
            by_client: [histogram(), histogram()],
            latency_ns: [0; 2],
            sent: 0,
            held: 0,
            series: Vec::new(),
            turn_ns,
            window_ns,
            most: 0,
            stages: Vec::new(),
        };
        let counts = vec![0; servers as usize];
        Self { clients, busy, series, window: 0, counts, measures: false, tally }
    }

    pub(crate) fn answered(&mut self, client: u32, latency_ns: u64) {
        if self.busy == self.clients {
            return; // all are alike
        }
        let kind = usize::from(client >= self.busy);
        self.tally.by_client[kind].saturating_record(latency_ns);
        self.tally.latency_ns[kind] += u128::from(latency_ns);
    }

    /// A client sends a query for the first time; `held`: it has waited there.
    pub(crate) fn sent(&mut self, held: bool) {
        self.tally.sent += 1;
        self.tally.held += u64::from(held);
    }

    /// A request has arrived at a server, where so many are now.
    pub(crate) fn received(&mut self, now: u64, server: u32, outstanding: u32) {
        self.turn(now);
        self.counts[server as usize] += 1;
        self.tally.most = self.tally.most.max(outstanding);
        let window = self.window as usize;
        if self.series && window < MOST_POINTS {
            if self.tally.series.len() <= window {
                self.tally.series.resize(window + 1, Point::default());
            }
            let point = &mut self.tally.series[window];
            point.of_all += 1;
            if server == 0 {
                point.requests += 1;
                point.most = outstanding.max(point.most);
            }
        }
    }

    fn turn(&mut self, now: u64) {
        let window = now / self.tally.window_ns;
        while self.window < window {
            for (count, sum) in self.counts.iter_mut().zip(&mut self.tally.windows) {
                let requests = f64::from(std::mem::take(count));
                if self.measures {
                    *sum = (sum.0 + 1, sum.1 + requests, sum.2 + requests * requests);
                }
            }
            // Windows in which nothing arrives at all are only counted while they are few.
            self.window = if window - self.window > 1_000 { window } else { self.window + 1 };
        }
    }

    /// A block of arrivals has ended; are those that come to be measured?
    pub(crate) fn block(&mut self, now: u64, measures: bool) {
        self.turn(now);
        self.measures = measures;
    }

    pub(crate) fn tally(&self) -> &LoadTally {
        &self.tally
    }
}
