//! What may be sent twice: only requests that are declared to be repeatable, and requests of which
//! nothing was sent.

use curtail::{ErrorKind, Fault, Outcome, Query, outcome};
use tower::Service as _;

use crate::scripted::{Act, Broken, Server, Unclonable, builder};

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_once_goes_elsewhere_only_if_it_was_not_sent() {
    let (unready, fine) = (Server::new(&[Act::Unready]), Server::new(&[Act::Respond(1)]));
    let service = builder::<Unclonable>(&[&unready, &fine])
        .policy("round-robin".parse().unwrap())
        .classify(outcome::any_response)
        .build()
        .unwrap();
    for _ in 0..4 {
        let answer = service.shard("a").query(Query::once(Unclonable("x"))).await.unwrap();
        assert_eq!(&*answer.server, "a1");
    }
    assert_eq!(unready.received(), 0);
}

/// `may_retry: false` used to be sent twice after a failed connection, even if the service had
/// already taken the request.
#[tokio::test(start_paused = true)]
async fn a_request_that_the_service_has_taken_is_not_sent_again() {
    let servers = [Server::new(&[Act::Fail]), Server::new(&[Act::Fail])];
    let service = builder::<Unclonable>(&[&servers[0], &servers[1]])
        .policy("round-robin".parse().unwrap())
        .classify(|result: &Result<_, Broken>| match result {
            Ok(_) => Outcome::Good,
            Err(Broken) => Outcome::Failed(Fault::ConnectFailed),
        })
        .build()
        .unwrap();
    let error = service.shard("a").query(Query::once(Unclonable("x"))).await.unwrap_err();
    assert_eq!(servers[0].received() + servers[1].received(), 1);
    assert_eq!((error.kind(), error.server().is_some()), (ErrorKind::Failed, true));
    assert_eq!(error.into_request::<Unclonable>(), None, "it was sent");
}

/// A client of HTTP takes the request before it connects.
#[tokio::test(start_paused = true)]
async fn a_request_that_must_not_run_twice_goes_elsewhere_if_the_client_reports_that_it_was_not_sent()
 {
    let classify = |fault| {
        move |result: &Result<_, Broken>| match result {
            Ok(_) => Outcome::Good,
            Err(Broken) => Outcome::Failed(fault),
        }
    };
    for (fault, good) in [(Fault::ConnectFailed, true), (Fault::Reset, false)] {
        let servers = [Server::new(&[Act::Fail]), Server::new(&[Act::Respond(1)])];
        let service = builder::<String>(&[&servers[0], &servers[1]])
            .policy("round-robin".parse().unwrap())
            .classify(classify(fault))
            .build()
            .unwrap();
        let query = || service.shard("a").query(Query::non_idempotent("x".to_owned()));
        let results = [query().await, query().await];
        assert_eq!(results.iter().all(Result::is_ok), good, "{fault:?}: {results:?}");
        for error in results.into_iter().filter_map(Result::err) {
            assert_eq!(error.into_request::<String>(), None, "it may have run");
        }
    }
    let server = Server::new(&[Act::Fail]);
    let service = builder::<String>(&[&server]).classify(classify(Fault::ConnectFailed));
    let service = service.policy("random".parse().unwrap()).build().unwrap();
    let error = service.shard("a").query(Query::non_idempotent("x".to_owned())).await.unwrap_err();
    assert_eq!(error.to_string(), "shard a, server a0 could not be reached");
    assert_eq!(format!("{error:#}"), "shard a, server a0 could not be reached: it broke");
    assert_eq!(error.into_request(), Some("x".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_never_ready_has_not_taken_the_request() {
    let (stuck, fine) = (Server::new(&[Act::NeverReady]), Server::new(&[Act::Respond(1)]));
    let service = builder::<Unclonable>(&[&stuck, &fine])
        .policy("round-robin".parse().unwrap())
        .classify(outcome::any_response)
        .build()
        .unwrap();
    for _ in 0..2 {
        let answer = service.shard("a").query(Query::once(Unclonable("x"))).await.unwrap();
        assert_eq!(&*answer.server, "a1");
    }
}

#[tokio::test(start_paused = true)]
async fn duplicates_are_opt_in() {
    for (repeatable, received) in [(false, 1), (true, 2)] {
        let servers = [Server::new(&[Act::Respond(100)]), Server::new(&[Act::Respond(100)])];
        let service = builder::<String>(&[&servers[0], &servers[1]])
            .policy("delayed:5ms".parse().unwrap())
            .classify(outcome::any_response)
            .repeatable(move |request: &String| repeatable.then(|| request.clone()))
            .build()
            .unwrap();
        service.shard("a").call("x".to_owned()).await.unwrap();
        assert_eq!(servers[0].received() + servers[1].received(), received);
    }
}
