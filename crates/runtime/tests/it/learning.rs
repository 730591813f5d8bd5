//! Tests that cells learn from each other, with the clock paused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curtail_kernel::hedge::{Learner as _, RescueLearner};
use curtail_kernel::{Limits, NEVER_NS, Policy, ServerId, StartReason, StopReason, Topology};
use curtail_runtime::{
    CopyContext, CopyEnd, CopyInfo, Failure, Head, Observer, Query, ServiceBuilder, Timers,
    Transport,
};

const MS: u64 = 1_000_000;

/// Counts rescues: how many started, how many ended, how many won, and how many were given up.
#[derive(Clone, Default)]
struct Tally(Arc<Mutex<[u64; 4]>>);

impl Observer for Tally {
    fn copy_started(&self, copy: CopyInfo, why: StartReason) {
        assert_eq!(copy.why, why);
        self.0.lock().unwrap()[0] += u64::from(why == StartReason::Rescue);
    }

    fn copy_ended(&self, copy: CopyInfo, end: CopyEnd, won: bool, _: u64) {
        if copy.why == StartReason::Rescue {
            let given_up = end == CopyEnd::Stopped(Some(StopReason::GiveUp));
            let mut counts = self.0.lock().unwrap();
            counts[1] += 1;
            counts[2] += u64::from(won);
            counts[3] += u64::from(given_up);
        }
    }
}

/// Two replicas of a shard. A query takes 4 to 11 ms, and one copy in 200 takes an additional 300 ms.
struct Replicas {
    copies: Arc<AtomicU64>,
}

impl Transport for Replicas {
    type Request = u64;
    type Response = u64;

    async fn send(&self, _: ServerId, takes_ms: u64, _: CopyContext) -> Result<Head<u64>, Failure> {
        let stuck = self.copies.fetch_add(1, Ordering::Relaxed) % 200 == 199;
        let ms = takes_ms + if stuck { 300 } else { 0 };
        tokio::time::sleep(Duration::from_millis(ms)).await; // tidy: real time (it is paused)
        Ok(Head::whole(takes_ms))
    }
}

#[tokio::test(start_paused = true)]
async fn cells_learn_when_a_query_is_stuck_and_rescue_it() {
    let policy = Policy::parse("rescue", None).expect("a policy");
    let limits = Limits { cancel: true, ..Limits::default() };
    let tally = Tally::default();
    let copies = Arc::new(AtomicU64::new(0));
    let mut service = ServiceBuilder::new(policy, limits, Timers::tokio(), 0);
    for _ in 0..2 {
        let replicas = Replicas { copies: Arc::clone(&copies) };
        service.add(&Topology::replicated(2, 1), replicas, tally.clone()).expect("it fits");
    }
    let service = service.start();
    let (cells, learning) = (service.cells(), service.learning().expect("it learns"));

    let mut slowest = 0;
    for query in 0..8_000_u64 {
        let cell = &cells[(query % 2) as usize];
        let response = cell.query(Query::new(4 + query * 5 % 8)).await.expect("it responds");
        slowest = response.took_ns.max(slowest);
    }
    // Even the first stuck copy, after 200 copies, is rescued.
    assert!(slowest < 40 * MS, "all stuck queries are rescued: {slowest}");
    let (suspect_ns, won) = learning.look(|learner| {
        let rescue = learner.get::<RescueLearner>().expect("it learns for rescue");
        (rescue.snapshot().suspect_ns, rescue.status().won)
    });
    assert!(suspect_ns != NEVER_NS && (10 * MS..25 * MS).contains(&suspect_ns), "{suspect_ns}");
    assert!(won >= 20, "{won} rescues won");

    let [started, ended, watched, given_up] = *tally.0.lock().unwrap();
    assert_eq!((started, given_up), (ended, 0), "no query is long, and no copy continues to run");
    assert!(watched >= won && watched <= started, "{won} of {watched} of {started} rescues won");

    // Suspects wait if no server is left that can rescue them.
    assert_eq!(cells[0].suspects(), 0);
    let long = [0; 2].map(|_| cells[0].query(Query::new(1_000)));
    tokio::time::sleep(Duration::from_nanos(4 * suspect_ns)).await; // tidy: real time (it is paused)
    assert_eq!((cells[0].suspects(), cells[1].suspects()), (2, 0));
    drop(long);
    assert_eq!(cells[0].suspects(), 0);
}
