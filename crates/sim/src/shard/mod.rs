//! One shard: the kernel's cell, its servers, and the events between them in virtual time.
//!
//! Shards share only the arrivals and the open requests, so each shard runs through a block of
//! arrivals by itself. There is no event heap. The next event is the earliest of four: the next
//! arrival, the next end of a copy, the next deadline of the cell, and the next message on the
//! network. Cost per query: two kernel events, and a scan of the servers.

mod accuracy;
mod leaves;
mod network;
mod scripted;

use std::collections::VecDeque;
use std::num::NonZeroU64;

use curtail_dist::seed;
use curtail_kernel::hedge::{Records, Snapshot};
use curtail_kernel::{
    Action, Arrive, CopyId, Event, GroupId, Outcome, Probed, QueryId, Rng, Scheduler, ServerId,
    ShedReason, StopReason, Timestamp,
};

use leaves::{CopyState, Halt, Leaves};
use network::{Message, Network};

use crate::agenda::{Due, NEVER};
use crate::calendar::Calendar;
use crate::draws::{Drawn, Draws};
use crate::experiment::Experiment;
use crate::part::{Executed, Part, Wants};
use crate::pool::Pool;
use crate::setup::Setup;
use crate::sink::{Answered, Sink};
use crate::train::Log;
use crate::world::{Shards, World};

#[derive(Clone, Copy, Debug)]
struct QueryState {
    request: u64,
    arrived_ns: u64,
    service_ns: u64,
    /// The jitter of its first two copies.
    jitter_ns: [u64; 2],
    copies: u32,
    /// The time at which the first of its copies began to execute.
    served_ns: u64,
}

pub(crate) struct Shard<S> {
    cell: S,
    state: ShardState,
    /// Whether the policy sets deadlines. `deadline_ns` is the next one.
    timed: bool,
    deadline_ns: u64,
    drawn: Vec<Drawn>,
    /// Cost hints of the queries in `drawn`. Empty without hints.
    hints: Vec<NonZeroU64>,
    /// The response times for training a policy. Requires `timed`.
    pub(crate) log: Option<Log>,
}

struct ShardState {
    now: u64,
    leaves: Leaves,
    queries: Pool<QueryState>,
    draws: Draws,
    network: Network,
    wants: Wants,
    /// Whether responses take time on the network, or carry feedback or their size.
    responds: bool,
    /// Whether servers respond to probes.
    probes: bool,
    cancel_ns: u64,
    /// More events for the cell at the current time.
    follow: VecDeque<Event>,
}

impl<S: Scheduler> Shard<S> {
    /// Creates the shard `index` of an experiment. `log` is for training a policy.
    pub(crate) fn new(
        setup: &Setup<'_>,
        index: u32,
        cell: &mut impl FnMut(Rng) -> S,
        log: Option<Log>,
    ) -> Self {
        let Experiment { world, network, slots, queue, .. } = setup.experiment;
        let servers = world.servers();
        let stream = |what: &[u8]| setup.stream(what, index);
        let calendars = calendars(setup, index);
        let cell = cell(curtail_kernel::rng(stream(b"cell")));
        let wants = Wants::new(&setup.needs(), &cell.needs());
        let state = ShardState {
            now: 0,
            leaves: Leaves::new(servers as usize, *slots as usize, *queue as usize, calendars),
            queries: Pool::new(),
            draws: Draws::new(setup, index),
            network: Network::new(network.as_ref(), world.outages(), servers, stream),
            wants,
            responds: network.is_some() || wants.responses(),
            probes: true,
            cancel_ns: setup.experiment.cancel_ns,
            follow: VecDeque::new(),
        };
        Self {
            cell,
            state,
            timed: setup.needs().timers,
            deadline_ns: NEVER,
            drawn: Vec::new(),
            hints: Vec::new(),
            log,
        }
    }

