//! One shard: the kernel's cell, its servers, and what happens between them in virtual time.
//!
//! Shards share nothing but the arrivals and the requests that they answer, so each runs through a
//! block of arrivals on its own. There is no heap of events: what comes next is the first of the
//! next arrival, the next end of a copy, the next wish of the cell, and what is on the network.
//! Cost per query: two events of the kernel, and a scan of the servers.

mod accuracy;
mod leaves;
mod network;
mod scripted;

use std::collections::VecDeque;
use std::num::NonZeroU64;

use curtail_kernel::hedge::{Record, Snapshot};
use curtail_kernel::{
    Action, Arrive, CopyId, Event, GroupId, Outcome, Probed, QueryId, Rng, Scheduler, ServerId,
    ShedReason, StopReason, Timestamp,
};

pub use accuracy::{Accuracy, Share};
use leaves::{CopyState, Halt, Leaves};
use network::{Message, Network};

use crate::agenda::NEVER;
use crate::draws::{Drawn, Draws};
use crate::experiment::{Experiment, Setup};
use crate::part::Part;
use crate::sink::{Answered, Sink};
use crate::train::Log;

#[derive(Clone, Copy, Debug, Default)]
struct Query {
    request: u64,
    arrived_ns: u64,
    service_ns: u64,
    /// Of its first two copies.
    jitter_ns: [u64; 2],
    copies: u32,
    /// When the first of them began to execute.
    served_ns: u64,
}

/// What a cell hears of besides the ends of copies.
#[derive(Clone, Copy, Debug)]
struct Wants {
    forecasts: bool,
    starts: bool,
    probes: bool,
    feedback: bool,
    /// Responses take their time, or say something of their server.
    responses: bool,
}

impl Wants {
    fn any(self) -> bool {
        self.forecasts | self.starts
    }
}

pub(crate) struct Shard<S> {
    cell: S,
    world: World,
    /// Does the policy ask to be woken? Then this is when.
    timed: bool,
    wake_ns: u64,
    drawn: Vec<Drawn>,
    /// What its queries are guessed to cost; empty without hints.
    hints: Vec<NonZeroU64>,
    /// Response times, where a policy is trained; it has to be timed.
    pub(crate) log: Option<Log>,
}

struct World {
    now: u64,
    leaves: Leaves,
    queries: Vec<Query>,
    free: Vec<u32>,
    draws: Draws,
    network: Network,
    wants: Wants,
    cancel_ns: u64,
    /// What the cell hears next, at this time.
    follow: VecDeque<Event>,
}

impl<S: Scheduler> Shard<S> {
    /// The shard `index` of an experiment, with a cell, and a log where a policy is trained.
    pub(crate) fn new(
        setup: &Setup<'_>,
        index: u32,
        cell: &mut impl FnMut(Rng) -> S,
        log: Option<Log>,
    ) -> Self {
        let Experiment { network, outages, servers, slots, queue, .. } = setup.experiment;
        let (slots, queue) = (*slots as usize, *queue as usize);
        let stream = |what: &[u8]| setup.stream(what, index);
        let mut world = World {
            now: 0,
            leaves: Leaves::new(servers.len(), slots, queue, setup.calendars(index)),
            queries: Vec::new(),
            free: Vec::new(),
            draws: Draws::new(setup, index),
            network: Network::new(network.as_ref(), outages.as_ref(), servers.len() as u32, stream),
            wants: Wants {
                forecasts: setup.wants_forecasts(),
                starts: setup.wants_starts(),
                probes: true,
                feedback: false,
                responses: network.is_some(),
            },
            cancel_ns: setup.experiment.cancel_ns,
            follow: VecDeque::new(),
        };
        let cell = cell(curtail_kernel::rng(stream(b"cell")));
        world.wants.feedback = cell.reads_feedback();
        world.wants.responses |= world.wants.feedback;
        Self {
            cell,
            world,
            timed: setup.is_timed(),
            wake_ns: NEVER,
            drawn: Vec::new(),
            hints: Vec::new(),
            log,
        }
    }

