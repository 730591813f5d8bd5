//! The outcomes of responses decide which servers get traffic and what the caller gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use curtail::{Fault, Outcome, Query};

use crate::scripted::{Act, Broken, Server, builder};

fn classify(result: &Result<&'static str, Broken>) -> Outcome {
    match result {
        Ok("fine") => Outcome::Good,
        Ok(_) => Outcome::Failed(Fault::Status),
        Err(_) => Outcome::Failed(Fault::Reset),
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_always_fails_loses_its_traffic() {
    let (bad, good) = (Server::new(&[Act::Refuse]), Server::new(&[Act::Respond(1)]));
    let service = builder::<String>(&[&bad, &good])
        .policy("least-outstanding".parse().unwrap())
        .classify(classify)
        .build()
        .unwrap();
    let shard = service.shard("a");
    for _ in 0..1_000 {
        let answer = shard.query(Query::idempotent("x".to_owned())).await.unwrap();
        assert!(answer.outcome.wins(), "it was sent to the other server");
    }
    assert!(bad.received() < 50, "{} of 1000 requests", bad.received());
    assert!(!shard.servers()[0].up, "it is ejected");
}

#[tokio::test(start_paused = true)]
async fn the_last_bad_response_is_returned_if_there_is_no_better_one() {
    let bad = Server::new(&[Act::Refuse]);
    let service = builder::<String>(&[&bad]).classify(classify);
    let service = service.policy("random".parse().unwrap()).build().unwrap();
    let answer = service.shard("a").query(Query::once("x".to_owned())).await.unwrap();
    assert_eq!((answer.response, answer.outcome), ("refused", Outcome::Failed(Fault::Status)));
    let error = service.scatter("x".to_owned()).await.unwrap_err();
    assert_eq!((error.responded, error.required), (0, 1));
    let first = error.errors.into_iter().next().unwrap();
    assert_eq!((first.shard(), first.server()), ("a", Some("a0")));
    assert_eq!(first.into_response::<&'static str>(), Some("refused"));
}

/// A server that was ejected would otherwise be out for ever.
#[tokio::test(start_paused = true)]
async fn a_server_that_has_recovered_returns_without_a_health_check() {
    let acts: Vec<_> = (0..5).map(|_| Act::Refuse).chain([Act::Respond(1)]).collect();
    let (bad, good) = (Server::new(&acts), Server::new(&[Act::Respond(1)]));
    let service = builder::<String>(&[&bad, &good])
        .policy("round-robin".parse().unwrap())
        .classify(classify)
        .build()
        .unwrap();
    let shard = service.shard("a");
    while shard.servers()[0].up {
        shard.query(Query::idempotent("x".to_owned())).await.unwrap();
    }
    assert_eq!(bad.received(), 5);
    tokio::time::sleep(Duration::from_secs(2)).await; // tidy: real time (it is paused)
    for _ in 0..10 {
        shard.query(Query::idempotent("x".to_owned())).await.unwrap();
    }
    assert!(bad.received() > 8, "{}", bad.received());
}

#[tokio::test(start_paused = true)]
async fn a_health_check_of_ones_own_takes_a_server_out_and_restores_it() {
    let healthy = Arc::new(AtomicBool::new(false));
    let servers = [Server::new(&[Act::Respond(1)]), Server::new(&[Act::Respond(1)])];
    let (is_healthy, sick) = (Arc::clone(&healthy), servers[0].clone());
    let service = builder::<String>(&[&servers[0], &servers[1]])
        .policy("round-robin".parse().unwrap())
        .classify(classify)
        .health(Duration::from_millis(100), move |server: Server| {
            let is_fine = !server.is(&sick) || is_healthy.load(Ordering::Relaxed);
            async move { is_fine }
        })
        .build()
        .unwrap();
    let shard = service.shard("a");
    let up = || shard.servers().iter().map(|server| server.up).collect::<Vec<_>>();
    tokio::time::sleep(Duration::from_millis(350)).await; // tidy: real time (it is paused)
    assert_eq!(up(), [false, true]);
    healthy.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(150)).await; // tidy: real time (it is paused)
    assert_eq!(up(), [true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_health_check_that_panics_has_failed_and_is_made_again() {
    let panics = Arc::new(AtomicBool::new(true));
    let server = Server::new(&[Act::Respond(1)]);
    let must_panic = Arc::clone(&panics);
    let service = builder::<String>(&[&server, &server])
        .policy("random".parse().unwrap())
        .classify(classify)
        .health(Duration::from_millis(100), move |_| {
            assert!(!must_panic.load(Ordering::Relaxed), "a bug in the check");
            async { true }
        })
        .build()
        .unwrap();
    let up = || service.shard("a").servers().iter().all(|server| server.up);
    tokio::time::sleep(Duration::from_millis(350)).await; // tidy: real time (it is paused)
    assert!(!up());
    panics.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(150)).await; // tidy: real time (it is paused)
    assert!(up());
}

/// A server of a ring that fails for one shard is out for all of its shards.
#[tokio::test(start_paused = true)]
async fn shards_may_share_servers() {
    let servers = [Act::Refuse, Act::Respond(1), Act::Respond(1)].map(|act| Server::new(&[act]));
    let named = servers.iter().enumerate().map(|(at, server)| (format!("n{at}"), server.clone()));
    let service = curtail::Curtail::<Server, String>::builder()
        .ring(named, (0..3).map(|at| (format!("r{at}"), [at, (at + 1) % 3])))
        .policy("round-robin".parse().unwrap())
        .timers(curtail::Timers::tokio())
        .classify(classify)
        .build()
        .unwrap();
    let names = |shard: &str| {
        let servers = service.shard(shard).servers();
        servers.into_iter().map(|server| (server.name.to_string(), server.up)).collect::<Vec<_>>()
    };
    assert_eq!(names("r2"), [("n2".to_owned(), true), ("n0".to_owned(), true)]);
    for _ in 0..40 {
        let answer = service.shard("r0").query(Query::idempotent("x".to_owned())).await.unwrap();
        assert_eq!(&*answer.server, "n1");
    }
    assert_eq!(names("r2"), [("n2".to_owned(), true), ("n0".to_owned(), false)]);
}
