//! Errors name the shard, the server and the cause, and hand back what was not sent.

use std::error::Error as _;
use std::time::Duration;

use curtail::{BoxError, Error, ErrorKind, Instant, Query, outcome};

use crate::scripted::{Act, Broken, Server, Unclonable, builder};

fn is_sync<T: Send + Sync + 'static>(_: &T) {}

#[tokio::test(start_paused = true)]
async fn an_error_keeps_its_cause() {
    let bad = Server::new(&[Act::Fail]);
    let service = builder::<String>(&[&bad]).classify(outcome::any_response);
    let service = service.policy("random".parse().unwrap()).build().unwrap();
    let error = service.shard("a").query(Query::once("x".to_owned())).await.unwrap_err();
    is_sync(&error);
    assert_eq!((error.kind(), error.shard(), error.server()), (ErrorKind::Failed, "a", Some("a0")));
    let source = error.source().and_then(|source| source.downcast_ref::<Broken>());
    assert_eq!(source, Some(&Broken));
    let boxed: BoxError = service.scatter("x".to_owned()).await.unwrap_err().into();
    let text = boxed.to_string();
    assert!(text.contains("shard a, server a0") && text.contains("0 of 1"), "{text}");
    assert_eq!(boxed.source().and_then(|source| source.downcast_ref()), Some(&Broken));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_never_sent_is_handed_back() {
    let busy = Server::new(&[Act::Respond(1_000)]);
    let service = builder::<Unclonable>(&[&busy])
        .policy("psq".parse().unwrap())
        .slots(1)
        .classify(outcome::any_response)
        .build()
        .unwrap();
    let shard = service.shard("a");
    let first = tokio::spawn(shard.query(Query::once(Unclonable("first"))));
    tokio::task::yield_now().await;
    let soon = Instant::now() + Duration::from_millis(10);
    let error = shard.query(Query::once(Unclonable("second")).deadline(soon)).await.unwrap_err();
    assert_eq!((error.kind(), error.server()), (ErrorKind::Expired, None));
    assert_eq!(error.into_request(), Some(Unclonable("second")));
    assert_eq!(first.await.unwrap().unwrap().response, "fine");
}

#[tokio::test(start_paused = true)]
async fn enough_shards_are_enough_and_the_others_are_named() {
    let (fine, silent) = (Server::new(&[Act::Respond(1)]), Server::new(&[Act::Hang]));
    let service = builder::<String>(&[&fine])
        .shard("b", [("b0", fine.clone())])
        .shard("c", [("c0", silent)])
        .policy("random".parse().unwrap())
        .classify(outcome::any_response)
        .build()
        .unwrap();
    let soon = || Instant::now() + Duration::from_millis(50);
    let answers = service.scatter("x".to_owned()).deadline(soon()).at_least(2).await.unwrap();
    let shards: Vec<_> = answers.answers.iter().map(|answer| &*answer.shard).collect();
    let missing: Vec<_> = answers.missing.iter().map(Error::shard).collect();
    assert_eq!((shards, missing), (vec!["a", "b"], vec!["c"]));
    assert_eq!(answers.missing[0].kind(), ErrorKind::Timeout);
    let error = service.scatter("x".to_owned()).deadline(soon()).await.unwrap_err();
    assert_eq!((error.responded, error.required), (2, 3));
}
