//! Simulates servers that clients share. Each client has its own kernel cell. All clients send to
//! the same servers over a network, and learn about each other only from the servers' feedback.
//!
//! Source: document 002 §4.4.2, the simulator of C3. A shard ([`crate::shard`]) has one cell and
//! its own servers, so only its own events must be ordered. Here, there is a single order for all
//! events. A request goes to one group, a ring of neighbors. Simultaneous events happen in this
//! order: speeds change, copies end, messages arrive at servers and then at clients, deadlines of
//! cells pass, and requests arrive.
//!
//! Deviations from the source: requests come from one Poisson process instead of 200 that add up to
//! the same rate. When the speed changes, a running request continues at the new speed. Read
//! repairs are separate queries, which wait for tokens like any other query.
//!
//! Cost per request: three kernel events, and a total of three messages and job completions. Each
//! message or job completion costs O(1), plus an update of the slots' agenda. Memory: O(clients ·
//! servers + open requests).

mod books;
mod cells;
#[cfg(test)]
mod classes;
mod demand;
mod oracle;
mod path;
mod servers;

use curtail_kernel::hedge::{Record, Snapshot};
use curtail_kernel::{
    Arrive, CopyId, Event, GroupId, Heaps, Outcome, Policy, Probed, QueryId, Scheduler, ServerId,
    Timestamp,
};

use crate::agenda::NEVER;
use crate::draws::Draws;
use crate::error::Error;
use crate::experiment::{JitterOf, Setup};
use crate::load::{LoadTally, Meter};
use crate::mail::Lane;
use crate::part::Part;
use crate::script::RESPONSE_BYTES;
use crate::shared::{Shared, Turn};
use crate::sink::Sink;
use books::{Client, Copy, QueryState, REPAIR};
use demand::{Demand, NewRequest};
use oracle::Scores;
use path::Path;
use servers::Servers;

/// The clients, the servers, and the messages between them.
pub(crate) struct SharedShard {
    cells: Vec<Box<dyn Scheduler>>,
    /// The next deadline of each client's cell.
    timers: Heaps<u64>,
    demand: Demand,
    /// The pending change of the first server's speed.
    turn: Option<Turn>,
    /// The time of the last arrival.
    now: u64,
    rest: Rest,
}

/// All state except the cells, whose actions change it.
struct Rest {
    policy: Policy,
    clients: Vec<Client>,
    /// The stages of servers, followed by those of the path behind them.
    servers: Servers,
    stages: u32,
    path: Path,
    /// Draws the J of third and further copies.
    jitter: Option<(Draws, JitterOf)>,
    /// Open copies by number. The number also identifies the copy's job.
    copies: Vec<Copy>,
    free: Vec<u32>,
    requests: Lane<ToServer>,
    responses: Lane<ToClient>,
    wants: Wants,
    /// Read repairs that are about to begin: the query's group, the server that already reads it,
    /// and its work.
    repairs: Vec<(u32, ServerId, f64)>,
    /// The copies that have stopped at their client. The client's cell has not received the event
    /// yet.
    stopped: Vec<u32>,
    /// The number of servers and the number of groups.
    count: u32,
    rings: u32,
    replicas: u32,
    open: u64,
    /// Whether a server's queue overflowed.
    overflowed: bool,
    /// The execution time of the copy whose response is being handled.
    service_ns: u64,
    meter: Meter,
    scores: Option<Scores>,
}

#[derive(Clone, Copy)]
struct Wants {
    starts: bool,
    forecasts: bool,
    feedback: bool,
    bytes: bool,
    /// Whether copies may be cancelled. If so, it must be possible to find them by id.
    stops: bool,
}

enum ToServer {
    Deliver(u32),
    Stop { copy: u32, client: u32, id: CopyId },
    Probe { client: u32, server: ServerId },
}

enum ToClient {
    Finished(u32),
    Stopped(u32),
    /// The message contains the copy's id, because the copy's number may belong to another copy
    /// when the message arrives.
    Started {
        client: u32,
        copy: CopyId,
    },
    Forecast {
        client: u32,
        copy: CopyId,
        ends: Timestamp,
    },
    Probed {
        client: u32,
        probed: Probed,
    },
}

