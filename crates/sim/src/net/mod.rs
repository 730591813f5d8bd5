//! Servers that clients share: many clients, each with a kernel cell of its own, send to the same servers over a
//! network, and know of each other only by what the servers say.
//!
//! Source: document 002 §4.4.2, the simulator of C3. A shard ([`crate::shard`]) has one cell and servers of its
//! own, and so needs no order of events beyond them; here all events have one order. A request asks one group,
//! a ring of neighbors. What happens at the same time happens in this order: speeds change, copies end, messages
//! arrive at servers, then at clients, timers of cells, requests arrive.
//!
//! Deviations from the source: requests come from one Poisson process rather than from 200 that add up to
//! the same; the work of a request that runs when the speed changes goes on at the new speed; and reads for
//! repair are queries of their own, which wait for tokens as others do.
//!
//! Cost per request: three messages or ends, O(1) each but for the heap of the slots, and three events of the
//! kernel. Memory: O(clients · servers + open requests).

mod cells;
mod demand;
mod oracle;
mod servers;

use curtail_kernel::hedge::{Record, Snapshot};
use curtail_kernel::stage::Admission;
use curtail_kernel::{
    Action, Arrive, CopyId, Event, Feedback, GroupId, Heaps, Outcome, Probed, QueryId, Role,
    Scheduler, ServerId, ShedReason, Timestamp,
};

use crate::agenda::NEVER;
use crate::error::Error;
use crate::experiment::Setup;
use crate::load::{LoadTally, Meter};
use crate::mail::Lane;
use crate::part::Part;
use crate::shared::{Shared, Turn};
use crate::sink::{Answered, Sink};
use demand::{Asked, Demand};
use oracle::Scores;
use servers::Servers;

/// The clients, the servers, and what is on its way between them.
pub(crate) struct World {
    cells: Vec<Box<dyn Scheduler>>,
    /// By client: its cell's next deadline.
    timers: Heaps<u64>,
    demand: Demand,
    /// What is still to happen to the first server.
    turn: Option<Turn>,
    rest: Rest,
}

/// All but the cells: what their actions change.
struct Rest {
    clients: Vec<Client>,
    servers: Servers,
    /// Copies that have not ended, by a number that is their job's name, too.
    copies: Vec<Copy>,
    free: Vec<u32>,
    requests: Lane<ToServer>,
    responses: Lane<ToClient>,
    wants: Wants,
    /// Reads for repair that are to begin: the query's group, the server that it has, and its work.
    repairs: Vec<(u32, ServerId, f64)>,
    groups: u32,
    replicas: u32,
    open: u64,
    /// More waited at a server than may.
    overflowed: bool,
    /// Of the response at hand: how long its copy executed.
    service_ns: u64,
    meter: Meter,
    scores: Option<Scores>,
}

#[derive(Clone, Copy)]
struct Wants {
    starts: bool,
    feedback: bool,
    /// Copies may be cancelled, so that they have to be found by their ids.
    stops: bool,
}

#[derive(Default)]
struct Client {
    queries: Vec<Query>,
    free: Vec<u32>,
    /// By slot of a copy: its number.
    copies: Vec<u32>,
    deadline_ns: u64,
}

/// The request of a query that repairs another.
const REPAIR: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Query {
    request: u64,
    arrived_ns: u64,
    work_ns: f64,
    group: u32,
    repairs: bool,
    copies: u32,
    served_ns: u64,
}

/// All about it that servers ask for: a client's tables are as good as never in a cache when another client's
/// turn comes.
#[derive(Clone, Copy, Debug)]
struct Copy {
    id: CopyId,
    client: u32,
    query: u32,
    request: u64,
    server: u32,
    /// Its name there.
    job: u32,
    work_ns: f64,
    began_ns: u64,
}

enum ToServer {
    Deliver(u32),
    Stop { copy: u32, client: u32, id: CopyId },
    Probe { client: u32, server: ServerId },
}

enum ToClient {
    Finished(u32, Feedback),
    Stopped(u32),
    Started(u32),
    Probed { client: u32, probed: Probed },
}

