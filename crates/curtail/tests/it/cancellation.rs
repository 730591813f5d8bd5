//! Copies are stopped when they are no longer needed, and when the caller leaves.

use curtail::{Cancel, Query, outcome};

use crate::scripted::{Act, Server, builder};

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_stops_its_copies_if_servers_can_stop() {
    for (cancel, abandoned) in [(Cancel::OnDrop, 1), (Cancel::Never, 0)] {
        let server = Server::new(&[Act::Respond(100)]);
        let service = builder::<String>(&[&server])
            .policy("random".parse().unwrap())
            .cancellation(cancel)
            .classify(outcome::any_response)
            .build()
            .unwrap();
        let shard = service.shard("a");
        let caller = tokio::spawn(shard.query(Query::once("x".to_owned())));
        tokio::time::sleep(std::time::Duration::from_millis(10)).await; // tidy: real time (it is paused)
        caller.abort();
        tokio::time::sleep(std::time::Duration::from_millis(10)).await; // tidy: real time (it is paused)
        assert_eq!(server.abandoned(), abandoned, "{cancel:?}");
        assert_eq!(shard.servers()[0].outstanding, 1 - abandoned, "{cancel:?}");
    }
}
