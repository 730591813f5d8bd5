//! The outcomes of responses decide which servers get traffic and what the caller gets.

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
