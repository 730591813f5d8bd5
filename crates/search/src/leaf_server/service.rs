//! Serves one query in a leaf: the query waits in the queue, the real search runs, and the query's
//! time is stretched.

use std::sync::Arc;
use std::time::Duration;

use curtail_http::h1::server::Request;
use curtail_kernel::stage::Priority;
use curtail_runtime::http::{ORCA, PRIORITY, priority};
use curtail_runtime::stage::{Permit, Stage};
use curtail_runtime::{Timers, marks};
use tokio::time::Instant;

use super::config::{Cancel, LeafConfig};
use super::draw::{Drawn, Draws};
use super::slow::Speed;
use super::stats::{Counters, Took};
use crate::leaf::{Leaf, SearchError};
use crate::serve::{Ask, QUERY_KEY, Reply, Service, check_method, split, timing};

/// The request handler of a leaf.
#[derive(Debug)]
pub(super) struct LeafService {
    shared: Arc<Shared>,
    cancel: Cancel,
}

#[derive(Debug)]
struct Shared {
    leaf: Arc<Leaf>,
    /// `SHARD.REPLICA`.
    name: String,
    draws: Draws,
    speed: Speed,
    stage: Stage,
    counters: Counters,
    timers: Timers,
}

/// The reason why a query has no result.
enum Failed {
    Search(SearchError),
    Broken,
}

/// The parts of a query's time.
struct Times {
    queue: Duration,
    real: Duration,
    stretch: Duration,
}

impl LeafService {
    pub(super) fn new(config: &LeafConfig, leaf: Leaf) -> Self {
        let shared = Shared {
            leaf: Arc::new(leaf),
            name: format!("{}.{}", config.shard, config.replica),
            draws: Draws::new(config),
            speed: Speed::new(config.slow),
            stage: Stage::preemptive(config.slots, config.queue),
            counters: Counters::new(config),
            // Tokio's timers are accurate to the millisecond, and a service time may be shorter
            // than a millisecond.
            timers: Timers::precise(),
        };
        Self { shared: Arc::new(shared), cancel: config.cancel }
    }

    async fn search(&self, request: &Request, parameters: &str) -> Reply {
        let ask = match Ask::parse(parameters) {
            Ok(ask) => ask,
            Err(error) => return Reply::error(400, &error.to_string()),
        };
        let key = request.head.header(QUERY_KEY);
        let key = key.unwrap_or(request.head.path_and_query().as_bytes());
        let drawn = self.shared.draws.draw(key);
        let priority = priority(request.head.values(PRIORITY));
        // The address is unique among the requests that exist at the same time.
        let id = std::ptr::from_ref(request).addr() as u64;
        marks::parsed(id);
        let work = Arc::clone(&self.shared).serve(id, ask, drawn, priority);
        match self.cancel {
            Cancel::Honor => work.await,
            // A task continues even if it is not awaited. The slots and the queue limit the number
            // of these tasks.
            Cancel::Ignore => {
                let broken = |_| Reply::error(500, "the query was cut off; send it again");
                tokio::spawn(work).await.unwrap_or_else(broken)
            }
        }
    }
}

impl Service for LeafService {
    async fn answer(&self, request: &Request) -> Reply {
        if let Err(refusal) = check_method(request) {
            return refusal;
        }
        match split(request) {
            ("/search", parameters) => self.search(request, parameters).await,
            ("/health", _) => Reply::healthy(),
            ("/load", _) => Reply::healthy().with(ORCA, self.shared.stage.probe().to_orca()),
            ("/stats", _) => Reply::json(200, &self.shared.counters.read(&self.shared.stage)),
            (path, _) => {
                let text = format!(
                    "no such path: {path}; valid paths are /search, /health, /load and /stats"
                );
                Reply::error(404, &text)
            }
        }
    }
}

impl Shared {
    /// Serves a query. Dropping the future abandons the query.
    async fn serve(self: Arc<Self>, id: u64, ask: Ask, drawn: Drawn, priority: Priority) -> Reply {
        let pending = self.counters.arrived();
        let arrived = Instant::now();
        let Ok(slot) = self.stage.enter_as(priority).await else {
            pending.refused();
            return self.refusal();
        };
        marks::admitted(id);
        let started = Instant::now();
        let hiccup = !drawn.hiccup.is_zero();
        if hiccup {
            self.counters.hiccup();
        }
        let (mut slot, body) = match self.execute(slot, ask).await {
            Ok(done) => done,
            Err(failed) => {
                pending.failed();
                let text = match failed {
                    Failed::Search(error) => error.to_string(),
                    Failed::Broken => "the search engine failed; send another query".to_owned(),
                };
                return Reply::error(500, &text);
            }
        };
        marks::answered(id);
        let done = Instant::now();
        let real = done - started;
        let own = self.speed.stretch(drawn.own.unwrap_or(real), started);
        let service = own.saturating_add(drawn.hiccup);
        let stretched = service > real;
        if stretched {
            slot.spend(service, |end| self.timers.sleep_until(end)).await;
        }
        let report = slot.finish();
        // The time during which another query had the slot does not count.
        let held = report.service.unwrap_or_default();
        let stretch = if stretched { held.saturating_sub(real) } else { Duration::ZERO };
        let beyond = (real + stretch).saturating_sub(own);
        pending.served(&Took { real, stretch, beyond, hiccup });
        let times =
            Times { queue: arrived.elapsed().saturating_sub(real + stretch), real, stretch };
        let reply = Reply::json_bytes(200, body)
            .with(timing::HEADER, server_timing(&times, drawn))
            .with(ORCA, report.to_orca())
            .with("x-curtail-leaf", self.name.as_str());
        if stretched { reply.with("x-curtail-stretched", "1") } else { reply }
    }

    fn refusal(&self) -> Reply {
        let text = format!("leaf {}: too many queries are waiting; try again later", self.name);
        Reply::error(503, &text).with("retry-after", "1").with("x-curtail-leaf", self.name.as_str())
    }

    /// Runs the real search on a thread that may block. Most queries take about 100 µs. A query
    /// takes much longer if it contains a common phrase or reads from a cold disk, and would then
    /// delay all connections and timers of its thread.
    ///
    /// The slot is moved into the search, which cannot be stopped. If the client disconnects during
    /// the search, the slot is freed only when the search ends, so there are never more searches
    /// than slots.
    async fn execute(&self, slot: Permit, ask: Ask) -> Result<(Permit, Vec<u8>), Failed> {
        let leaf = Arc::clone(&self.leaf);
        let search = move || {
            let answer = leaf.answer(&ask.query, ask.k).map_err(Failed::Search)?;
            let body = serde_json::to_vec(&answer).map_err(|_| Failed::Broken)?;
            Ok((slot, body))
        };
        tokio::task::spawn_blocking(search).await.unwrap_or(Err(Failed::Broken))
    }
}

fn server_timing(times: &Times, drawn: Drawn) -> String {
    let hiccup = (!drawn.hiccup.is_zero()).then_some(drawn.hiccup);
    let always = [("queue", times.queue), ("real", times.real), ("stretch", times.stretch)];
    let drawn = [drawn.own.map(|own| ("own", own)), hiccup.map(|hiccup| ("hiccup", hiccup))];
    timing::write(always.into_iter().chain(drawn.into_iter().flatten()))
}