    #[inline(always)]
    fn advance(&mut self, until: u64, sink: &mut Sink) {
        loop {
            let Due { at: end, place } = self.state.leaves.next_end();
            let other = self.state.network.mail.next().min(self.deadline_ns);
            if end <= other {
                if end > until {
                    return;
                }
                self.complete(end, place, sink);
            } else {
                if other > until {
                    return;
                }
                self.other(other, sink);
            }
        }
    }

    #[inline(always)]
    fn arrive(
        &mut self,
        time: u64,
        request: u64,
        own: Drawn,
        cost_hint: Option<NonZeroU64>,
        sink: &mut Sink,
    ) {
        let Drawn { service_ns, jitter_ns } = own;
        let id = self.state.queries.add(QueryState {
            request,
            arrived_ns: time,
            service_ns,
            jitter_ns,
            copies: 0,
            served_ns: NEVER,
        });
        let arrive = Arrive { cost_hint, ..Arrive::new(QueryId(id), GroupId(0)) };
        self.feed(time, &Event::Arrive(arrive), sink);
    }

    #[inline(always)]
    fn complete(&mut self, now: u64, place: usize, sink: &mut Sink) {
        let (CopyState { id: copy, stopping, .. }, next) = self.state.leaves.complete(now, place);
        if let Some(next) = next {
            self.state.begun(now, next);
        }
        if self.state.responds {
            return self.respond(now, copy, stopping, sink);
        }
        let event = match stopping {
            false => Event::Finished { copy, outcome: Outcome::Good },
            true => {
                self.state.judge(copy, self.cell.core(), sink);
                Event::Stopped { copy }
            }
        };
        self.feed(now, &event, sink);
    }

    /// Sends a response that takes time on the network or carries feedback.
    #[inline(never)]
    fn respond(&mut self, now: u64, copy: CopyId, stopping: bool, sink: &mut Sink) {
        if self.state.wants.responses() {
            self.state.leaves.note_queue(copy);
        }
        let message = if stopping { Message::Stopped(copy) } else { Message::Finished(copy) };
        if self.state.network.takes_time() {
            return self.state.network.send(now, message);
        }
        if stopping {
            self.state.judge(copy, self.cell.core(), sink);
            return self.feed(now, &Event::Stopped { copy }, sink);
        }
        self.report(now, copy);
        self.feed(now, &Event::Finished { copy, outcome: Outcome::Good }, sink);
    }

    fn report(&mut self, now: u64, copy: CopyId) {
        let feedback = self.state.leaves.feedback(copy);
        self.state.wants.report(&mut self.cell, now, copy, feedback);
    }

    /// Handles a deadline of the cell or a message from the network.
    #[inline(never)]
    fn other(&mut self, now: u64, sink: &mut Sink) {
        if self.deadline_ns <= now {
            return self.feed(now, &Event::Tick, sink);
        }
        let Some(message) = self.state.network.mail.take() else { return };
        if let Some(event) = self.state.receive(now, message) {
            if let Event::Finished { copy, .. } = event {
                self.report(now, copy);
            }
            if let Event::Stopped { copy } = event {
                self.state.judge(copy, self.cell.core(), sink);
            }
            self.feed(now, &event, sink);
        }
        self.follow_up(sink);
    }

    /// Passes an event to the cell, and then the events that result from it immediately.
    #[inline(always)]
    fn feed(&mut self, now: u64, event: &Event, sink: &mut Sink) {
        self.state.now = now;
        for action in self.cell.handle(Timestamp(now), event) {
            self.state.act(now, action, sink);
        }
        if !self.state.follow.is_empty() {
            self.follow_up(sink);
        }
        if self.timed {
            self.deadline_ns = self.cell.next_deadline().0;
            // This is checked inside the branch, so that it costs nothing for policies without
            // deadlines.
            if self.log.is_some() {
                self.record(now, event, sink);
            }
        }
    }