impl World {
    pub(crate) fn new(setup: &Setup<'_>, shared: &Shared) -> Result<Self, Error> {
        let experiment = setup.experiment;
        let (servers, clients) = (experiment.servers.len() as u32, shared.clients);
        let stream = |what: &[u8]| setup.stream(what, 0);
        let scores = setup.is_oracle().then(|| Scores::new(servers as usize));
        let cells = setup.shared_cells(shared, scores.as_ref())?;
        let base = if shared.speed.is_some() { 1.0 } else { experiment.servers[0] };
        let shape = (servers, experiment.slots, experiment.queue);
        let lane_rng = |name: &[u8]| curtail_dist::seed::rng(stream(name));
        let network = experiment.network.as_ref();
        let demand = Demand::new(
            (clients, servers),
            shared.demand,
            shared.repair,
            &experiment.service,
            stream,
        );
        let busy = shared.surge.map_or(demand.busy(), |surge| surge.clients);
        let rest = Rest {
            clients: (0..clients)
                .map(|_| Client { deadline_ns: NEVER, ..Client::default() })
                .collect(),
            servers: Servers::new(shape, base, shared.speed, stream(b"speed")),
            copies: Vec::new(),
            free: Vec::new(),
            requests: Lane::new(network, lane_rng(b"to servers")),
            responses: Lane::new(network, lane_rng(b"to clients")),
            wants: Wants {
                starts: setup.wants_starts(),
                stops: setup.candidate.policy().hedges(),
                feedback: cells.iter().any(Scheduler::reads_feedback),
            },
            repairs: Vec::new(),
            groups: servers,
            replicas: shared.replicas,
            open: 0,
            overflowed: false,
            service_ns: 0,
            meter: Meter::new(
                servers,
                shared.window_ns,
                (busy, clients),
                (shared.series, shared.turn.map(|turn| turn.at_ns)),
            ),
            scores,
        };
        let mut world = Self { cells, timers: Heaps::new(1), demand, turn: shared.turn, rest };
        if let Some(Turn { before, .. }) = shared.turn {
            let down = Event::ServerDown { server: ServerId(0) };
            for cell in world.cells.iter_mut().filter(|_| before == 0.0) {
                cell.handle(Timestamp(0), &down);
            }
            world.rest.servers.set_speed(0, 0, if before > 0.0 { before } else { 1.0 });
        }
        Ok(world)
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
                (0..self.rest.groups).for_each(|server| self.rest.score(server));
            } else if end == now {
                self.rest.end_first(now);
            } else if request == now {
                self.rest.receive(now);
            } else if response == now {
                self.respond(now, sink);
            } else if let Some((_, client)) = self.timers.first(0) {
                self.feed(now, client, &Event::Tick, sink);
            }
        }
    }

    /// The first server turns: it gets another speed, or comes up.
    fn turn_first(&mut self, now: u64, sink: &mut Sink) {
        let Some(Turn { before, after, .. }) = self.turn.take() else { return };
        self.rest.servers.set_speed(now, 0, after);
        for client in (0..self.cells.len() as u32).filter(|_| before == 0.0) {
            self.feed(now, client, &Event::ServerUp { server: ServerId(0) }, sink);
        }
    }

    fn arrive(&mut self, now: u64, request: u64, asked: Asked, sink: &mut Sink) {
        let Asked { client, group, work_ns, repairs } = asked;
        let (arrived_ns, copies, served_ns) = (now, 0, NEVER);
        let query = Query { request, arrived_ns, work_ns, group, repairs, copies, served_ns };
        self.ask(now, client, query, sink);
    }

    fn ask(&mut self, now: u64, client: u32, query: Query, sink: &mut Sink) {
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
    }

    /// The other servers of a group are read, too: each is a group of its own, behind those of several.
    fn repair(
        &mut self,
        now: u64,
        client: u32,
        group: u32,
        (taken, work_ns): (ServerId, f64),
        sink: &mut Sink,
    ) {
        let Rest { groups, replicas, .. } = self.rest;
        for server in (0..replicas).map(|member| (group + member) % groups) {
            // One that is down is not read: no client would wait for it.
            let up = self.cells[client as usize].core().server(ServerId(server)).up;
            if server != taken.0 && up {
                let (request, arrived_ns, copies, served_ns) = (REPAIR, now, 0, NEVER);
                let (group, repairs) = (groups + server, false);
                let query =
                    Query { request, arrived_ns, work_ns, group, repairs, copies, served_ns };
                self.ask(now, client, query, sink);
            }
        }
    }

    /// A message arrives at a client.
    fn respond(&mut self, now: u64, sink: &mut Sink) {
        let Some(message) = self.rest.responses.take() else { return };
        let number = match message {
            ToClient::Probed { client, probed } => {
                return self.feed(now, client, &Event::Probed(probed), sink);
            }
            ToClient::Finished(number, _)
            | ToClient::Stopped(number)
            | ToClient::Started(number) => number,
        };
        let Copy { id: copy, client, .. } = self.rest.copies[number as usize];
        match message {
            ToClient::Probed { .. } => {}
            ToClient::Started(_) => return self.feed(now, client, &Event::Started { copy }, sink),
            ToClient::Stopped(_) => self.feed(now, client, &Event::Stopped { copy }, sink),
            ToClient::Finished(_, feedback) => {
                self.rest.heard(number, feedback);
                if self.rest.wants.feedback {
                    let cell = &mut self.cells[client as usize];
                    let actions = cell.handle(Timestamp(now), &Event::Feedback { copy, feedback });
                    debug_assert!(actions.is_empty(), "it starts and ends nothing");
                }
                self.feed(now, client, &Event::Finished { copy, outcome: Outcome::Good }, sink);
            }
        }
        self.rest.free.push(number);
    }
}