impl SharedShard {
    /// Creates the servers that clients share, or those of the shard with this index.
    pub(crate) fn new(setup: &Setup<'_>, shared: &Shared, shard: u32) -> Result<Self, Error> {
        let experiment = setup.experiment;
        let (servers, clients) = (experiment.servers.len() as u32, shared.clients);
        let stream = |what: &[u8]| setup.stream(what, shard);
        let scores = setup.is_oracle().then(|| Scores::new(servers as usize));
        let cells = setup.shared_cells(shared, scores.as_ref(), shard)?;
        let base = if shared.speed.is_some() { 1.0 } else { experiment.servers[0] };
        let lane_rng = |name: &[u8]| curtail_dist::seed::rng(stream(name));
        let network = experiment.network.as_ref();
        let demand = Demand::new((clients, servers), setup, (shared, shard));
        let busy = shared.surge.map_or(demand.busy(), |surge| surge.clients);
        let (path, stages) = Path::new(&shared.hops, (servers, clients), stream);
        let shape = (stages, experiment.slots, experiment.queue);
        let speeds = (base, shared.speed.map(|speed| (speed, servers)));
        let meter = Meter::new(
            servers,
            shared.window_ns,
            (busy, clients),
            (shared.series, shared.turn.map(|turn| turn.at_ns)),
        );
        let jitter_of = experiment.jitter_of;
        let rest = Rest {
            policy: setup.candidate.policy(),
            clients: (0..clients)
                .map(|_| Client { deadline_ns: NEVER, ..Client::default() })
                .collect(),
            servers: Servers::new(shape, speeds, setup.mechanism(shared), stream(b"speed")),
            stages,
            path,
            jitter: setup.jitter().map(|_| (Draws::new(setup, shard), jitter_of)),
            copies: Vec::new(),
            free: Vec::new(),
            requests: Lane::new(network, lane_rng(b"to servers")),
            responses: Lane::new(shared.noise.as_ref().or(network), lane_rng(b"to clients")),
            wants: Wants {
                starts: setup.needs().starts,
                forecasts: setup.needs().forecasts,
                stops: setup.candidate.policy().hedges(),
                feedback: cells.iter().any(|cell| cell.needs().feedback),
                bytes: cells.iter().any(|cell| cell.needs().bytes),
            },
            repairs: Vec::new(),
            stopped: Vec::new(),
            count: servers,
            rings: shared.rings(servers),
            replicas: shared.replicas,
            open: 0,
            overflowed: false,
            service_ns: 0,
            meter,
            scores,
        };
        let (timers, turn) = (Heaps::new(1), shared.turn);
        let mut shard = Self { cells, timers, demand, turn, now: 0, rest };
        if let Some(Turn { before, .. }) = shared.turn {
            let down = Event::ServerDown { server: ServerId(0) };
            for cell in shard.cells.iter_mut().filter(|_| before == 0.0) {
                cell.handle(Timestamp(0), &down);
            }
            shard.rest.servers.set_speed(0, 0, if before > 0.0 { before } else { 1.0 });
        }
        Ok(shard)
    }

    fn advance(&mut self, until: u64, sink: &mut Sink) {
        loop {
            let Rest { servers, requests, responses, .. } = &self.rest;
            let timer = self.timers.first(0).map_or(NEVER, |(at, _)| at);
            let (change, end) = (servers.next_change(), servers.next_end());
            let (request, response) = (requests.next(), responses.next());
            let turn = self.turn.map_or(NEVER, |turn| turn.at_ns);
            let now = change.min(end).min(request).min(response).min(timer).min(turn);
            if now > until {
                return;
            }
            if turn == now {
                self.turn_first(now, sink);
            } else if change == now {
                self.rest.servers.change(now);
                (0..self.rest.count).for_each(|server| self.rest.score(server));
            } else if end == now {
                let ended = self.rest.end_first(now);
                self.end_copy(now, ended, sink);
            } else if request == now {
                self.rest.receive(now);
            } else if response == now {
                self.respond(now, sink);
            } else if let Some((_, client)) = self.timers.first(0) {
                self.feed(now, client, &Event::Tick, sink);
            }
        }
    }

    /// Changes the speed of the first server, or marks the server as up.
    fn turn_first(&mut self, now: u64, sink: &mut Sink) {
        let Some(Turn { before, after, .. }) = self.turn.take() else { return };
        self.rest.servers.set_speed(now, 0, after);
        for client in (0..self.cells.len() as u32).filter(|_| before == 0.0) {
            self.feed(now, client, &Event::ServerUp { server: ServerId(0) }, sink);
        }
    }

    fn arrive(&mut self, now: u64, request: u64, new: NewRequest, sink: &mut Sink) {
        let NewRequest { client, group, work_ns, jitter_ns, repairs } = new;
        let query =
            QueryState { jitter_ns, repairs, ..QueryState::new(request, now, work_ns, group) };
        self.begin_query(now, client, query, sink);
    }

    fn begin_query(&mut self, now: u64, client: u32, query: QueryState, sink: &mut Sink) {
        let of = &mut self.rest.clients[client as usize];
        let id = of.free.pop().unwrap_or(of.queries.len() as u32);
        if id as usize == of.queries.len() {
            of.queries.push(query);
        }
        of.queries[id as usize] = query;
        self.rest.open += 1;
        let arrive = Arrive::new(QueryId(id), GroupId(query.group));
        self.feed(now, client, &Event::Arrive(arrive), sink);
    }

    fn feed(&mut self, now: u64, client: u32, event: &Event, sink: &mut Sink) {
        let cell = &mut self.cells[client as usize];
        for action in cell.handle(Timestamp(now), event) {
            self.rest.act(now, client, action, sink);
        }
        let deadline_ns = cell.next_deadline().0;
        let known = &mut self.rest.clients[client as usize].deadline_ns;
        if *known != deadline_ns {
            *known = deadline_ns;
            self.timers.remove(0, client);
            if deadline_ns != NEVER {
                self.timers.insert(0, deadline_ns, client);
            }
        }
        while let Some((group, taken, work_ns)) = self.rest.repairs.pop() {
            self.repair(now, client, group, (taken, work_ns), sink);
        }
        while let Some(number) = self.rest.stopped.pop() {
            self.end_copy(now, Some((number, false)), sink);
        }
    }

