//! What copies pass: the stage of their server, then the further stages of their path, and a purge that follows
//! them.
//!
//! Source: document 003 §3.1 and Figure 3. A purge arrives as any message does, and looks for its copy where that
//! is: in a queue, in a slot, or at a later stage of the path. A stage that is a legacy layer neither prioritizes
//! nor purges; a copy that it holds leaves the path behind it.

use curtail_dist::seed;
use curtail_kernel::stage::Priority;
use curtail_kernel::{Probed, ServerId, Timestamp};

use super::books::{Copy, ON_ITS_WAY};
use super::servers::Ended;
use super::{Rest, ToClient, ToServer};
use crate::shared::Hop;

/// A further stage of the path: one behind every server, or one before every client.
pub(super) struct Further {
    hop: Hop,
    /// The first stage of its kind.
    base: u32,
    stream: u64,
}

/// The further stages, in order: those of servers, then those of clients.
pub(super) struct Path(Vec<Further>);

impl Path {
    /// Behind so many servers; and how many stages there are then.
    pub(super) fn new(
        hops: &[Hop],
        (servers, clients): (u32, u32),
        stream: impl Fn(&[u8]) -> u64,
    ) -> (Self, u32) {
        let mut base = servers;
        let mut further = Vec::new();
        for (hop, index) in hops.iter().zip(1_u32..) {
            let stream = seed::stream(stream(b"stage"), &[&index.to_le_bytes()]);
            further.push(Further { hop: hop.clone(), base, stream });
            base += if hop.at_client { clients } else { servers };
        }
        (Self(further), base)
    }

    /// By stage of the path behind the server's own: its name, and which stages it is.
    pub(super) fn stages(&self, end: u32) -> impl Iterator<Item = (&str, std::ops::Range<usize>)> {
        let ends = self.0.iter().skip(1).map(|further| further.base).chain([end]);
        let range = |(of, end): (&Further, u32)| of.base as usize..end as usize;
        self.0.iter().zip(ends).map(move |(of, end)| (&*of.hop.name, range((of, end))))
    }

    /// The stage behind this one, 0 for the server's own, on the same side.
    fn next(&self, stage: u32, at_client: bool) -> Option<&Further> {
        self.0.get(stage as usize).filter(|next| next.hop.at_client == at_client)
    }

    fn purges(&self, stage: u32) -> bool {
        stage == 0 || self.0[stage as usize - 1].hop.prioritizes
    }

    pub(super) fn is_at_client(&self, stage: u32) -> bool {
        stage > 0 && self.0[stage as usize - 1].hop.at_client
    }
}

impl Further {
    /// The work of a request there: that of both of its copies, for they carry the same.
    fn work_ns(&self, request: u64) -> f64 {
        self.hop.work.sample(&mut seed::rng(self.stream.wrapping_add(request))).max(1.0)
    }
}

impl Rest {
    /// A message arrives at a server.
    pub(super) fn receive(&mut self, now: u64) {
        match self.requests.take() {
            None => {}
            Some(ToServer::Deliver(number)) => {
                let Copy { server, work_ns, priority, purged, .. } = self.copies[number as usize];
                if purged {
                    return self.responses.send(now, ToClient::Stopped(number));
                }
                if !self.enter(now, number, server, (work_ns, priority)) {
                    self.responses.send(now, ToClient::Stopped(number));
                }
                self.meter.received(now, server, self.servers.outstanding(server));
                self.score(server);
            }
            Some(ToServer::Probe { client, server }) => {
                let (in_flight, latency_ns) = self.servers.probe(server.0);
                let probed = Probed { server, in_flight, latency_ns };
                self.responses.send(now, ToClient::Probed { client, probed });
            }
            Some(ToServer::Stop { copy: number, client, id }) => {
                let copy = self.copies[number as usize];
                // Else it has ended, and its number is another's.
                if (copy.client, copy.id) == (client, id) && self.purge(now, number) {
                    self.responses.send(now, ToClient::Stopped(number));
                }
            }
        }
    }

