//! Plays a script over real sockets. The cell, the HTTP transport of the runtime and the servers on
//! loopback all run on one thread under tokio's paused clock.
//!
//! Sending bytes over sockets takes real time, so the clock must not advance while any bytes are
//! under way. Only this module advances it, and only when nothing is under way. To determine
//! whether anything is under way, the module counts entries in the log of the cell's events and
//! decisions. Every copy that was started must have reached its server. The cell must have an event
//! for every response that a server wrote. For every cancelled copy, the cell must have an event
//! for its stop, and the copy's server must have seen the end of its connection or stream. The one
//! task that waits for all this never sleeps, and tokio advances a paused clock only when all tasks
//! sleep.
//!
//! Other bytes may still be under way: ends of idle connections, and settings, windows and pings of
//! HTTP/2. They cause no event of the cell. They can delay a later copy only in real time, because
//! the clock waits until that copy has reached its server.

use std::time::Duration;

use curtail_kernel::{Action, CopyId, Event, Outcome, QueryId, ServerId, StopReason};
use curtail_runtime::http::{Http, LoadReport, Request, Settings};
use curtail_runtime::{Cell, ManualTimers, Query, Timers};
use curtail_sim::script::{Entry, Log, Note, Script, Step, What};
use tokio::time::Instant;

use crate::client::Client;
use crate::leaf::{Call, Door};
use crate::replies;
use crate::schedule::Schedule;
use crate::wire::Wire;

/// How long a run may make no progress, in real time, before it is abandoned. A run that succeeds
/// never waits this long.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A copy that was started.
struct Copy {
    call: Call,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The server has received the copy.
    There,
    /// The server has written the response.
    Answered,
    /// It was cancelled.
    Stopping,
    /// The cell has an event for the end of the copy, or has given up the copy.
    Over,
}

/// The times that the copies of a query take, in the order in which the copies start.
struct Works {
    service_ns: u64,
    jitter_ns: std::array::IntoIter<u64, 2>,
}

impl Works {
    fn of(step: &Step) -> Option<Self> {
        let What::Arrive { service_ns, jitter_ns } = step.what else { return None };
        Some(Self { service_ns, jitter_ns: jitter_ns.into_iter() })
    }

    /// Returns the time of the next copy. Only the first two copies have jitter.
    fn next(&mut self) -> u64 {
        self.service_ns + self.jitter_ns.next().unwrap_or(0)
    }
}

pub struct Conductor<'a> {
    script: &'a Script,
    cell: Cell<Http>,
    hand: ManualTimers,
    log: Log,
    /// Number of log entries that have been processed.
    followed: usize,
    entries: Vec<Entry>,
    door: Door,
    schedule: Schedule,
    /// By serial number.
    copies: Vec<Copy>,
    /// Copies whose end the cell has not processed yet.
    result: Vec<u64>,
    /// For each query, the times that its next copies take.
    works: Vec<Works>,
    /// The client of each query, or `None` if it has left.
    clients: Vec<Option<Client>>,
    epoch: Instant,
    now: u64,
}

/// Why a script could not be completed, and the time of the last step.
#[derive(Debug)]
pub struct Stuck {
    pub at_ns: u64,
    pub why: String,
}

/// Plays a script over a wire. Returns the log of the cell's events and decisions.
pub fn play(script: &Script, wire: Wire) -> Result<Vec<Entry>, Stuck> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut conductor = Conductor::new(script, wire).await;
        let played = conductor.run().await;
        played.map_err(|why| Stuck { at_ns: conductor.now, why })?;
        Ok(conductor.entries)
    })
}

impl<'a> Conductor<'a> {
    async fn new(script: &'a Script, wire: Wire) -> Self {
        let kernel = script.cell().expect("a script that was played before");
        let log = kernel.log();
        let door = Door::default();
        let mut replicas = Vec::new();
        for server in 0..script.servers {
            replicas.push(wire.replica(door.open(server, wire).await));
        }
        let hand = ManualTimers::default();
        let timers = Timers::manual(&hand);
        Self {
            script,
            cell: Cell::new(Box::new(kernel), Http::new(replicas, Settings::default()), timers),
            hand,
            log,
            followed: 0,
            entries: Vec::new(),
            door,
            schedule: Schedule::new(script.servers, script.slots),
            copies: Vec::new(),
            result: Vec::new(),
            works: script.steps.iter().filter_map(Works::of).collect(),
            clients: Vec::new(),
            epoch: Instant::now(),
            now: 0,
        }
    }

    async fn run(&mut self) -> Result<(), String> {
        let mut steps = self.script.steps.iter().peekable();
        loop {
            self.settle().await?;
            let end = self.schedule.next_end();
            let ends = end.map_or(u64::MAX, |(at, _)| at);
            let entry =
                self.hand.first().map_or(u64::MAX, |at| (at - self.epoch).as_nanos() as u64);
            let comes = steps.peek().map_or(u64::MAX, |step| step.at_ns);
            // The order of simultaneous events is that of `curtail_sim::script`.
            if let Some((at, copy)) = end.filter(|_| ends <= entry.min(comes)) {
                self.move_clock(at).await;
                self.complete(copy);
            } else if entry < u64::MAX && entry <= comes {
                self.move_clock(entry).await;
                self.hand.wake_first();
            } else if let Some(step) = steps.next() {
                self.move_clock(step.at_ns).await;
                self.step(step.what);
            } else {
                break;
            }
        }
        replies::check(&self.entries, std::mem::take(&mut self.clients)).await
    }

    async fn move_clock(&mut self, to: u64) {
        // If the cell set a timer for the current time, `to` may already be slightly in the past.
        tokio::time::advance(Duration::from_nanos(to.saturating_sub(self.now))).await;
        self.now = self.now.max(to);
    }

