//! The path of copies: first the stage of their server, then further stages. Purges follow copies
//! along the path.
//!
//! Source: document 003 §3.1 and Figure 3. A purge arrives like any message, and finds its copy at
//! its present position: in a queue, in a slot, or at a later stage of the path. A legacy stage
//! neither prioritizes nor purges. If a copy is purged while such a stage holds it, the copy leaves
//! the path when the stage is done.

use std::ops::Range;

use curtail_dist::seed;
use curtail_kernel::stage::{Priority, ProbeReply};
use curtail_kernel::{Probed, ServerId, Timestamp};

use super::books::{Copy, ON_ITS_WAY};
use super::servers::Ended;
use super::{Rest, ToClient, ToServer};
use crate::world::{Hop, Shared};

/// A further stage of the path. There is one instance after each server, or one before each client.
pub(super) struct Further {
    hop: Hop,
    /// The first of the stages of this kind.
    base: u32,
    stream: u64,
}

pub(super) struct Path {
    /// The further stages, in order: first those of servers, then those of clients.
    further: Vec<Further>,
    /// The total number of stages, including those of the servers.
    pub(super) stages: u32,
}

impl Path {
    pub(super) fn new(shared: &Shared, stream: impl Fn(&[u8]) -> u64) -> Self {
        let mut path = Self { further: Vec::new(), stages: shared.servers };
        for (hop, index) in shared.hops.iter().zip(1_u32..) {
            let stream = seed::stream(stream(b"stage"), &[&index.to_le_bytes()]);
            path.further.push(Further { hop: hop.clone(), base: path.stages, stream });
            path.stages += if hop.at_client { shared.clients } else { shared.servers };
        }
        path
    }

    /// Returns, for each further stage of the path, its name and the indexes of its instances.
    pub(super) fn stages(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        let ends = self.further.iter().skip(1).map(|further| further.base).chain([self.stages]);
        let stages = self.further.iter().zip(ends);
        stages.map(|(of, end)| (&*of.hop.name, of.base as usize..end as usize))
    }

    /// Returns the stage that follows `stage` on the same side, if there is one. Stage 0 is the
    /// server's own.
    fn next(&self, stage: u32, at_client: bool) -> Option<&Further> {
        self.further.get(stage as usize).filter(|next| next.hop.at_client == at_client)
    }

    fn purges(&self, stage: u32) -> bool {
        stage == 0 || self.further[stage as usize - 1].hop.prioritizes
    }

    pub(super) fn is_at_client(&self, stage: u32) -> bool {
        stage > 0 && self.further[stage as usize - 1].hop.at_client
    }
}

impl Further {
    /// Draws the work of a request at this stage. The work is the same for both copies of a
    /// request.
    fn work_ns(&self, request: u64) -> f64 {
        self.hop.work.sample(&mut seed::rng(self.stream.wrapping_add(request))).max(1.0)
    }
}

impl Rest {
    /// Handles a message that arrives at a server.
    pub(super) fn receive(&mut self, now: u64) {
        match self.requests.take() {
            None => {}
            Some(ToServer::Deliver(number)) => {
                let Copy { server, work_ns, priority, purged, .. } = self.copies[number];
                if purged {
                    return self.responses.send(now, ToClient::Stopped(number));
                }
                if !self.enter(now, number, server, work_ns, priority) {
                    self.responses.send(now, ToClient::Stopped(number));
                }
                if let Some(meter) = &mut self.meter {
                    meter.received(now, server, self.servers.outstanding(server));
                }
                self.score(server);
            }
            Some(ToServer::Probe { client, server }) => {
                let ProbeReply { in_flight, latency_ns } = self.servers.probe(server.0);
                let probed = Probed { server, in_flight, latency_ns };
                self.responses.send(now, ToClient::Probed { client, probed });
            }
            Some(ToServer::Stop { copy: number, client, id }) => {
                let copy = self.copies[number];
                // Otherwise the copy has ended, and its number belongs to another copy.
                if (copy.client, copy.id) == (client, id) && self.purge(now, number) {
                    self.responses.send(now, ToClient::Stopped(number));
                }
            }
        }
    }

    /// Adds a copy to a stage. Returns false if the stage refuses it.
    fn enter(&mut self, now: u64, number: u32, at: u32, work_ns: f64, priority: Priority) -> bool {
        let Ok(job) = self.servers.arrive(now, at, number, work_ns, priority) else {
            // The high-priority queue has the same limit as the clients' queues, so its overflow
            // ends the run.
            self.overflowed |= priority == Priority::High;
            return false;
        };
        let copy = &mut self.copies[number];
        (copy.at, copy.job) = (at, job);
        self.begin(now);
        true
    }