    #[inline(always)]
    fn advance(&mut self, until: u64, sink: &mut Sink) {
        loop {
            let (end, place) = self.world.leaves.next_end();
            let other = self.world.network.mail.next().min(self.wake_ns);
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
        let id = self.world.free.pop().unwrap_or_else(|| self.world.new_id());
        self.world.queries[id as usize] =
            Query { request, arrived_ns: time, service_ns, jitter_ns, copies: 0, served_ns: NEVER };
        let arrive = Arrive { cost_hint, ..Arrive::new(QueryId(id), GroupId(0)) };
        self.feed(time, &Event::Arrive(arrive), sink);
    }

    #[inline(always)]
    fn complete(&mut self, now: u64, place: usize, sink: &mut Sink) {
        let (CopyState { id: copy, stopping, .. }, next) = self.world.leaves.complete(now, place);
        if let Some(next) = next {
            self.world.begun(now, next);
        }
        if self.world.wants.responses {
            return self.respond(now, copy, stopping, sink);
        }
        let event = match stopping {
            false => Event::Finished { copy, outcome: Outcome::Good },
            true => {
                self.world.judge(copy, self.cell.core(), sink);
                Event::Stopped { copy }
            }
        };
        self.feed(now, &event, sink);
    }

    /// A response that takes its time, or says something of its server.
    #[inline(never)]
    fn respond(&mut self, now: u64, copy: CopyId, stopping: bool, sink: &mut Sink) {
        if self.world.wants.feedback {
            self.world.leaves.note_queue(copy);
        }
        let message = if stopping { Message::Stopped(copy) } else { Message::Finished(copy) };
        if self.world.network.takes_time() {
            return self.world.network.send(now, message);
        }
        if stopping {
            self.world.judge(copy, self.cell.core(), sink);
            return self.feed(now, &Event::Stopped { copy }, sink);
        }
        self.feed_back(now, copy);
        self.feed(now, &Event::Finished { copy, outcome: Outcome::Good }, sink);
    }

    /// What the server of a copy says of itself comes with its response.
    #[inline(never)]
    fn feed_back(&mut self, now: u64, copy: CopyId) {
        let feedback = self.world.leaves.feedback(copy);
        let actions = self.cell.handle(Timestamp(now), &Event::Feedback { copy, feedback });
        debug_assert!(actions.is_empty(), "it starts and ends nothing");
    }

    /// The cell has a wish, or something comes over the network.
    #[inline(never)]
    fn other(&mut self, now: u64, sink: &mut Sink) {
        if self.wake_ns <= now {
            return self.feed(now, &Event::Tick, sink);
        }
        let Some(message) = self.world.network.mail.take() else { return };
        if let Some(event) = self.world.receive(now, message) {
            if self.world.wants.feedback
                && let Event::Finished { copy, .. } = event
            {
                self.feed_back(now, copy);
            }
            if let Event::Stopped { copy } = event {
                self.world.judge(copy, self.cell.core(), sink);
            }
            self.feed(now, &event, sink);
        }
        self.follow_up(sink);
    }

    /// Tells the cell of an event, and of what this brings about at once.
    #[inline(always)]
    fn feed(&mut self, now: u64, event: &Event, sink: &mut Sink) {
        self.world.now = now;
        for action in self.cell.handle(Timestamp(now), event) {
            self.world.act(now, action, sink);
        }
        if !self.world.follow.is_empty() {
            self.follow_up(sink);
        }
        if self.timed {
            self.wake_ns = self.cell.next_deadline().0;
            // Inside of this branch, so that other policies do not pay for it.
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
                let Query { request, copies, .. } = self.world.queries[query.index()];
                // None was sent where no server is up; then the delay does not count from here.
                if copies > 0
                    && sink.measures(request)
                    && let Some(first) = self.cell.core().copies_of(query).next()
                {
                    log.arrived(now, request, first.id);
                }
            }
            Event::Finished { copy, .. } => {
                let CopyState { id, request, .. } = self.world.leaves.copies[copy.slot as usize];
                if id == copy {
                    log.finished(now, request, copy);
                }
            }
            _ => {}
        }
    }

    #[inline(never)]
    fn follow_up(&mut self, sink: &mut Sink) {
        while let Some(event) = self.world.follow.pop_front() {
            if let Event::Stopped { copy } = event {
                self.world.judge(copy, self.cell.core(), sink);
            }
            let now = self.world.now;
            for action in self.cell.handle(Timestamp(now), &event) {
                self.world.act(now, action, sink);
            }
        }
        if self.timed {
            self.wake_ns = self.cell.next_deadline().0;
        }
    }
}