    #[inline(never)]
    fn record(&mut self, now: u64, event: &Event, sink: &Sink) {
        let Some(log) = &mut self.log else { return };
        match *event {
            Event::Arrive(Arrive { query, .. }) => {
                let QueryState { request, copies, .. } = self.state.queries[query.0];
                // If a query has no copy yet, all servers were down when it arrived, so its delay
                // does not begin now.
                if copies > 0
                    && sink.measures(request)
                    && let Some(first) = self.cell.core().copies_of(query).next()
                {
                    log.arrived(now, request, first.id);
                }
            }
            Event::Finished { copy, .. } => {
                let CopyState { id, request, .. } = self.state.leaves.copies[copy.slot as usize];
                if id == copy {
                    log.finished(now, request, copy);
                }
            }
            _ => {}
        }
    }

    #[inline(never)]
    fn follow_up(&mut self, sink: &mut Sink) {
        while let Some(event) = self.state.follow.pop_front() {
            if let Event::Stopped { copy } = event {
                self.state.judge(copy, self.cell.core(), sink);
            }
            let now = self.state.now;
            for action in self.cell.handle(Timestamp(now), &event) {
                self.state.act(now, action, sink);
            }
        }
        if self.timed {
            self.deadline_ns = self.cell.next_deadline().0;
        }
    }
}

/// Returns the calendars of a shard's servers. Empty if all servers always have speed 1.
fn calendars(setup: &Setup<'_>, shard: u32) -> Vec<Calendar> {
    let World::Shards(Shards { speeds, slowdown, .. }) = &setup.experiment.world else {
        return Vec::new();
    };
    if slowdown.is_none() && speeds.iter().all(|&speed| speed == 1.0) {
        return Vec::new();
    }
    let of = |(server, &speed): (u64, &f64)| {
        let seed = seed::stream(setup.stream(b"speed", shard), &[&server.to_le_bytes()]);
        Calendar::new(speed, slowdown.clone(), seed)
    };
    (0..).zip(speeds).map(of).collect()
}

impl<S: Scheduler> Part for Shard<S> {
    fn publish(&mut self, _: usize, into: &mut Records) {
        self.cell.publish(into);
    }

    fn adopt(&mut self, _: usize, snapshot: &Snapshot) {
        self.cell.adopt(snapshot);
    }

    fn open(&self) -> u64 {
        self.state.queries.open()
    }

    #[cold]
    #[inline(never)]
    fn change(&mut self, to: &Setup<'_>, at: u64, now: u64, sink: &mut Sink) {
        self.advance(now, sink);
        self.state.draws.change(&to.experiment.service, to.jitter(), at);
        if let World::Shards(Shards { speeds, .. }) = &to.experiment.world {
            self.state.leaves.set_speeds(speeds);
        }
    }

    fn run(&mut self, times: &[u64], first: u64, sink: &mut Sink) {
        let mut drawn = std::mem::take(&mut self.drawn);
        self.state.draws.block(times.len(), &mut drawn);
        self.state.draws.guess(&drawn, &mut self.hints);
        for (at, (&time, &own)) in times.iter().zip(&drawn).enumerate() {
            self.advance(time, sink);
            let hint = self.hints.get(at).copied();
            self.arrive(time, first + at as u64, own, hint, sink);
        }
        self.drawn = drawn;
        sink.overflowed(self.state.leaves.overflowed);
    }

    fn executed(&self, now: u64) -> Executed {
        self.state.leaves.executed(now)
    }
}

impl ShardState {
    #[inline(always)]
    fn act(&mut self, now: u64, action: &Action, sink: &mut Sink) {
        match *action {
            Action::Start { copy, query, server, .. } => self.start(now, copy, query, server),
            Action::Answer { query, copy } => self.answer(now, query, copy, sink),
            _ => self.act_rarely(now, action, sink),
        }
    }

