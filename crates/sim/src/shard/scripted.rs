//! A shard whose arrivals and times come from a script instead of random draws.
//!
//! It has its own constructor and its own loop over arrivals. In all other respects, it works like
//! other shards.

use std::collections::VecDeque;

use curtail_dist::Distribution;
use curtail_kernel::{Event, Needs, QueryId, Scheduler, ServerId};

use super::leaves::Leaves;
use super::network::{Message, Network};
use super::{Shard, ShardState};
use crate::agenda::NEVER;
use crate::draws::{Drawn, Draws};
use crate::part::Wants;
use crate::pool::Pool;
use crate::script::{Script, What};
use crate::sink::Sink;

impl<S: Scheduler> Shard<S> {
    /// Creates a shard for a checked script. `cell` is the cell that plays the script.
    pub(crate) fn scripted(script: &Script, cell: S) -> Self {
        // A placeholder: nothing is drawn, and third copies have no jitter.
        let nothing = Distribution::from_samples(vec![0.0], true).expect("zero is a time");
        let wants = Wants::new(&Needs::NOTHING, &cell.needs());
        let state = ShardState {
            now: 0,
            leaves: Leaves::new(
                script.servers as usize,
                script.slots as usize,
                usize::MAX,
                Vec::new(),
            ),
            queries: Pool::new(),
            draws: Draws::of(&nothing, None, 0, |_| 0),
            network: Network::new(None, None, script.servers, |_| 0),
            wants,
            responds: wants.responses(),
            // The real servers that play a script do not respond to probes either.
            probes: false,
            cancel_ns: 0,
            follow: VecDeque::new(),
        };
        // `timed` is true because, with any policy, the limits can include timeouts.
        Self {
            cell,
            state,
            timed: true,
            deadline_ns: NEVER,
            drawn: Vec::new(),
            hints: Vec::new(),
            log: None,
        }
    }

    /// Plays the script until its last copy has ended.
    pub(crate) fn play(&mut self, script: &Script) {
        let queries = script.queries() as u64;
        let sink = &mut Sink::new(1, 0..queries);
        sink.requests.arrive(queries);
        let mut arrived = 0;
        for step in &script.steps {
            let now = step.at_ns;
            self.advance(now, sink);
            match step.what {
                What::Arrive { service_ns, jitter_ns } => {
                    let own = Drawn { service_ns, jitter_ns };
                    self.arrive(now, arrived, own, None, sink);
                    arrived += 1;
                }
                What::Leave(query) => self.leave(now, query.into(), sink),
                What::Up(server) => {
                    self.feed(now, &Event::ServerUp { server: ServerId(server) }, sink);
                }
                What::Unhealthy(server) => {
                    let (server, listens) = (ServerId(server), true);
                    self.feed(now, &Event::ServerUnhealthy { server, listens }, sink);
                }
                What::Drain(server) => {
                    self.feed(now, &Event::ServerDraining { server: ServerId(server) }, sink);
                }
                What::Down(server) => {
                    if let Some(event) = self.state.receive(now, Message::Down(server)) {
                        self.feed(now, &event, sink);
                    }
                }
            }
        }
        self.advance(NEVER - 1, sink);
    }

    /// Abandons a query if its client is still waiting.
    fn leave(&mut self, now: u64, request: u64, sink: &mut Sink) {
        let queries = &self.state.queries;
        let Some(id) = queries.numbers().find(|&id| queries[id].request == request) else { return };
        self.state.fail(QueryId(id), sink);
        self.feed(now, &Event::Abandoned { query: QueryId(id) }, sink);
    }
}