impl<S: Scheduler> Part for Shard<S> {
    fn publish(&mut self, _: usize, into: &mut Vec<Record>) {
        self.cell.publish(into);
    }

    fn adopt(&mut self, _: usize, snapshot: &Snapshot) {
        self.cell.adopt(snapshot);
    }

    fn open(&self) -> u64 {
        (self.world.queries.len() - self.world.free.len()) as u64
    }

    #[cold]
    #[inline(never)]
    fn change(&mut self, to: &Setup<'_>, at: u64, now: u64, sink: &mut Sink) {
        self.advance(now, sink);
        self.world.draws.change(&to.experiment.service, to.jitter(), at);
        self.world.leaves.set_speeds(&to.experiment.servers);
    }

    fn run(&mut self, times: &[u64], first: u64, sink: &mut Sink) {
        let mut drawn = std::mem::take(&mut self.drawn);
        self.world.draws.block(times.len(), &mut drawn);
        self.world.draws.guess(&drawn, &mut self.hints);
        for (at, (&time, &own)) in times.iter().zip(&drawn).enumerate() {
            self.advance(time, sink);
            let hint = self.hints.get(at).copied();
            self.arrive(time, first + at as u64, own, hint, sink);
        }
        self.drawn = drawn;
        sink.tally.queue_full |= self.world.leaves.overflowed;
        sink.tally.overflowed |= self.world.leaves.overflowed;
    }

    fn executed(&self, now: u64) -> (u128, u128) {
        self.world.leaves.executed(now)
    }
}

impl World {
    #[cold]
    #[inline(never)]
    fn new_id(&mut self) -> u32 {
        self.queries.push(Query::default());
        self.queries.len() as u32 - 1
    }

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
                let is_full = why == ShedReason::QueueFull;
                sink.tally.queue_full |= is_full;
                sink.tally.overflowed |= is_full;
                self.fail(query, sink);
            }
            // Of a server that failed: its copies are gone already. Nothing ejects a server here.
            Action::Lose { .. } | Action::Eject { .. } | Action::Restore { .. } => {}
            Action::Probe { .. } if !self.wants.probes => {}
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
        let state = &mut self.queries[query.index()];
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
        if self.wants.any() {
            self.report(now, copy);
        }
    }

    /// A copy is on its way, or waits at its server.
    #[inline(never)]
    fn not_begun(&mut self, now: u64, copy: CopyId, server: ServerId) {
        if self.network.takes_time() {
            self.network.send(now, Message::Deliver(copy));
        } else {
            self.leaves.wait(copy.slot, server.0);
        }
    }

    /// A copy that waited or was on its way begins to execute.
    #[inline(never)]
    fn begun(&mut self, now: u64, slot: u32) {
        let CopyState { id: copy, query, request, .. } = self.leaves.copies[slot as usize];
        let query = &mut self.queries[query as usize];
        // When a copy begins that no query waits for, its query's id may be another's already.
        if query.request == request {
            query.served_ns = query.served_ns.min(now);
        }
        if self.wants.any() {
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
        let Query { request, arrived_ns, served_ns, copies, .. } = self.queries[query.index()];
        self.free.push(query.0);
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
        self.free.push(query.0);
        sink.failed(self.queries[query.index()].request);
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

    /// The order to stop a copy has reached its server.
    fn halt(&mut self, now: u64, copy: CopyId) {
        let Halt::AtOnce(next) = self.leaves.stop(now, copy, self.cancel_ns) else {
            // Its end says so, or it has ended; one that is overtaken by the order runs on.
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

    /// A message arrives; the event that it is for the cell, if it is one.
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
            // What became of a server that failed meanwhile.
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
    fn a_cell_hears_the_hint_of_each_query() {
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
            let (recorder, log) = Recorder::new(cell.expect("it fits"));
            let mut recorder = Some(recorder);
            let mut cell = |_| recorder.take().expect("one shard");
            let mut sink = Sink::new(1, (0, 2));
            sink.requests.arrive(2);
            Shard::new(&setup, 0, &mut cell, None).run(&[10, 20], 0, &mut sink);
            let hints = log.take().into_iter().filter_map(|entry| match entry.what {
                Note::Heard(Event::Arrive(arrive)) => Some(arrive.cost_hint.map(u64::from)),
                _ => None,
            });
            assert_eq!(hints.collect::<Vec<_>>(), [hint_error.map(|_| 3_000_000); 2]);
        }
    }
}
