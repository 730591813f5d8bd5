//! The state of the clients' queries and copies, and the effects of the cells' actions on it.

use curtail_kernel::stage::Priority;
use curtail_kernel::{Action, CopyId, Feedback, QueryId, Role, ServerId, ShedReason, StartReason};

use super::{Repair, Rest, ToServer};
use crate::agenda::NEVER;
use crate::experiment::JitterOf;
use crate::pool::Pool;
use crate::sink::{Answered, Sink};

pub(super) struct Client {
    pub(super) queries: Pool<QueryState>,
    /// The number of the copy in each of the cell's slots.
    pub(super) copies: Vec<u32>,
    pub(super) deadline_ns: u64,
}

/// The request number of a read repair.
pub(super) const REPAIR: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct QueryState {
    pub(super) request: u64,
    pub(super) arrived_ns: u64,
    /// P.
    pub(super) work_ns: f64,
    /// The J of its first two copies.
    pub(super) jitter_ns: [f64; 2],
    pub(super) group: u32,
    pub(super) repairs: bool,
    pub(super) copies: u32,
    pub(super) served_ns: u64,
}

impl QueryState {
    pub(super) fn new(request: u64, arrived_ns: u64, work_ns: f64, group: u32) -> Self {
        let (jitter_ns, repairs, copies, served_ns) = ([0.0; 2], false, 0, NEVER);
        Self { request, arrived_ns, work_ns, jitter_ns, group, repairs, copies, served_ns }
    }
}

/// Marks a copy that is between two stages or has not reached its first stage.
pub(super) const ON_ITS_WAY: u32 = u32::MAX;

/// A copy, with everything that servers need to know about it. Looking up this data in the client's
/// tables would be slow, because these are almost never in a cache at that time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) id: CopyId,
    pub(super) client: u32,
    pub(super) query: u32,
    pub(super) request: u64,
    pub(super) server: u32,
    pub(super) priority: Priority,
    /// Whether it is no longer needed.
    pub(super) purged: bool,
    /// The index of its present or last stage in its path. 0 is the server's own stage.
    pub(super) stage: u32,
    /// The copy's present stage, and its job there.
    pub(super) at: u32,
    pub(super) job: u32,
    pub(super) work_ns: f64,
    pub(super) began_ns: u64,
    /// The feedback of its server.
    pub(super) feedback: Feedback,
}

impl Rest {
    pub(super) fn act(&mut self, now: u64, client: u32, action: &Action, sink: &mut Sink) {
        match *action {
            Action::Start { copy, query, server, role, why } => {
                let QueryState { request, .. } = self.clients[client as usize].queries[query.0];
                if role == Role::Primary
                    && request != REPAIR
                    && sink.measures(request)
                    && let Some(meter) = &mut self.meter
                {
                    meter.sent(why == StartReason::Queue);
                }
                self.start(now, client, copy, query, server, role);
            }
            Action::Answer { query, .. } => self.answer(now, client, query, sink),
            Action::Stop { copy: id, .. } => self.stop(now, client, id),
            Action::Fail { query, .. } => self.fail(client, query, sink),
            Action::Shed { query, why } => {
                let repairs = self.clients[client as usize].queries[query.0].request == REPAIR;
                sink.overflowed(why == ShedReason::QueueFull && !repairs);
                self.fail(client, query, sink);
            }
            Action::Probe { server } => self.probe(now, client, server),
            // Servers do not fail here, so no copy is lost and no server is ejected.
            Action::Lose { .. } | Action::Eject { .. } | Action::Restore { .. } => {}
        }
    }

    fn stop(&mut self, now: u64, client: u32, id: CopyId) {
        let copy = self.clients[client as usize].copies[id.slot as usize];
        if !self.path.is_at_client(self.copies[copy].stage) {
            return self.requests.send(now, ToServer::Stop { copy, client, id });
        }
        if self.purge(now, copy) {
            self.stopped.push(copy);
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
        let state = &mut of.queries[query.0];
        let jitter_ns = match (&self.jitter, state.copies) {
            (None, _) => 0.0,
            (Some((_, JitterOf::Query)), _) => state.jitter_ns[0],
            (Some(_), copy @ 0..=1) => state.jitter_ns[copy as usize],
            (Some((draws, _)), copy) => draws.further(state.request, copy, 0) as f64,
        };
        state.copies += 1;
        if state.repairs && role == Role::Primary {
            state.repairs = false;
            let (group, work_ns) = (state.group, state.work_ns);
            self.repairs.push(Repair { group, taken: server, work_ns });
        }
        let number = self.copies.add(Copy {
            id,
            client,
            query: query.0,
            request: state.request,
            server: server.0,
            priority: self.policy.priority(role),
            purged: false,
            stage: 0,
            at: ON_ITS_WAY,
            job: 0,
            work_ns: state.work_ns + jitter_ns,
            began_ns: NEVER,
            feedback: Feedback::default(),
        });
        if self.stops {
            if of.copies.len() <= id.slot as usize {
                of.copies.resize(id.slot as usize + 1, 0);
            }
            of.copies[id.slot as usize] = number;
        }
        self.requests.send(now, ToServer::Deliver(number));
    }

    fn answer(&mut self, now: u64, client: u32, query: QueryId, sink: &mut Sink) {
        let of = &mut self.clients[client as usize];
        of.queries.free(query.0);
        self.open -= 1;
        let QueryState { request, arrived_ns, copies, served_ns, .. } = of.queries[query.0];
        if request == REPAIR {
            return;
        }
        // The response that is being handled ends the query.
        let useful_ns = self.service_ns;
        let latency_ns = now - arrived_ns;
        let waited_ns = served_ns - arrived_ns;
        if let Some(meter) = self.meter.as_mut().filter(|_| sink.measures(request)) {
            meter.answered(client, latency_ns);
        }
        sink.answered(Answered { request, latency_ns, waited_ns, useful_ns, copies });
    }

    fn fail(&mut self, client: u32, query: QueryId, sink: &mut Sink) {
        let of = &mut self.clients[client as usize];
        of.queries.free(query.0);
        self.open -= 1;
        let request = of.queries[query.0].request;
        if request != REPAIR {
            sink.failed(request);
        }
    }

    /// Records a response. The service of the query began with this copy or an earlier one.
    pub(super) fn record_response(&mut self, number: u32) -> Feedback {
        let Copy { client, query, request, began_ns, feedback, .. } = self.copies[number];
        self.service_ns = feedback.service_ns;
        let query = &mut self.clients[client as usize].queries[query];
        // The query's id may belong to another query by now.
        if query.request == request {
            query.served_ns = query.served_ns.min(began_ns);
        }
        feedback
    }
}
