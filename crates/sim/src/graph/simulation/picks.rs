//! Simulates callers that pick among the processes of a service. Each caller uses a kernel cell
//! whose servers are these processes.
//!
//! Source: document 002 §5.4. Each caller has its own cell, which starts each call immediately. The
//! cell only ranks processes and does not limit rates. The feedback contains the number of requests
//! at the process and their service time. Memory: O(callers · processes).

use curtail_dist::seed;
use curtail_kernel::{
    self as kernel, Action, Arrive, CopyId, Feedback, GroupId, Limits, Outcome, Policy, QueryId,
    Scheduler, ServerId, Timestamp, Topology, Tuning,
};

use super::Simulation;
use crate::graph::parts::Frame;
use crate::graph::spec::{Route, Step};

impl Simulation<'_> {
    /// Chooses the process of a call. If the caller picks, returns the copy in its cell, which
    /// [`Self::unpick`] ends.
    pub(super) fn pick(&mut self, from: u32, root: u32, node: u32) -> Option<CopyId> {
        let planned = self.roots[root].plan.nodes[node as usize].instance;
        let service = self.instances[planned as usize].service as usize;
        let first = self.firsts[service];
        let Route::Pick(policy) = self.graph.services[service].route else {
            self.reroute(root, node);
            return None;
        };
        let mut cell = self.instances[from as usize].picks[service].take();
        if cell.is_none() {
            cell = self.cell(&policy, from, service);
        }
        let mut cell = cell?;
        let now = Timestamp(self.now);
        for server in (0..self.graph.services[service].instances).map(ServerId) {
            let event = match (self.is_known_down(first + server.0), cell.core().server(server).up)
            {
                (true, true) => kernel::Event::ServerDown { server },
                (false, false) => kernel::Event::ServerUp { server },
                _ => continue,
            };
            cell.handle(now, &event);
        }
        // The id of the frame that will be created next.
        let query = QueryId(self.frames.next());
        let arrive =
            Arrive { may_duplicate: false, may_retry: false, ..Arrive::new(query, GroupId(0)) };
        let actions = cell.handle(now, &kernel::Event::Arrive(arrive));
        let start = actions.iter().find_map(|action| match *action {
            Action::Start { copy, server, .. } => Some((copy, server)),
            _ => None,
        });
        if let Some((_, server)) = start {
            self.roots[root].plan.nodes[node as usize].instance = first + server.0;
        } else {
            // All processes are down or full.
            cell.handle(now, &kernel::Event::Abandoned { query });
        }
        self.instances[from as usize].picks[service] = Some(cell);
        start.map(|(copy, _)| copy)
    }

    fn cell(&self, policy: &Policy, from: u32, service: usize) -> Option<Box<dyn Scheduler>> {
        let clients = self.callers_of(service as u32).max(1);
        let limits = Limits {
            max_outstanding: Topology::MAX_GATE,
            retries: 0,
            eject_after: 0,
            tuning: Tuning { clients, ..Tuning::default() },
            ..Limits::default()
        };
        let topology = Topology::replicated(self.graph.services[service].instances, 1);
        let name = [from.to_le_bytes(), (service as u32).to_le_bytes()].concat();
        let rng = kernel::rng(seed::stream(self.seed, &[b"pick", &name]));
        policy.build(&topology, limits, rng).ok()
    }

    /// Returns the number of processes that call a service.
    fn callers_of(&self, service: u32) -> u32 {
        let mut callers: Vec<u32> = Vec::new();
        for endpoints in self.graph.workflows.iter().map(|of| &of.endpoints) {
            let calls = |step: &Step| match step {
                Step::Call { endpoint, .. } => endpoints[*endpoint as usize].service == service,
                Step::Use { .. } => false,
            };
            let callers_here = endpoints.iter().filter(|of| of.steps.iter().any(calls));
            callers.extend(callers_here.map(|of| of.service));
        }
        callers.sort_unstable();
        callers.dedup();
        callers.iter().map(|&of| self.graph.services[of as usize].instances).sum()
    }

    /// Ends a call for which the caller picked the process. `frame` is `None` if the call was not
    /// made.
    pub(super) fn unpick(
        &mut self,
        from: u32,
        to: u32,
        copy: CopyId,
        frame: Option<(Frame, bool)>,
    ) {
        let Self { instances, now, .. } = self;
        let (service, queue) = (instances[to as usize].service, instances[to as usize].here);
        let Some(cell) = &mut instances[from as usize].picks[service as usize] else { return };
        let (now, mut outcome) = (Timestamp(*now), Outcome::Local);
        if let Some((frame, ok)) = frame {
            if ok {
                let feedback = Feedback { queue, service_ns: frame.progress.here.service_ns };
                cell.handle(now, &kernel::Event::Feedback { copy, feedback });
                outcome = Outcome::Good;
            } else if frame.refused {
                outcome = Outcome::Refused;
            }
        }
        cell.handle(now, &kernel::Event::Finished { copy, outcome });
    }
}