    /// Starts read repairs at the other servers of a group. Each server forms a separate group,
    /// numbered after the rings.
    fn repair(
        &mut self,
        now: u64,
        client: u32,
        group: u32,
        (taken, work_ns): (ServerId, f64),
        sink: &mut Sink,
    ) {
        let Rest { count, rings, replicas, .. } = self.rest;
        for server in (0..replicas).map(|member| (group + member) % count) {
            // Do not read from a server that is down, because no client would wait for its
            // response.
            let up = self.cells[client as usize].core().server(ServerId(server)).up;
            if server != taken.0 && up {
                let query = QueryState::new(REPAIR, now, work_ns, rings + server);
                self.begin_query(now, client, query, sink);
            }
        }
    }

    /// Handles a message that arrives at a client.
    fn respond(&mut self, now: u64, sink: &mut Sink) {
        let (client, event) = match self.rest.responses.take() {
            None => return,
            Some(ToClient::Finished(number)) => {
                let ended = self.rest.receive_response(now, number);
                return self.end_copy(now, ended, sink);
            }
            Some(ToClient::Stopped(number)) => {
                return self.end_copy(now, Some((number, false)), sink);
            }
            Some(ToClient::Started { client, copy }) => (client, Event::Started { copy }),
            Some(ToClient::Forecast { client, copy, ends }) => {
                (client, Event::Forecast { copy, ends })
            }
            Some(ToClient::Probed { client, probed }) => (client, Event::Probed(probed)),
        };
        self.feed(now, client, &event, sink);
    }

    /// Ends a copy that has returned to its client, either done or stopped.
    fn end_copy(&mut self, now: u64, ended: Option<(u32, bool)>, sink: &mut Sink) {
        let Some((number, is_done)) = ended else { return };
        let Copy { id: copy, client, .. } = self.rest.copies[number as usize];
        if is_done {
            let feedback = self.rest.record_response(number);
            if self.rest.wants.feedback {
                let cell = &mut self.cells[client as usize];
                let actions = cell.handle(Timestamp(now), &Event::Feedback { copy, feedback });
                debug_assert!(actions.is_empty(), "it starts and ends nothing");
            }
            if self.rest.wants.bytes {
                let size = Event::Received { copy, bytes: RESPONSE_BYTES };
                self.cells[client as usize].handle(Timestamp(now), &size);
            }
            self.feed(now, client, &Event::Finished { copy, outcome: Outcome::Good }, sink);
        } else {
            self.feed(now, client, &Event::Stopped { copy }, sink);
        }
        self.rest.free.push(number);
    }
}

impl Part for SharedShard {
    fn run(&mut self, times: &[u64], first: u64, sink: &mut Sink) {
        for (&time, request) in times.iter().zip(first..) {
            self.advance(time, sink);
            let new = self.demand.next();
            self.arrive(time, request, new, sink);
        }
        if let Some(&last) = times.last() {
            self.now = last;
            self.rest.meter.block(last, sink.measures(first));
        }
        sink.tally.queue_full |= self.rest.overflowed;
        sink.tally.overflowed |= self.rest.overflowed;
    }

    fn change(&mut self, to: &Setup<'_>, _: u64, now: u64, sink: &mut Sink) {
        self.advance(now, sink);
        let shared = to.experiment.shared.as_ref();
        if let Some((shared, surge)) = shared.and_then(|shared| Some((shared, shared.surge?))) {
            // The additional demand comes from the first clients. The rest of the demand comes
            // equally from all clients, as before.
            let before = surge.before / surge.utilization;
            let share =
                1.0 - before + before * f64::from(surge.clients) / f64::from(shared.clients);
            self.demand.skew(surge.clients, share);
        }
    }

    fn open(&self) -> u64 {
        self.rest.open
    }

    fn load(&self) -> Option<LoadTally> {
        let Rest { servers, path, stages, meter, .. } = &self.rest;
        let mut tally = meter.tally().clone();
        for (name, range) in path.stages(*stages) {
            let slots = range.len() as u128 * servers.slots();
            let (ended, running) = servers.busy_ns(self.now, range);
            tally.stages.push((name.to_owned(), ended + running, slots * u128::from(self.now)));
        }
        Some(tally)
    }

    fn executed(&self, now: u64) -> (u128, u128) {
        self.rest.servers.busy_ns(now, 0..self.rest.count as usize)
    }

    fn publish(&mut self, client: usize, into: &mut Vec<Record>) {
        self.cells[client].publish(into);
    }

    fn adopt(&mut self, client: usize, snapshot: &Snapshot) {
        self.cells[client].adopt(snapshot);
    }
}
