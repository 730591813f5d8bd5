//! Tests the cell against scripted servers, with the clock paused.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::servers::kernel;
use curtail_kernel::{Event, Limits, ServerId};
use curtail_runtime::{
    Cell, CopyContext, Failure, Head, Query, QueryError, TailEnd, Timers, Transport,
};
use curtail_sim::script::{Note, Recorder};
use tokio::time::Instant;

const MS: u64 = 1_000_000;

/// The response of a server to the next query.
#[derive(Clone, Copy)]
enum Act {
    Respond(u64),
    /// Sends the head immediately, and the rest after this time in ms.
    Stream(u64),
    Fail(Failure),
    Hang,
    Panic,
}

#[derive(Clone)]
struct Scripted {
    scripts: Arc<Vec<Mutex<VecDeque<Act>>>>,
    sent: Arc<Mutex<Vec<u32>>>,
    /// Servers of copies whose future was dropped before it completed.
    dropped: Arc<Mutex<Vec<u32>>>,
    /// Servers whose idle connections were closed.
    closed: Arc<Mutex<Vec<u32>>>,
}

impl Scripted {
    fn new(scripts: &[&[Act]]) -> Self {
        let scripts = scripts.iter().map(|acts| Mutex::new(acts.iter().copied().collect()));
        let scripts = Arc::new(scripts.collect());
        Self { scripts, sent: Arc::default(), dropped: Arc::default(), closed: Arc::default() }
    }

    fn sent(&self) -> Vec<u32> {
        let mut sent = self.sent.lock().unwrap().clone();
        sent.sort_unstable();
        sent
    }

    fn dropped(&self) -> Vec<u32> {
        self.dropped.lock().unwrap().clone()
    }
}

struct OnDrop(Option<u32>, Arc<Mutex<Vec<u32>>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.1.lock().unwrap().extend(self.0);
    }
}

async fn ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await; // tidy: real time (it is paused)
}

impl Transport for Scripted {
    type Request = &'static str;
    type Response = String;

    async fn send(
        &self,
        server: ServerId,
        request: &'static str,
        _: CopyContext,
    ) -> Result<Head<String>, Failure> {
        let act = self.scripts[server.index()].lock().unwrap().pop_front().unwrap_or(Act::Hang);
        self.sent.lock().unwrap().push(server.0);
        let mut on_drop = OnDrop(Some(server.0), Arc::clone(&self.dropped));
        let response = format!("{} got {request}", server.0);
        let head = match act {
            Act::Respond(after) => {
                ms(after).await;
                Ok(Head::whole(response))
            }
            Act::Stream(after) => {
                let tail = async move {
                    ms(after).await;
                    Ok(TailEnd::default())
                };
                Ok(Head { tail: Some(Box::pin(tail)), ..Head::whole(response) })
            }
            Act::Fail(failure) => Err(failure),
            Act::Hang => std::future::pending().await,
            Act::Panic => panic!("a bug in a transport"),
        };
        on_drop.0 = None;
        head
    }

    fn close_idle(&self, server: ServerId) {
        self.closed.lock().unwrap().push(server.0);
    }
}

fn cell(policy: &str, servers: &Scripted, limits: Limits) -> Cell<Scripted> {
    Cell::new(kernel(policy, servers.scripts.len(), limits), servers.clone(), Timers::tokio())
}

