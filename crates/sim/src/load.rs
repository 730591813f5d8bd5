//! Measures the balance of load over time, the latencies of each kind of client, and the queue of
//! one server.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::figures::{Figures, histogram};
use crate::world::{LoadWindows, Turn};

/// The maximum number of windows for which the first server's queue is recorded. Later windows are
/// dropped.
const MOST_POINTS: usize = 100_000;

#[derive(Clone, Debug)]
pub(crate) struct LoadTally {
    /// For each server, the number of windows, the sum of the requests per window, and the sum of
    /// their squares.
    windows: Vec<(u64, f64, f64)>,
    /// The latencies of requests from busy clients, and of requests from the other clients.
    by_client: [Histogram<u64>; 2],
    latency_ns: [u128; 2],
    /// The number of queries that clients have sent, and the number of those that first waited in
    /// the client's cell.
    sent: u64,
    held: u64,
    /// The first server's windows, from the beginning of the run.
    series: Vec<Point>,
    turn_ns: Option<u64>,
    window_ns: u64,
    most: u32,
    pub(crate) stages: Vec<StageTally>,
}

/// The busy time of a further stage.
#[derive(Clone, Debug)]
pub(crate) struct StageTally {
    pub(crate) name: String,
    /// The busy time of its slots in ns.
    pub(crate) busy_ns: u128,
    /// The total time of its slots in ns.
    pub(crate) capacity_ns: u128,
}

/// A window of the first server.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    /// The maximum number of simultaneous requests at the server.
    most: u32,
    /// The number of requests to this server, and to all servers.
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
            sum.busy_ns += other.busy_ns;
            sum.capacity_ns += other.capacity_ns;
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

    /// Returns the first server's load after its speed changed, relative to an equal share of all
    /// requests.
    fn turn(&self) -> Option<Turned> {
        let first = self.turn_ns?.div_ceil(self.window_ns) as usize;
        let second = (1_000_000_000_u64.div_ceil(self.window_ns) as usize).max(1);
        let servers = self.windows.len() as f64;
        let share = |points: &[Point]| {
            let sum = |of: fn(&Point) -> u32| points.iter().map(|p| f64::from(of(p))).sum::<f64>();
            sum(|p| p.requests) / (sum(|p| p.of_all) / servers).max(1.0)
        };
        // The last window may be shorter than the others.
        let after = self.series.get(first..self.series.len().saturating_sub(1))?;
        let most = after.iter().map(|point| share(&[*point])).fold(0.0, f64::max);
        Some(Turned { most, next: share(after.get(second..2 * second)?) })
    }
}

/// The utilization of a stage behind the servers' own stages.
#[derive(Clone, Debug, Serialize)]
pub struct StageLoad {
    /// The name of the stage.
    pub name: String,
    /// The share of the time for which its slots were busy with copies of any kind.
    pub busy: f64,
}

impl StageLoad {
    fn of(tally: &StageTally) -> Self {
        let StageTally { name, busy_ns, capacity_ns } = tally;
        Self { name: name.clone(), busy: *busy_ns as f64 / (*capacity_ns).max(1) as f64 }
    }
}

/// The load of servers that clients share, and the latencies of each kind of client.
#[derive(Clone, Debug, Serialize)]
pub struct ServerLoad {
    /// The length of a window, in ns.
    pub window_ns: u64,
    /// The coefficient of variation of a server's requests per window, averaged over the servers.
    pub cv: Option<f64>,
    /// The same coefficient for the server with the most requests.
    pub busiest_cv: Option<f64>,
    /// The same coefficient for the first server.
    pub first_cv: Option<f64>,
    /// The load of the first server after its speed changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turned>,
    /// The maximum number of simultaneous requests at a server.
    pub most_outstanding: u32,
    /// The share of the queries, 0 to 1, that waited at their client, either because of a rate
    /// limit or behind the gate of `psq` or `bounded:N`.
    pub rate_limited: f64,
    /// The latencies of the clients that account for most of the demand or whose demand surges.
    pub busy_clients: Option<Figures>,
    /// The latencies of the other clients. `None` if all clients are alike.
    pub other_clients: Option<Figures>,
    /// The stages behind the servers' own stages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageLoad>,
    /// The maximum number of simultaneous requests at the first server in each window, from the
    /// beginning of the first replication. Empty unless requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<u32>,
    /// The number of requests to the first server in the same windows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<u32>,
}

/// The load of the first server after its speed changed, relative to an equal share of all
/// requests, in the first replication.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Turned {
    /// The maximum over the windows after the change.
    pub most: f64,
    /// The load from 1 s to 2 s after the change.
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
    /// Measures the load of `servers`. The first `busy` of the `clients` are the busy ones.
    pub(crate) fn new(
        servers: u32,
        windows: LoadWindows,
        busy: u32,
        clients: u32,
        turn: Option<Turn>,
    ) -> Self {
        let LoadWindows { length_ns: window_ns, series } = windows;
        let turn_ns = turn.map(|turn| turn.at_ns);
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

    /// Counts a query that a client sends for the first time. `held` is true if the query waited at
    /// the client.
    pub(crate) fn sent(&mut self, held: bool) {
        self.tally.sent += 1;
        self.tally.held += u64::from(held);
    }

    /// Counts the arrival of a request at a server. `outstanding` is the number of requests that
    /// are now at the server.
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
            // If there are no arrivals for more than 1,000 windows, the empty windows are skipped.
            self.window = if window - self.window > 1_000 { window } else { self.window + 1 };
        }
    }

    /// Ends a block of arrivals. `measures` states whether the next arrivals are measured.
    pub(crate) fn block(&mut self, now: u64, measures: bool) {
        self.turn(now);
        self.measures = measures;
    }

    pub(crate) fn tally(&self) -> &LoadTally {
        &self.tally
    }
}
