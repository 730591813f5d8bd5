//! Plays a script over real sockets: the driver and the HTTP transport of the runtime, and servers on
//! loopback, all on one thread under tokio's paused clock.
//!
//! Bytes on sockets take their real time, so the clock may not move while any are under way. It is
//! moved here and nowhere else, when nothing is under way: that is known by counting, from the log
//! of what the cell heard and decided. Every copy that it started must have reached its server,
//! every response that a server wrote must have been heard, every copy that was cancelled must have
//! been heard to have stopped and seen to be gone by its server. The one task that waits for this
//! never sleeps, and tokio moves a paused clock only when all do.

use std::time::Duration;

use curtail_kernel::{Action, CopyId, Event, Outcome, QueryId, ServerId, StopReason};
use curtail_runtime::http::{Http, LoadReport, Request, Settings};
use curtail_runtime::{Cell, ManualTimers, Query, Reply, Timers};
use curtail_sim::script::{Entry, Log, Note, Script, Step, What};
use tokio::time::Instant;

use crate::leaf::{Call, Door};
use crate::replies;
use crate::schedule::Schedule;

/// Real time without any progress after which a run is given up. Nothing here waits for it to pass.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A copy that was started.
struct Copy {
    call: Call,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its server has it.
    There,
    /// Its server has written the response.
    Answered,
    /// It was cancelled.
    Stopping,
    /// The cell has heard of its end, or has given it up.
    Over,
}

/// How long the copies of a query take, in the order of their starts.
struct Works {
    service_ns: u64,
    jitter_ns: std::array::IntoIter<u64, 2>,
}

impl Works {
    fn of(step: &Step) -> Option<Self> {
        let What::Arrive { service_ns, jitter_ns } = step.what else { return None };
        Some(Self { service_ns, jitter_ns: jitter_ns.into_iter() })
    }

    /// Beyond the second, copies have no jitter.
    fn next(&mut self) -> u64 {
        self.service_ns + self.jitter_ns.next().unwrap_or(0)
    }
}

pub struct Conductor<'a> {
    script: &'a Script,
    cell: Cell<Http>,
    hand: ManualTimers,
    log: Log,
    /// Entries that have been followed.
    followed: usize,
    entries: Vec<Entry>,
    door: Door,
    schedule: Schedule,
    /// By serial number.
    copies: Vec<Copy>,
    /// Copies whose end the cell has yet to hear of.
    result: Vec<u64>,
    /// By query: what its next copies take.
    works: Vec<Works>,
    /// By query; none where the client has left.
    replies: Vec<Option<Reply<Http>>>,
    epoch: Instant,
    now: u64,
}

/// Why a script could not be played to its end, and how far it came.
#[derive(Debug)]
pub struct Stuck {
    pub at_ns: u64,
    pub why: String,
}

/// Plays a script; the log of what the cell heard and decided.
pub fn play(script: &Script) -> Result<Vec<Entry>, Stuck> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut conductor = Conductor::new(script).await;
        let played = conductor.run().await;
        played.map_err(|why| Stuck { at_ns: conductor.now, why })?;
        Ok(conductor.entries)
    })
}