    #[inline(never)]
    fn act_rarely(&mut self, now: u64, action: &Action, sink: &mut Sink) {
        match *action {
            Action::Stop { copy, why } => self.stop(now, copy, why),
            Action::Fail { query, .. } => self.fail(query, sink),
            Action::Shed { query, why } => {
                sink.overflowed(why == ShedReason::QueueFull);
                self.fail(query, sink);
            }
            // `Lose` refers to copies of a server that has failed, which are already gone. Servers
            // are never ejected here.
            Action::Lose { .. } | Action::Eject { .. } | Action::Restore { .. } => {}
            Action::Probe { .. } if !self.probes => {}
            Action::Probe { server } => {
                let in_flight = self.leaves.outstanding(server.0);
                let probed = Probed { server, in_flight, latency_ns: 0 };
                self.follow.push_back(Event::Probed(probed));
            }
            Action::Start { .. } | Action::Answer { .. } => unreachable!("done elsewhere"),
        }
    }

    #[inline(always)]
    fn start(&mut self, now: u64, copy: CopyId, query: QueryId, server: ServerId) {
        let state = &mut self.queries[query.0];
        let jitter_ns = match state.copies {
            copy @ 0..=1 => state.jitter_ns[copy as usize],
            further => self.draws.further(state.request, further, state.jitter_ns[0]),
        };
        state.copies += 1;
        let work_ns = state.service_ns.saturating_add(jitter_ns);
        let over_network = self.network.takes_time();
        let place = if over_network { None } else { self.leaves.idle_place(server.0) };
        let ends_ns = match place {
            Some(_) => self.leaves.end(now, server.0, work_ns),
            None => NEVER,
        };
        *self.leaves.entry(copy.slot) = CopyState {
            id: copy,
            query: query.0,
            request: state.request,
            server: server.0,
            work_ns,
            began_ns: now,
            ends_ns,
            served_ns: 0,
            left: 0,
            hiccup: jitter_ns > 0,
            stopping: false,
            preempted: false,
            lost: false,
        };
        let Some(place) = place else { return self.not_begun(now, copy, server) };
        self.leaves.occupy(place, copy.slot, ends_ns);
        state.served_ns = state.served_ns.min(now);
        if self.wants.forecasts | self.wants.starts {
            self.report(now, copy);
        }
    }

    /// Sends a copy over the network, or queues it at its server.
    #[inline(never)]
    fn not_begun(&mut self, now: u64, copy: CopyId, server: ServerId) {
        if self.network.takes_time() {
            self.network.send(now, Message::Deliver(copy));
        } else {
            self.leaves.wait(copy.slot, server.0);
        }
    }

    /// Records that a copy begins to execute after a wait or a trip over the network.
    #[inline(never)]
    fn begun(&mut self, now: u64, slot: u32) {
        let CopyState { id: copy, query, request, .. } = self.leaves.copies[slot as usize];
        let query = &mut self.queries[query];
        // A copy can begin after its query has ended. The query's id may belong to another query by
        // then.
        if query.request == request {
            query.served_ns = query.served_ns.min(now);
        }
        if self.wants.forecasts | self.wants.starts {
            self.report(now, copy);
        }
    }

    #[inline(never)]
    fn report(&mut self, now: u64, copy: CopyId) {
        if self.wants.forecasts
            && let Some(ends) = self.leaves.end_of(copy)
        {
            self.follow.push_back(Event::Forecast { copy, ends: Timestamp(ends) });
        }
        if self.wants.starts && self.network.takes_time() {
            self.network.send(now, Message::Started(copy));
        } else if self.wants.starts {
            self.follow.push_back(Event::Started { copy });
        }
    }

    #[inline(always)]
    fn answer(&mut self, now: u64, query: QueryId, copy: CopyId, sink: &mut Sink) {
        let QueryState { request, arrived_ns, served_ns, copies, .. } = self.queries[query.0];
        self.queries.free(query.0);
        let useful_ns = self.leaves.copies[copy.slot as usize].served_ns;
        let waited_ns = served_ns - arrived_ns;
        sink.answered(Answered {
            request,
            latency_ns: now - arrived_ns,
            waited_ns,
            useful_ns,
            copies,
        });
    }

