//! Servers join and leave while the service runs.

use std::time::Duration;

use curtail::{Cancel, Curtail, Query, Timers, outcome};
use futures_util::stream::{self, StreamExt as _};
use tokio::sync::mpsc;
use tower::discover::Change;

use crate::scripted::{Act, Broken, Server, builder};

async fn ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await; // tidy: real time (it is paused)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_leaves_finishes_its_copies_and_its_place_is_taken_by_another() {
    let [first, second, third] = [Act::Respond(100); 3].map(|act| Server::new(&[act]));
    let service = builder::<String>(&[&first, &second])
        .policy("psq".parse().unwrap())
        .slots(1)
        .classify(outcome::any_response)
        .build()
        .unwrap();
    let shard = service.shard("a");
    let query = || shard.query(Query::once("x".to_owned()));
    let running = [tokio::spawn(query()), tokio::spawn(query())];
    ms(10).await;
    assert!(shard.remove("a0") && !shard.remove("a0") && !shard.remove("b"));
    let names = |shard: &curtail::Shard<Server, String>| {
        shard.servers().into_iter().map(|server| server.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&shard), ["a1"]);
    let error = shard.add("a2", third.clone()).unwrap_err();
    assert!(error.to_string().contains("all 2 are taken"), "{error}");
    assert!(shard.add("a1", third.clone()).is_err(), "its place is not free yet, either");
    assert_eq!(names(&shard), ["a1"], "an error changes nothing");
    for query in running {
        assert_eq!(query.await.unwrap().unwrap().response, "fine");
    }
    shard.add("a2", third.clone()).unwrap();
    assert_eq!(names(&shard), ["a2", "a1"]);
    shard.add("a2", third.clone()).unwrap();
    assert_eq!(names(&shard), ["a2", "a1"], "an idle server is replaced at its place");
    let before = first.received();
    for _ in 0..10 {
        query().await.unwrap();
    }
    assert_eq!(first.received(), before, "it has left");
    assert!(third.received() > 2, "{}", third.received());
}

#[tokio::test(start_paused = true)]
async fn discovered_servers_come_and_go_under_load() {
    let (changes, found) = mpsc::unbounded_channel::<Result<Change<String, Server>, Broken>>();
    let found = stream::unfold(found, |mut found| async { Some((found.recv().await?, found)) });
    let service: Curtail<Server, String> = Curtail::builder()
        .discover("a", found.boxed())
        .places(3)
        .policy("rescue".parse().unwrap())
        .slots(2)
        .cancellation(Cancel::OnDrop)
        .timers(Timers::tokio())
        .classify(outcome::any_response)
        .repeatable(|request: &String| Some(request.clone()))
        .build()
        .unwrap();
    let shard = service.shard("a");
    // Until a server joins, queries wait.
    let early = tokio::spawn(shard.query(Query::once("x".to_owned())));
    ms(100).await;
    let servers: Vec<_> = (0..20).map(|_| Server::new(&[Act::Respond(5)])).collect();
    let load = {
        let shard = shard.clone();
        tokio::spawn(async move {
            for _ in 0..2_000 {
                shard.query(Query::idempotent("x".to_owned())).await.expect("a response");
            }
        })
    };
    for (at, server) in servers.iter().enumerate() {
        changes.send(Ok(Change::Insert(format!("s{at}"), server.clone()))).unwrap();
        changes.send(Err(Broken)).unwrap();
        ms(200).await;
        if at >= 2 {
            changes.send(Ok(Change::Remove(format!("s{}", at - 2)))).unwrap();
        }
        ms(200).await;
    }
    assert_eq!(early.await.unwrap().unwrap().response, "fine");
    load.await.unwrap();
    assert!(servers.iter().all(|server| server.received() > 0), "every server got queries");
    let names: Vec<_> = shard.servers().iter().map(|server| server.name.to_string()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(shard.servers().iter().map(|server| server.outstanding).sum::<u32>(), 0);
}