fn busy(cell: &Cell<Scripted>) -> u32 {
    cell.look(|core| {
        (0..core.server_count()).map(|s| core.server(ServerId(s as u32)).outstanding).sum()
    })
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_elsewhere_within_the_rules() {
    for failure in [Failure::Reset, Failure::Panicked, Failure::GivenUp] {
        let failing: &[Act] = &[Act::Fail(failure)];
        let fine: &[Act] = &[Act::Respond(1), Act::Respond(1)];
        // Ties are broken at random, so either idle server may be first. If the failing server is
        // first, the retry must avoid it.
        let servers = Scripted::new(&[failing, fine]);
        let cell_one = cell("psq", &servers, Limits::default());
        let response = cell_one.query(Query::new("x")).await.unwrap();
        assert_eq!(response.server, ServerId(1));

        let servers = Scripted::new(&[failing, failing]);
        let cell_two = cell("psq", &servers, Limits { retries: 1, ..Limits::default() });
        let error = cell_two.query(Query::new("x")).await.unwrap_err();
        let QueryError::Failed { response: None, last: Some(last) } = error else {
            panic!("{error:?}")
        };
        assert_eq!(last.why, failure);
        assert_eq!(servers.sent().len(), 2);

        let mut query = Query::new("x");
        query.may_retry = false;
        let servers = Scripted::new(&[failing, failing]);
        cell("psq", &servers, Limits::default()).query(query).await.unwrap_err();
        assert_eq!(servers.sent().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cost_hint_reaches_the_kernel() {
    let recorder = Recorder::new(kernel("psq", 1, Limits::default()));
    let log = recorder.log();
    let servers = Scripted::new(&[&[Act::Respond(1), Act::Respond(1)]]);
    let cell = Cell::new(Box::new(recorder), servers, Timers::tokio());
    let mut query = Query::new("known");
    query.cost_hint = NonZeroU64::new(7);
    cell.query(query).await.unwrap();
    cell.query(Query::new("unknown")).await.unwrap();
    let hints = log.take().into_iter().filter_map(|entry| match entry.what {
        Note::Event(Event::Arrive(arrive)) => Some(arrive.cost_hint.map(NonZeroU64::get)),
        _ => None,
    });
    assert_eq!(hints.collect::<Vec<_>>(), [Some(7), None]);
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_costs_one_attempt() {
    let servers = Scripted::new(&[&[], &[Act::Respond(1), Act::Respond(1), Act::Respond(1)]]);
    let limits =
        Limits { attempt_timeout_ns: 100 * MS, cancel_timeout_ns: 1_000 * MS, ..Limits::default() };
    let cell = cell("psq", &servers, limits);
    let start = Instant::now();
    // Of two simultaneous queries, one reaches the silent server.
    let (a, b) = tokio::join!(cell.query(Query::new("a")), cell.query(Query::new("b")));
    assert!(a.is_ok() && b.is_ok());
    assert!(start.elapsed() < Duration::from_millis(110));
    assert_eq!(busy(&cell), 1, "a server that continues to work is not free");
    ms(1_000).await;
    assert_eq!(servers.dropped(), [0], "after the cancel timeout its connection is closed");
    assert_eq!(busy(&cell), 0);
    assert!(cell.look(|core| core.server(ServerId(0)).up), "one silent copy ejects no server");
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_taken_until_the_tail_ends() {
    let servers = Scripted::new(&[&[Act::Stream(30), Act::Respond(0)]]);
    let cell = cell("psq", &servers, Limits::default());
    let start = Instant::now();
    cell.query(Query::new("head")).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    let next = cell.query(Query::new("next")).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(30));
    assert_eq!(next.queued_ns, 30 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_response_has_its_queue_run_and_total_time() {
    let servers = Scripted::new(&[&[Act::Respond(20), Act::Respond(7)]]);
    let cell = cell("psq", &servers, Limits::default());
    let (first, second) =
        tokio::join!(cell.query(Query::new("first")), cell.query(Query::new("second")));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((second.queued_ns, second.ran_ns, second.took_ns), (20 * MS, 7 * MS, 27 * MS));
    assert_eq!((first.queued_ns, first.ran_ns, first.took_ns), (0, 20 * MS, 20 * MS));
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_panics_is_a_server_that_failed() {
    let servers = Scripted::new(&[&[Act::Panic], &[Act::Respond(1)]]);
    let cell = cell("psq", &servers, Limits::default());
    assert_eq!(cell.query(Query::new("x")).await.unwrap().server, ServerId(1));
    assert_eq!(busy(&cell), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_leaves_is_replaced_when_its_copies_have_ended() {
    let servers = Scripted::new(&[&[Act::Respond(20), Act::Respond(1)]]);
    let cell = cell("psq", &servers, Limits::default());
    let place = ServerId(0);
    assert!(!cell.server_joined(place), "a server has the place");
    let replace = async {
        ms(10).await;
        servers.closed.lock().unwrap().clear();
        cell.server_left(place);
        assert_eq!(*servers.closed.lock().unwrap(), [0]);
        assert!(!cell.look(|core| core.server(place).member));
        assert!(!cell.server_joined(place), "its copy has not ended");
        let (response, joined) = tokio::join!(cell.query(Query::new("second")), async {
            ms(20).await;
            cell.server_joined(place)
        });
        assert!(joined && response.unwrap().queued_ns == 20 * MS);
    };
    let (first, ()) = tokio::join!(cell.query(Query::new("first")), replace);
    assert_eq!(first.unwrap().took_ns, 20 * MS);
    assert_eq!(cell.look(|core| core.members(curtail_kernel::GroupId(0))), 1);
}