impl<'a> Conductor<'a> {
    async fn new(script: &'a Script) -> Self {
        let (kernel, log) = script.cell().expect("a script that was played before");
        let door = Door::default();
        let mut addresses = Vec::new();
        for server in 0..script.servers {
            addresses.push(door.open(server).await);
        }
        let (timers, hand) = Timers::manual();
        Self {
            script,
            cell: Cell::new(kernel, Http::new(addresses, Settings::default()), timers),
            hand,
            log,
            followed: 0,
            entries: Vec::new(),
            door,
            schedule: Schedule::new(script.servers, script.slots),
            copies: Vec::new(),
            result: Vec::new(),
            works: script.steps.iter().filter_map(Works::of).collect(),
            replies: Vec::new(),
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
            // The order of things at one time, as `curtail_sim::script` has it.
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
        replies::check(&self.entries, std::mem::take(&mut self.replies)).await
    }

    async fn move_clock(&mut self, to: u64) {
        // A cell that sets a timer for now may have done so a moment ago.
        tokio::time::advance(Duration::from_nanos(to.saturating_sub(self.now))).await;
        self.now = self.now.max(to);
    }

    fn step(&mut self, what: What) {
        match what {
            What::Arrive { .. } => {
                let target = format!("/{}", self.replies.len());
                let request = Request::new("GET", &target, [("host", "leaf")], b"", true);
                let query = Query::new(request.expect("a request that can be written"));
                self.replies.push(Some(self.cell.query(query)));
            }
            What::Leave(query) => self.replies[query as usize] = None,
            What::Up(server) => self.cell.server_up(ServerId(server)),
            What::Unhealthy(server) => self.cell.server_unhealthy(ServerId(server), true),
            What::Drain(server) => self.cell.server_draining(ServerId(server)),
            What::Down(server) => {
                self.schedule.clear(server);
                self.cell.server_down(ServerId(server));
            }
        }
    }

    /// The time of a copy is over: its server responds.
    fn complete(&mut self, copy: u64) {
        let (service_ns, queue) = self.schedule.end(self.now, copy);
        let service = Some(Duration::from_nanos(service_ns));
        let report = LoadReport { queue: Some(queue), service, ..LoadReport::default() };
        let state = &mut self.copies[copy as usize];
        state.call.response(report);
        state.stage = Stage::Answered;
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
                return Err(format!("waited in vain {awaited}"));
            }
            tokio::task::yield_now().await;
        }
        if let Some((server, query)) = self.door.left_over() {
            return Err(format!("s{server} was asked q{query}, which nobody decided"));
        }
        let clock = self.epoch.elapsed().as_nanos() as u64;
        if clock != self.now {
            return Err(format!("the clock moved by itself, from {} to {clock} ns", self.now));
        }
        Ok(())
    }

    /// Follows the log; what is awaited before one can go on, if anything is.
    fn follow(&mut self) -> Result<Option<String>, String> {
        while let Some(entry) = self.log.get(self.followed) {
            let awaited = match entry.what {
                Note::Heard(event) => self.heard(&event)?,
                Note::Decided(action) => self.decided(&action)?,
            };
            if awaited.is_some() {
                return Ok(awaited);
            }
            self.entries.push(entry);
            self.followed += 1;
        }
        let result = self.result.first();
        Ok(result.map(|copy| format!("for the cell to hear of the end of c{copy}")))
    }

    fn heard(&mut self, event: &Event) -> Result<Option<String>, String> {
        let (copy, expected) = match *event {
            Event::Finished { copy, outcome: Outcome::Good } => (copy, Stage::Answered),
            Event::Stopped { copy } => (copy, Stage::Stopping),
            Event::Finished { copy, outcome } => {
                return Err(format!("c{} failed by itself: {outcome:?}", copy.serial));
            }
            _ => return Ok(None),
        };
        let stage = &mut self.copies[copy.serial as usize].stage;
        if *stage != expected {
            return Err(format!("the cell heard {event:?} of a copy that is {stage:?}"));
        }
        *stage = Stage::Over;
        self.result.retain(|&result| result != copy.serial);
        Ok(None)
    }

    fn decided(&mut self, action: &Action) -> Result<Option<String>, String> {
        match *action {
            Action::Start { copy, query, server, .. } => Ok(self.started(copy, query, server)),
            Action::Stop { copy, why } => self.stopping(copy, why),
            Action::Lose { copy } => {
                // Its server has failed, and forgotten it.
                let state = &mut self.copies[copy.serial as usize];
                state.stage = Stage::Over;
                let gone = state.call.has_gone();
                Ok((!gone).then(|| format!("for the connection of lost c{} to end", copy.serial)))
            }
            Action::Answer { .. }
            | Action::Fail { .. }
            | Action::Shed { .. }
            | Action::Eject { .. }
            | Action::Restore { .. }
            | Action::Probe { .. } => Ok(None),
        }
    }

    fn started(&mut self, copy: CopyId, query: QueryId, server: ServerId) -> Option<String> {
        let Some(call) = self.door.take(server.0, query.0) else {
            return Some(format!("for c{} to reach s{}", copy.serial, server.0));
        };
        assert_eq!(copy.serial, self.copies.len() as u64, "serial numbers count the copies");
        self.copies.push(Copy { call, stage: Stage::There });
        let work_ns = self.works[query.index()].next();
        self.schedule.admit(self.now, server.0, copy.serial, work_ns);
        None
    }

    fn stopping(&mut self, copy: CopyId, why: StopReason) -> Result<Option<String>, String> {
        let state = &mut self.copies[copy.serial as usize];
        if state.stage == Stage::There {
            state.stage = Stage::Stopping;
            self.result.push(copy.serial);
            self.schedule.remove(self.now, copy.serial);
        } else if state.stage != Stage::Stopping {
            return Err(format!("c{} is {:?} and is cancelled: {why:?}", copy.serial, state.stage));
        }
        let gone = self.copies[copy.serial as usize].call.has_gone();
        Ok((!gone).then(|| format!("for the server of c{}, cancelled, to see it go", copy.serial)))
    }
}