    /// Purges a copy that is no longer needed. Returns whether it left immediately.
    pub(super) fn purge(&mut self, now: u64, number: u32) -> bool {
        let Copy { at, job, stage, server, .. } = self.copies[number];
        self.copies[number].purged = true;
        let leaves =
            at != ON_ITS_WAY && self.path.purges(stage) && self.servers.purge(now, at, job, number);
        if leaves {
            self.begin(now);
        }
        self.score(server);
        leaves
    }

    /// Handles the first due slot of all stages. If a copy therefore ends at its client, returns
    /// the copy, and whether it is done rather than stopped.
    pub(super) fn end_first(&mut self, now: u64) -> Option<(u32, bool)> {
        let (at, ended) = self.servers.end_first(now)?;
        self.begin(now);
        let (number, is_done) = match ended {
            Ended::Nothing => return None,
            Ended::Done { copy, feedback } => {
                let of = &mut self.copies[copy];
                if of.stage == 0 {
                    of.feedback = feedback;
                }
                (copy, true)
            }
            Ended::Stopped { copy } => (copy, false),
        };
        if at < self.count {
            self.score(at);
        }
        self.advance_copy(now, number, is_done)
    }

    /// Moves a copy that has left a stage to the next one on its side, or to its client. If the
    /// copy ends at its client, returns it, and whether it is done rather than stopped.
    fn advance_copy(&mut self, now: u64, number: u32, is_done: bool) -> Option<(u32, bool)> {
        let Copy { stage, purged, .. } = self.copies[number];
        self.copies[number].at = ON_ITS_WAY;
        let is_at_client = self.path.is_at_client(stage);
        let (goes_on, is_done) = match self.path.next(stage, is_at_client) {
            // A legacy stage has run the copy to completion. The copy is purged here.
            Some(_) if is_done && purged => (false, false),
            Some(_) if is_done => (self.step(now, number, is_at_client), false),
            _ => (false, is_done),
        };
        match (goes_on, is_at_client) {
            (true, _) => return None,
            (false, true) => return Some((number, is_done)),
            (false, false) => {}
        }
        let message = if is_done { ToClient::Finished(number) } else { ToClient::Stopped(number) };
        self.responses.send(now, message);
        None
    }

    /// Handles a response at its client. Returns `None` if the response still has to pass through a
    /// stage there. Otherwise, returns the copy. The boolean is false if a stage refused the copy.
    pub(super) fn receive_response(&mut self, now: u64, number: u32) -> Option<(u32, bool)> {
        if self.path.next(self.copies[number].stage, true).is_none() {
            return Some((number, true));
        }
        if self.step(now, number, true) { None } else { Some((number, false)) }
    }

    /// Moves a copy to the next stage of its path on this side. Returns false if the stage refuses
    /// it.
    fn step(&mut self, now: u64, number: u32, at_client: bool) -> bool {
        let copy = &mut self.copies[number];
        let next = self.path.next(copy.stage, at_client).expect("there is one");
        copy.stage += 1;
        let at = next.base + if at_client { copy.client } else { copy.server };
        let priority = if next.hop.prioritizes { copy.priority } else { Priority::High };
        let work_ns = next.work_ns(copy.request);
        self.enter(now, number, at, work_ns, priority)
    }

    /// Records that copies have begun at a stage.
    fn begin(&mut self, now: u64) {
        while let Some(number) = self.servers.begun.pop() {
            let of = &mut self.copies[number];
            if of.stage != 0 {
                continue;
            }
            of.began_ns = now;
            let Copy { id: copy, client, server, .. } = *of;
            if self.wants.starts {
                self.responses.send(now, ToClient::Started { client, copy });
            }
            if self.wants.forecasts {
                let ends = Timestamp(self.servers.end_of(server, number));
                self.responses.send(now, ToClient::Forecast { client, copy, ends });
            }
        }
    }

    pub(super) fn score(&self, server: u32) {
        if let Some(scores) = &self.scores {
            scores.set(server, self.servers.ahead(server), self.servers.speed(server));
        }
    }

    /// Sends a probe to a server.
    pub(super) fn probe(&mut self, now: u64, client: u32, server: ServerId) {
        self.requests.send(now, ToServer::Probe { client, server });
    }
}
