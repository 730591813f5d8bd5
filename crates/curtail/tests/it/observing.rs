//! Observers get names, and the ready ones count.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use curtail::observe::{Copy, Observer};
use curtail::{CopyEnd, EjectionCause, Query, StartReason, outcome};

use crate::scripted::{Act, Server, builder};

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn add(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
}

impl Observer for Seen {
    fn copy_started(&self, copy: Copy<'_>) {
        assert_eq!(copy.why, StartReason::Arrival);
        self.add(format!("{}/{} started", copy.shard, copy.server));
    }

    fn copy_ended(&self, copy: Copy<'_>, end: CopyEnd, won: bool, ran: Duration) {
        self.add(format!("{} {} {won} {ran:?}", copy.server, end.name()));
    }

    fn ejected(&self, _: &[Arc<str>], server: &str, _: EjectionCause) {
        self.add(format!("{server} is out"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_gets_names_and_durations() {
    let (server, seen) = (Server::new(&[Act::Respond(7)]), Seen::default());
    let service = builder::<String>(&[&server])
        .policy("random".parse().unwrap())
        .classify(outcome::any_response)
        .observer(seen.clone())
        .build()
        .unwrap();
    service.shard("a").query(Query::once("x".to_owned())).await.unwrap();
    assert_eq!(*seen.0.lock().unwrap(), ["a/a0 started", "a0 good true 7ms"]);
}

struct Panics;

impl Observer for Panics {
    fn copy_started(&self, _: Copy<'_>) {
        panic!("a bug in the observer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_an_observer_costs_no_query_and_no_slot() {
    let server = Server::new(&[Act::Respond(7)]);
    let service = builder::<String>(&[&server])
        .policy("psq".parse().unwrap())
        .slots(1)
        .classify(outcome::any_response)
        .observer(Panics)
        .build()
        .unwrap();
    for _ in 0..3 {
        service.shard("a").query(Query::once("x".to_owned())).await.unwrap();
    }
    assert_eq!(service.shard("a").servers()[0].outstanding, 0);
}

#[cfg(feature = "metrics")]
#[tokio::test(start_paused = true)]
async fn the_observer_for_metrics_counts() {
    use metrics_util::debugging::DebuggingRecorder;

    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let _local = metrics::set_default_local_recorder(&recorder);
    let server = Server::new(&[Act::Respond(7)]);
    let service = builder::<String>(&[&server])
        .policy("random".parse().unwrap())
        .classify(outcome::any_response)
        .observer(curtail::observe::Metrics::new())
        .build()
        .unwrap();
    service.shard("a").query(Query::once("x".to_owned())).await.unwrap();
    let counted: Vec<_> = snapshots.snapshot().into_vec();
    let names: Vec<_> = counted.iter().map(|(key, ..)| key.key().name()).collect();
    for name in [
        "curtail_copies_started_total",
        "curtail_copies_won_total",
        "curtail_copy_duration_seconds",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
}
