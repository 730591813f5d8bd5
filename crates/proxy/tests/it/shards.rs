//! Tests which replica a request reaches. Services are selected by prefix and shards by key, and
//! shards may share a server.

use crate::harness::{self, Backend, HELLO, Proxy, config, shard, with_shards};

/// Returns a server that responds with its own name.
async fn named(name: &'static str) -> Backend {
    let length = name.len();
    Backend::responding(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{name}")).await
}

#[tokio::test]
async fn a_key_names_the_shard_and_refusals_leave_the_connection_usable() {
    let (a, b) = (named("a").await, named("b").await);
    let lines =
        "name = \"s\"\nshard_by = { header = \"x-shard\" }\nroute = { path_prefix = \"/in\" }";
    let services = with_shards(lines, &[shard("a", &[&a]), shard("b", &[&b])]);
    let proxy = Proxy::start(&config("", &services)).await;
    let mut client = proxy.client().await;
    for (target, header, status, text) in [
        ("/in", "X-Shard: a\r\n", 200, "a"),
        ("/in/x", "x-shard: b\r\n", 200, "b"),
        ("/in", "x-shard:\r\n", 400, "the header x-shard is missing"),
        ("/in", "x-shard: c\r\n", 404, "the header x-shard names a shard that does not exist"),
        ("/inn", "x-shard: a\r\n", 404, "no service has a route for this path and method"),
    ] {
        client.send(format!("GET {target} HTTP/1.1\r\nhost: x\r\n{header}\r\n")).await;
        let response = client.response().await;
        assert_eq!((response.status, response.closes()), (status, false), "{target} {header}");
        assert!(response.text().starts_with(text), "{}", response.text());
    }
    for reason in ["missing_key", "unknown_shard", "no_service"] {
        assert_eq!(
            proxy.count("curtail_rejected_total", &[("reason", reason)]).await,
            1,
            "{reason}"
        );
    }
}

#[tokio::test]
async fn a_server_of_two_shards_has_one_set_of_slots() {
    let both = Backend::gated(HELLO).await;
    let spare = named("spare").await;
    let lines = "name = \"s\"\nshard_by = { query = \"s\" }";
    let shards = [shard("a", &[&both]), shard("b", &[&both]), shard("c", &[&both, &spare])];
    let shards = with_shards(lines, &shards);
    let proxy = Proxy::start(&config("", &shards)).await;
    let mut first = proxy.client().await;
    first.ask("/?s=a").await;
    both.has_seen(1).await;
    let mut second = proxy.client().await;
    second.ask("/?s=b").await;
    harness::eventually("it waits", async || {
        proxy.status().await["services"][0]["shards"][1]["queue"] == 1
    })
    .await;
    // The third shard has a different server.
    assert_eq!(proxy.get("/?s=c").await.text(), "spare");
    let status = proxy.status().await;
    let shards = &status["services"][0]["shards"];
    for shard in 0..3 {
        let server = &shards[shard]["servers"][0];
        assert_eq!(server["address"], both.address.to_string());
        assert_eq!(
            (&server["busy"], &server["slots"]),
            (&1.into(), &1.into()),
            "the same everywhere"
        );
    }
    assert_eq!(both.seen().len(), 1);
    both.open(2);
    assert_eq!(first.response().await.text(), "hello");
    assert_eq!(second.response().await.text(), "hello");
    proxy.idle().await;
}