impl Rest {
    fn act(&mut self, now: u64, client: u32, action: &Action, sink: &mut Sink) {
        match *action {
            Action::Start { copy, query, server, role, .. } => {
                self.start(now, client, copy, query, server, role);
            }
            Action::Answer { query, .. } => self.answer(now, client, query, sink),
            Action::Stop { copy: id, .. } => {
                let copy = self.clients[client as usize].copies[id.slot as usize];
                self.requests.send(now, ToServer::Stop { copy, client, id });
            }
            Action::Fail { query, .. } => self.fail(client, query, sink),
            Action::Shed { query, why } => {
                let repairs =
                    self.clients[client as usize].queries[query.index()].request == REPAIR;
                let is_full = why == ShedReason::QueueFull && !repairs;
                sink.tally.queue_full |= is_full;
                sink.tally.overflowed |= is_full;
                self.fail(client, query, sink);
            }
            Action::Probe { server } => {
                self.requests.send(now, ToServer::Probe { client, server });
            }
            // Nothing fails here, so nothing is lost or ejected.
            Action::Lose { .. } | Action::Eject { .. } | Action::Restore { .. } => {}
        }
    }

    fn start(
        &mut self,
        now: u64,
        client: u32,
        id: CopyId,
        query: QueryId,
        server: ServerId,
        role: Role,
    ) {
        let of = &mut self.clients[client as usize];
        let state = &mut of.queries[query.index()];
        state.copies += 1;
        if state.repairs && role == Role::Primary {
            state.repairs = false;
            self.repairs.push((state.group, server, state.work_ns));
        }
        let (request, server) = (state.request, server.0);
        let (job, work_ns, began_ns) = (0, state.work_ns, NEVER);
        let query = query.0;
        let copy = Copy { id, client, query, request, server, job, work_ns, began_ns };
        let number = self.free.pop().unwrap_or(self.copies.len() as u32);
        if number as usize == self.copies.len() {
            self.copies.push(copy);
        }
        self.copies[number as usize] = copy;
        if self.wants.stops {
            if of.copies.len() <= id.slot as usize {
                of.copies.resize(id.slot as usize + 1, 0);
            }
            of.copies[id.slot as usize] = number;
        }
        self.requests.send(now, ToServer::Deliver(number));
    }

    fn answer(&mut self, now: u64, client: u32, query: QueryId, sink: &mut Sink) {
        let of = &mut self.clients[client as usize];
        of.free.push(query.0);
        self.open -= 1;
        let Query { request, arrived_ns, copies, served_ns, .. } = of.queries[query.index()];
        if request == REPAIR {
            return;
        }
        // The response at hand is the one that answers.
        let useful_ns = self.service_ns;
        let latency_ns = now - arrived_ns;
        let waited_ns = served_ns - arrived_ns;
        if sink.measures(request) {
            self.meter.answered(client, latency_ns);
        }
        sink.answered(Answered { request, latency_ns, waited_ns, useful_ns, copies });
    }

    fn fail(&mut self, client: u32, query: QueryId, sink: &mut Sink) {
        let of = &mut self.clients[client as usize];
        of.free.push(query.0);
        self.open -= 1;
        let request = of.queries[query.index()].request;
        if request != REPAIR {
            sink.failed(request);
        }
    }

