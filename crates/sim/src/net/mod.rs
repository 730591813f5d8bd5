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
mod path;
mod servers;

use curtail_kernel::hedge::{Records, Snapshot};
use curtail_kernel::{
    Arrive, CopyId, Event, GroupId, Heaps, NEVER_NS, Outcome, Policy, Probed, QueryId, Scheduler,
    ServerId, Timestamp,
};

use crate::agenda::NEVER;
use crate::candidate::Candidate;
use crate::draws::Draws;
use crate::error::Error;
use crate::experiment::{Experiment, JitterOf};
use crate::load::{LoadTally, Meter, StageTally};
use crate::mail::Lane;
use crate::part::{Executed, Part, Wants};
use crate::pool::Pool;
use crate::setup::Setup;
use crate::sink::Sink;
use crate::world::{Shared, Surge, Turn};
use books::{Client, Copy, QueryState, REPAIR};
use cells::Scores;
use demand::{Demand, NewRequest};
use path::Path;
use servers::{Servers, Stages};

/// The clients, the servers, and the messages between them.
pub(crate) struct SharedShard {
    cells: Vec<Box<dyn Scheduler>>,
    /// The next deadline of each client's cell.
    timers: Heaps<u64>,
    demand: Demand,
    surge: Option<Surge>,
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
    path: Path,
    /// Draws the J of third and further copies.
    jitter: Option<(Draws, JitterOf)>,
    /// Open copies.
    copies: Pool<Copy>,
    requests: Lane<ToServer>,
    responses: Lane<ToClient>,
    wants: Wants,
    /// Whether copies may be cancelled. If so, it must be possible to find them by id.
    stops: bool,
    /// Read repairs that are about to begin.
    repairs: Vec<Repair>,
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
    /// Measures the load, if it is reported.
    meter: Option<Meter>,
    scores: Option<Scores>,
}

/// A read repair.
#[derive(Clone, Copy)]
struct Repair {
    group: u32,
    /// The server that already reads it.
    taken: ServerId,
    work_ns: f64,
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
        let Experiment { slots, queue, network, cancel_ns, jitter_of, .. } = setup.experiment;
        let Shared { servers, clients, replicas, turn, .. } = *shared;
        let stream = |what: &[u8]| setup.stream(what, shard);
        let is_oracle = setup.candidate == Candidate::Oracle;
        let scores = is_oracle.then(|| Scores::new(servers as usize));
        let cells = setup.shared_cells(shared, shard..shard + clients, scores.as_ref())?;
        let lane_rng = |name: &[u8]| curtail_dist::seed::rng(stream(name));
        let network = network.as_ref();
        let demand = Demand::new(setup, shared, shard);
        let busy = shared.surge.as_ref().map_or(demand.busy(), |surge| surge.clients);
        let path = Path::new(shared, stream);
        let (policy, needs) = (setup.candidate.policy(), setup.needs());
        let stages = Stages {
            count: path.stages,
            slots: *slots,
            queue: *queue,
            chunk_ns: if needs.finishing { NEVER_NS } else { shared.chunk_ns },
            stop_ns: *cancel_ns,
            speed: shared.speed,
            changing: servers,
        };
        let client = |_| Client { queries: Pool::new(), copies: Vec::new(), deadline_ns: NEVER };
        let rest = Rest {
            policy,
            clients: (0..clients).map(client).collect(),
            servers: Servers::new(stages, stream(b"speed")),
            path,
            jitter: setup.jitter().map(|_| (Draws::new(setup, shard), *jitter_of)),
            copies: Pool::new(),
            requests: Lane::new(network, lane_rng(b"to servers")),
            responses: Lane::new(shared.noise.as_ref().or(network), lane_rng(b"to clients")),
            wants: Wants::new(&needs, &cells[0].needs()),
            stops: policy.hedges(),
            repairs: Vec::new(),
            stopped: Vec::new(),
            count: servers,
            rings: shared.rings(),
            replicas,
            open: 0,
            overflowed: false,
            service_ns: 0,
            meter: shared.load.map(|windows| Meter::new(servers, windows, busy, clients, turn)),
            scores,
        };
        let (timers, surge) = (Heaps::new(1), shared.surge.clone());
        let mut shard = Self { cells, timers, demand, surge, turn, now: 0, rest };
        if let Some(Turn { before, .. }) = turn {
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
        let id = of.queries.add(query);
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
        while let Some(repair) = self.rest.repairs.pop() {
            self.repair(now, client, repair, sink);
        }
        while let Some(number) = self.rest.stopped.pop() {
            self.end_copy(now, Some((number, false)), sink);
        }
    }

    /// Starts read repairs at the other servers of a group. Each server forms a separate group,
    /// numbered after the rings.
    fn repair(&mut self, now: u64, client: u32, repair: Repair, sink: &mut Sink) {
        let Repair { group, taken, work_ns } = repair;
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
        let Copy { id: copy, client, .. } = self.rest.copies[number];
        if is_done {
            let feedback = self.rest.record_response(number);
            let cell = &mut *self.cells[client as usize];
            self.rest.wants.report(cell, now, copy, feedback);
            self.feed(now, client, &Event::Finished { copy, outcome: Outcome::Good }, sink);
        } else {
            self.feed(now, client, &Event::Stopped { copy }, sink);
        }
        self.rest.copies.free(number);
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
            if let Some(meter) = &mut self.rest.meter {
                meter.block(last, sink.measures(first));
            }
        }
        sink.overflowed(self.rest.overflowed);
    }

    fn change(&mut self, _: &Setup<'_>, _: u64, now: u64, sink: &mut Sink) {
        self.advance(now, sink);
        if let Some(surge) = &self.surge {
            self.demand.rise(surge);
        }
    }

    fn open(&self) -> u64 {
        self.rest.open
    }

    fn load(&self) -> Option<LoadTally> {
        let Rest { servers, path, meter, .. } = &self.rest;
        let mut tally = meter.as_ref()?.tally().clone();
        for (name, range) in path.stages() {
            let slots = range.len() as u128 * servers.slots();
            let Executed { ended_ns, running_ns } = servers.executed(self.now, range);
            tally.stages.push(StageTally {
                name: name.to_owned(),
                busy_ns: ended_ns + running_ns,
                capacity_ns: slots * u128::from(self.now),
            });
        }
        Some(tally)
    }

    fn executed(&self, now: u64) -> Executed {
        self.rest.servers.executed(now, 0..self.rest.count as usize)
    }

    fn publish(&mut self, client: usize, into: &mut Records) {
        self.cells[client].publish(into);
    }

    fn adopt(&mut self, client: usize, snapshot: &Snapshot) {
        self.cells[client].adopt(snapshot);
    }
}