    /// A copy arrives at a stage; false where it is refused.
    fn enter(
        &mut self,
        now: u64,
        number: u32,
        at: u32,
        (work_ns, priority): (f64, Priority),
    ) -> bool {
        let Ok(job) = self.servers.arrive(now, at, (number, work_ns), priority) else {
            // A queue of high priority is as long as that of all clients: the run ends for that.
            self.overflowed |= priority == Priority::High;
            return false;
        };
        let copy = &mut self.copies[number as usize];
        (copy.at, copy.job) = (at, job);
        self.begin(now);
        true
    }

    /// A copy is needed no more. Did it leave now?
    pub(super) fn purge(&mut self, now: u64, number: u32) -> bool {
        let Copy { at, job, stage, server, .. } = self.copies[number as usize];
        self.copies[number as usize].purged = true;
        let leaves =
            at != ON_ITS_WAY && self.path.purges(stage) && self.servers.purge(now, at, job, number);
        if leaves {
            self.begin(now);
        }
        self.score(server);
        leaves
    }

    /// What is due first at a stage is due now; a copy that has come to its end at its client's.
    pub(super) fn end_first(&mut self, now: u64) -> Option<(u32, bool)> {
        let (at, ended) = self.servers.end_first(now)?;
        self.begin(now);
        let (number, is_done) = match ended {
            Ended::Nothing => return None,
            Ended::Done { copy, feedback } => {
                let of = &mut self.copies[copy as usize];
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
        self.go_on(now, number, is_done)
    }

    /// A copy has left a stage: it goes to the next one on its side, or home. Where it has come home: itself, and
    /// whether it is done.
    fn go_on(&mut self, now: u64, number: u32, is_done: bool) -> Option<(u32, bool)> {
        let Copy { stage, purged, .. } = self.copies[number as usize];
        self.copies[number as usize].at = ON_ITS_WAY;
        let is_home = self.path.is_at_client(stage);
        let (goes_on, is_done) = match self.path.next(stage, is_home) {
            // A legacy layer has let it run to its end; here it is purged.
            Some(_) if is_done && purged => (false, false),
            Some(_) if is_done => (self.step(now, number, is_home), false),
            _ => (false, is_done),
        };
        match (goes_on, is_home) {
            (true, _) => return None,
            (false, true) => return Some((number, is_done)),
            (false, false) => {}
        }
        let message = if is_done { ToClient::Finished(number) } else { ToClient::Stopped(number) };
        self.responses.send(now, message);
        None
    }

    /// A response has come to its client. Does it go through a stage there? None: it has come home.
    pub(super) fn come_in(&mut self, now: u64, number: u32) -> Option<(u32, bool)> {
        if self.path.next(self.copies[number as usize].stage, true).is_none() {
            return Some((number, true));
        }
        if self.step(now, number, true) { None } else { Some((number, false)) }
    }

    /// A copy enters the next stage of its path, on this side; false where it is refused.
    fn step(&mut self, now: u64, number: u32, at_client: bool) -> bool {
        let copy = &mut self.copies[number as usize];
        let next = self.path.next(copy.stage, at_client).expect("there is one");
        copy.stage += 1;
        let at = next.base + if at_client { copy.client } else { copy.server };
        let priority = if next.hop.prioritizes { copy.priority } else { Priority::High };
        let work_ns = next.work_ns(copy.request);
        self.enter(now, number, at, (work_ns, priority))
    }

    /// Copies have begun at a stage.
    fn begin(&mut self, now: u64) {
        while let Some(number) = self.servers.begun.pop() {
            let of = &mut self.copies[number as usize];
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

    /// A server is asked how it is.
    pub(super) fn probe(&mut self, now: u64, client: u32, server: ServerId) {
        self.requests.send(now, ToServer::Probe { client, server });
    }
}