    /// A message arrives at a server.
    fn receive(&mut self, now: u64) {
        match self.requests.take() {
            None => {}
            Some(ToServer::Deliver(number)) => {
                let Copy { server, work_ns, .. } = self.copies[number as usize];
                let (job, admission) = self.servers.arrive(now, server, number, work_ns);
                self.copies[number as usize].job = job;
                self.meter.received(now, server, self.servers.outstanding(server));
                self.score(server);
                match admission {
                    Admission::Starts => self.begun(now, number),
                    Admission::Waits => {}
                    // Its queue is as long as that of all clients: the run ends for that.
                    Admission::Refused => {
                        self.overflowed = true;
                        self.responses.send(now, ToClient::Stopped(number));
                    }
                }
            }
            Some(ToServer::Probe { client, server }) => {
                let (in_flight, latency_ns) = self.servers.probe(server.0);
                let probed = Probed { server, in_flight, latency_ns };
                self.responses.send(now, ToClient::Probed { client, probed });
            }
            Some(ToServer::Stop { copy: number, client, id }) => {
                let copy = self.copies[number as usize];
                if (copy.client, copy.id) != (client, id) {
                    return; // it has ended, and its number is another's
                }
                if self.servers.withdraw(copy.server, copy.job, number) {
                    self.responses.send(now, ToClient::Stopped(number));
                } else if let Some((_, next)) = self.servers.stop(now, copy.server, number) {
                    self.responses.send(now, ToClient::Stopped(number));
                    self.next(now, next);
                }
                self.score(copy.server);
            }
        }
    }

    fn end_first(&mut self, now: u64) {
        let Some((number, feedback, next)) = self.servers.end_first(now) else { return };
        self.responses.send(now, ToClient::Finished(number, feedback));
        self.score(self.copies[number as usize].server);
        self.next(now, next);
    }

    fn next(&mut self, now: u64, next: Option<u32>) {
        if let Some(next) = next {
            self.begun(now, next);
        }
    }

    /// A response has arrived: its query was served from then on, if it has not ended.
    fn heard(&mut self, number: u32, feedback: Feedback) {
        self.service_ns = feedback.service_ns;
        let Copy { client, query, request, began_ns, .. } = self.copies[number as usize];
        let query = &mut self.clients[client as usize].queries[query as usize];
        // The query's id may be another's already.
        if query.request == request {
            query.served_ns = query.served_ns.min(began_ns);
        }
    }

    fn begun(&mut self, now: u64, number: u32) {
        self.copies[number as usize].began_ns = now;
        if self.wants.starts {
            self.responses.send(now, ToClient::Started(number));
        }
    }

    fn score(&self, server: u32) {
        if let Some(scores) = &self.scores {
            scores.set(server, self.servers.outstanding(server), self.servers.speed(server));
        }
    }
}

impl Part for World {
    fn run(&mut self, times: &[u64], first: u64, sink: &mut Sink) {
        for (&time, request) in times.iter().zip(first..) {
            self.advance(time, sink);
            let asked = self.demand.next();
            self.arrive(time, request, asked, sink);
        }
        if let Some(&last) = times.last() {
            self.rest.meter.block(last, sink.measures(first));
        }
        sink.tally.queue_full |= self.rest.overflowed;
        sink.tally.overflowed |= self.rest.overflowed;
    }

    fn change(&mut self, to: &Setup<'_>, _: u64, now: u64, sink: &mut Sink) {
        self.advance(now, sink);
        let shared = to.experiment.shared.as_ref();
        if let Some((shared, surge)) = shared.and_then(|shared| Some((shared, shared.surge?))) {
            // What is new comes from the first clients; the rest from all alike, as before.
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
        Some(self.rest.meter.tally().clone())
    }

    fn executed(&self, now: u64) -> (u128, u128) {
        (self.rest.servers.busy_ns, self.rest.servers.running_ns(now))
    }

    fn publish(&mut self, into: &mut Vec<Record>) {
        self.cells.iter_mut().for_each(|cell| cell.publish(into));
    }

    fn adopt(&mut self, snapshot: &Snapshot) {
        self.cells.iter_mut().for_each(|cell| cell.adopt(snapshot));
    }
}