    fn step(&mut self, what: What) {
        match what {
            What::Arrive { .. } => {
                let target = format!("/{}", self.clients.len());
                let request = Request::new("GET", &target, [("host", "leaf")], "", true);
                let query = Query::new(request.expect("a request that can be written"));
                self.clients.push(Some(Client::start(self.cell.query(query))));
            }
            What::Leave(query) => {
                if let Some(client) = self.clients[query as usize].take() {
                    client.leave();
                }
            }
            What::Up(server) => self.cell.server_up(ServerId(server)),
            What::Unhealthy(server) => self.cell.server_unhealthy(ServerId(server), true),
            What::Drain(server) => self.cell.server_draining(ServerId(server)),
            What::Down(server) => {
                self.schedule.clear(server);
                self.cell.server_down(ServerId(server));
            }
        }
    }

    /// Completes a copy by making its server respond.
    fn complete(&mut self, copy: u64) {
        let (service_ns, queue) = self.schedule.end(self.now, copy);
        let service = Some(Duration::from_nanos(service_ns));
        let report = LoadReport { queue: Some(queue), service, ..LoadReport::default() };
        let state = &mut self.copies[copy as usize];
        state.call.response(report);
        state.phase = Phase::Answered;
        self.result.push(copy);
    }

    /// Waits until nothing is under way.
    async fn settle(&mut self) -> Result<(), String> {
        let mut since = std::time::Instant::now();
        loop {
            let before = self.followed;
            let Some(awaited) = self.follow()? else { break };
            if self.followed > before {
                since = std::time::Instant::now();
            } else if since.elapsed() > TEST_TIMEOUT {
                return Err(format!("timed out waiting {awaited}"));
            }
            tokio::task::yield_now().await;
        }
        if let Some((server, query)) = self.door.left_over() {
            return Err(format!("s{server} got q{query} without a decision of the cell"));
        }
        let clock = self.epoch.elapsed().as_nanos() as u64;
        if clock != self.now {
            return Err(format!("the clock moved by itself, from {} to {clock} ns", self.now));
        }
        Ok(())
    }

    /// Follows the log. Returns what must still happen before the clock may advance, if anything.
    fn follow(&mut self) -> Result<Option<String>, String> {
        while let Some(entry) = self.log.get(self.followed) {
            let awaited = match entry.what {
                Note::Event(event) => self.observe(&event)?,
                Note::Action(action) => self.decided(&action)?,
            };
            if awaited.is_some() {
                return Ok(awaited);
            }
            self.entries.push(entry);
            self.followed += 1;
        }
        let result = self.result.first();
        Ok(result.map(|copy| format!("for the end of c{copy} to reach the cell")))
    }

    fn observe(&mut self, event: &Event) -> Result<Option<String>, String> {
        let (copy, expected) = match *event {
            Event::Finished { copy, outcome: Outcome::Good } => (copy, Phase::Answered),
            Event::Stopped { copy } => (copy, Phase::Stopping),
            Event::Finished { copy, outcome } => {
                return Err(format!("c{} failed by itself: {outcome:?}", copy.serial));
            }
            _ => return Ok(None),
        };
        let phase = &mut self.copies[copy.serial as usize].phase;
        if *phase != expected {
            return Err(format!("the cell got {event:?} of a copy that is {phase:?}"));
        }
        *phase = Phase::Over;
        self.result.retain(|&result| result != copy.serial);
        Ok(None)
    }

    fn decided(&mut self, action: &Action) -> Result<Option<String>, String> {
        match *action {
            Action::Start { copy, query, server, .. } => Ok(self.started(copy, query, server)),
            Action::Stop { copy, why } => self.stopping(copy, why),
            Action::Lose { copy } => {
                // The server has failed, so the copy is lost.
                let state = &mut self.copies[copy.serial as usize];
                state.phase = Phase::Over;
                let gone = state.call.has_gone();
                Ok((!gone)
                    .then(|| format!("for the server of lost c{} to see its end", copy.serial)))
            }
            Action::Answer { query, .. }
            | Action::Fail { query, .. }
            | Action::Shed { query, .. } => {
                let client = self.clients[query.index()].as_ref();
                let waits = client.is_some_and(|client| !client.has_result());
                Ok(waits.then(|| format!("for the client of q{} to get its result", query.0)))
            }
            Action::Eject { .. } | Action::Restore { .. } | Action::Probe { .. } => Ok(None),
        }
    }

    fn started(&mut self, copy: CopyId, query: QueryId, server: ServerId) -> Option<String> {
        let Some(call) = self.door.take(server.0, query.0) else {
            return Some(format!("for c{} to reach s{}", copy.serial, server.0));
        };
        assert_eq!(copy.serial, self.copies.len() as u64, "serial numbers count the copies");
        self.copies.push(Copy { call, phase: Phase::There });
        let work_ns = self.works[query.index()].next();
        self.schedule.admit(self.now, server.0, copy.serial, work_ns);
        None
    }

    fn stopping(&mut self, copy: CopyId, why: StopReason) -> Result<Option<String>, String> {
        let state = &mut self.copies[copy.serial as usize];
        if state.phase == Phase::There {
            state.phase = Phase::Stopping;
            self.result.push(copy.serial);
            self.schedule.remove(self.now, copy.serial);
        } else if state.phase != Phase::Stopping {
            return Err(format!("c{} is {:?} and is cancelled: {why:?}", copy.serial, state.phase));
        }
        let gone = self.copies[copy.serial as usize].call.has_gone();
        Ok((!gone)
            .then(|| format!("for the server of the cancelled c{} to see its end", copy.serial)))
    }
}
