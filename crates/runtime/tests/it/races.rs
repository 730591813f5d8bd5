//! Tests race conditions: a copy is cancelled while its server responds, or the runtime shuts down.

use std::sync::{Arc, Mutex, OnceLock};

use crate::servers::kernel;
use curtail_kernel::{Limits, ServerId};
use curtail_runtime::{Cell, CopyContext, Failure, Head, Query, Reply, Timers, Transport};
use tokio::sync::Notify;

/// Two servers. The second copy gets the head of a long response at the very moment when it is
/// displaced by another query.
#[derive(Clone, Default)]
struct Displaced(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cell: OnceLock<Cell<Displaced>>,
    displacing: Mutex<Option<Reply<Displaced>>>,
    sent: Mutex<Vec<&'static str>>,
    first_may_answer: Notify,
}

impl Transport for Displaced {
    type Request = &'static str;
    type Response = &'static str;

    async fn send(
        &self,
        _: ServerId,
        request: &'static str,
        _: CopyContext,
    ) -> Result<Head<&'static str>, Failure> {
        let world = &self.0;
        let number = {
            let mut sent = world.sent.lock().unwrap();
            sent.push(request);
            sent.len()
        };
        match number {
            1 => {
                world.first_may_answer.notified().await;
                Ok(Head::whole("whole"))
            }
            2 => {
                let cell = world.cell.get().expect("set before the first query");
                *world.displacing.lock().unwrap() = Some(cell.query(Query::new("displaces")));
                let tail = Box::pin(std::future::pending());
                Ok(Head { tail: Some(tail), ..Head::whole("head only") })
            }
            3 => Ok(Head::whole("displaced it")),
            _ => std::future::pending().await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_cancelled_does_not_win_with_the_head_of_a_long_response() {
    let world = Displaced::default();
    let limits = Limits { cancel: true, ..Limits::default() };
    let cell = Cell::new(kernel("laedge:cc+pc", 2, limits), world.clone(), Timers::tokio());
    assert!(world.0.cell.set(cell.clone()).is_ok());
    let asked = tokio::spawn(cell.query(Query::new("long")));
    let displacing = loop {
        if let Some(reply) = world.0.displacing.lock().unwrap().take() {
            break reply;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(displacing.await.unwrap().response, "displaced it");
    world.0.first_may_answer.notify_one();
    assert_eq!(asked.await.unwrap().unwrap().response, "whole");
    // The copy that was decided meanwhile is not sent, because the response came first.
    assert_eq!(*world.0.sent.lock().unwrap(), ["long", "long", "displaces"]);
}

/// A server that never responds.
struct Hangs;

impl Transport for Hangs {
    type Request = ();
    type Response = ();

    async fn send(&self, _: ServerId, (): (), _: CopyContext) -> Result<Head<()>, Failure> {
        std::future::pending().await
    }
}

/// Tokio's timers are tasks, so they need a runtime.
#[test]
fn a_reply_may_be_dropped_outside_of_the_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = Limits { attempt_timeout_ns: 1_000_000_000, ..Limits::default() };
    let limits = Limits { cancel_timeout_ns: 1_000_000, ..limits };
    let (cell, reply) = runtime.block_on(async {
        let cell = Cell::new(kernel("psq", 1, limits), Hangs, Timers::tokio());
        let reply = cell.query(Query::new(()));
        tokio::task::yield_now().await;
        (cell, reply)
    });
    drop(reply);
    assert_eq!(cell.live_queries(), 0);
}

#[test]
fn a_runtime_that_shuts_down_ends_however_many_wait() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let waiting = 100_000;
    let limits = Limits { queue: waiting, ..Limits::default() };
    let replies: Vec<_> = runtime.block_on(async {
        let cell = Cell::new(kernel("psq", 1, limits), Hangs, Timers::tokio());
        let replies = (0..=waiting).map(|_| cell.query(Query::new(()))).collect();
        tokio::task::yield_now().await;
        assert_eq!(cell.live_queries(), waiting as usize + 1);
        // The replies keep the queries alive, and the running copy keeps the cell alive.
        replies
    });
    // The copy ends here. Waiting queries must not be started recursively, one inside the other.
    drop(runtime);
    drop(replies);
}