    fn fail(&mut self, query: QueryId, sink: &mut Sink) {
        self.queries.free(query.0);
        sink.failed(self.queries[query.0].request);
    }

    fn stop(&mut self, now: u64, copy: CopyId, why: StopReason) {
        if why == StopReason::Preemption {
            self.leaves.copies[copy.slot as usize].preempted = true;
        }
        if self.network.takes_time() {
            return self.network.send(now, Message::Stop(copy));
        }
        self.halt(now, copy);
    }

    /// Handles the order to stop a copy at its server.
    fn halt(&mut self, now: u64, copy: CopyId) {
        let Halt::AtOnce(next) = self.leaves.stop(now, copy, self.cancel_ns) else {
            // The copy ends later, has already ended, or was overtaken by the stop order. In the
            // last case, the copy will run.
            return;
        };
        if self.network.takes_time() {
            self.network.send(now, Message::Stopped(copy));
        } else {
            self.follow.push_back(Event::Stopped { copy });
        }
        if let Some(next) = next {
            self.begun(now, next);
        }
    }

    /// Handles a message, and returns the resulting event for the cell, if any.
    fn receive(&mut self, now: u64, message: Message) -> Option<Event> {
        self.now = now;
        let lives = |copy: CopyId| {
            let state = &self.leaves.copies[copy.slot as usize];
            state.id == copy && !state.lost
        };
        match message {
            Message::Deliver(copy) if lives(copy) => {
                if self.leaves.admit(now, copy.slot) {
                    self.begun(now, copy.slot);
                }
                None
            }
            Message::Stop(copy) if lives(copy) => {
                self.halt(now, copy);
                None
            }
            // The copy was lost because its server has failed in the meantime.
            Message::Deliver(_) | Message::Stop(_) => None,
            Message::Finished(copy) => Some(Event::Finished { copy, outcome: Outcome::Good }),
            Message::Stopped(copy) => Some(Event::Stopped { copy }),
            Message::Started(copy) => Some(Event::Started { copy }),
            Message::Down(server) => {
                self.leaves.clear(now, server as usize);
                self.network.plan_return(now, server);
                Some(Event::ServerDown { server: ServerId(server) })
            }
            Message::Up(server) => {
                self.network.plan_outage(now, server);
                Some(Event::ServerUp { server: ServerId(server) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Note, Recorder};
    use crate::{Candidate, Parameters};

    #[test]
    fn a_cell_gets_the_hint_of_each_query() {
        for hint_error in [None, Some(0.0)] {
            let service = "det:3".to_owned();
            let parameters = Parameters { service, hint_error, ..Parameters::default() };
            let experiment = parameters.experiment().expect("an experiment");
            let candidate = Candidate::parse("psq", 1).expect("a policy");
            let setup = Setup { experiment: &experiment, candidate, replication: 0 };
            let topology = curtail_kernel::Topology::replicated(2, 1);
            let policy = candidate.policy();
            let cell =
                policy.build(&topology, curtail_kernel::Limits::default(), curtail_kernel::rng(1));
            let recorder = Recorder::new(cell.expect("it fits"));
            let log = recorder.log();
            let mut recorder = Some(recorder);
            let mut cell = |_| recorder.take().expect("one shard");
            let mut sink = Sink::new(1, 0..2);
            sink.requests.arrive(2);
            Shard::new(&setup, 0, &mut cell, None).run(&[10, 20], 0, &mut sink);
            let hints = log.take().into_iter().filter_map(|entry| match entry.what {
                Note::Event(Event::Arrive(arrive)) => Some(arrive.cost_hint.map(u64::from)),
                _ => None,
            });
            assert_eq!(hints.collect::<Vec<_>>(), [hint_error.map(|_| 3_000_000); 2]);
        }
    }
}
