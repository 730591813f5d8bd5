//! Which replica a request reaches: services by prefix, shards by key, servers of several shards.

use crate::harness::{self, Backend, HELLO, Proxy, config, say};

/// A server that says its own name.
async fn named(name: &'static str) -> Backend {
    let length = name.len();
    Backend::says(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{name}")).await
}

/// A service with these shards, each with its replicas.
fn sharded(lines: &str, shards: &[(&str, &[&Backend])]) -> String {
    let mut text = format!("[[service]]\npolicy = \"psq\"\nslots = 1\nhealth = false\n{lines}\n");
    for (name, replicas) in shards {
        let replicas: Vec<_> = replicas.iter().map(|b| format!("\"{}\"", b.address)).collect();
        text += &format!(
            "[[service.shard]]\nname = \"{name}\"\nreplicas = [{}]\n",
            replicas.join(", ")
        );
    }
    text
}

async fn asked(proxy: &Proxy, target: &str, header: &str) -> (u16, String) {
    let mut client = proxy.client().await;
    client.send(format!("GET {target} HTTP/1.1\r\nhost: x\r\n{header}\r\n")).await;
    let response = client.response().await;
    (response.status, response.text())
}

#[tokio::test]
async fn a_key_names_the_shard_wherever_it_is() {
    let (a, b) = (named("a").await, named("b").await);
    for (by, to_a, to_b, missing, unknown) in [
        (
            "header = \"x-shard\"",
            ("/", "X-Shard: a\r\n"),
            ("/", "x-shard: b\r\n"),
            ("/", "x-shard:\r\n"),
            ("/", "x-shard: c\r\n"),
        ),
        ("query = \"s\"", ("/?s=a", ""), ("/?x&s=%62&s=b", ""), ("/?t=a", ""), ("/?s=c", "")),
        ("path_segment = 1", ("/x/a", ""), ("/x/b/c?d", ""), ("/x", ""), ("/x/c", "")),
    ] {
        let lines = format!("name = \"s\"\nshard_by = {{ {by} }}");
        let proxy =
            Proxy::start(&config("", &sharded(&lines, &[("a", &[&a]), ("b", &[&b])]))).await;
        assert_eq!(asked(&proxy, to_a.0, to_a.1).await, (200, "a".into()), "{by}");
        assert_eq!(asked(&proxy, to_b.0, to_b.1).await, (200, "b".into()), "{by}");
        let (status, text) = asked(&proxy, missing.0, missing.1).await;
        assert!(status == 400 && text.contains("missing"), "{by}: {status} {text}");
        let (status, text) = asked(&proxy, unknown.0, unknown.1).await;
        assert!(status == 404 && text.contains("does not exist"), "{by}: {status} {text}");
        for reason in ["missing_key", "unknown_shard"] {
            let rejected = proxy.metric("curtail_rejected_total", &[("reason", reason)]).await;
            assert!((rejected - 1.0).abs() < 0.1, "{reason}");
        }
    }
}

#[tokio::test]
async fn refusals_leave_the_connection_usable() {
    let (a, b) = (named("a").await, named("b").await);
    let lines = "name = \"s\"\nshard_by = { query = \"s\" }\nroute = { path_prefix = \"/in\" }";
    let proxy = Proxy::start(&config("", &sharded(lines, &[("a", &[&a]), ("b", &[&b])]))).await;
    let mut client = proxy.client().await;
    let targets = [("/", 404), ("/in", 400), ("/in?s=c", 404), ("/in?s=a", 200), ("/inn?s=a", 404)];
    for (target, status) in targets {
        let response = client.get(target).await;
        assert_eq!((response.status, response.closes()), (status, false), "{target}");
    }
}

#[tokio::test]
async fn a_server_of_two_shards_has_one_set_of_slots() {
    let both = Backend::new(|_| vec![harness::Step::Gate, say(HELLO)]).await;
    let spare = named("spare").await;
    let lines = "name = \"s\"\nshard_by = { query = \"s\" }";
    let shards = sharded(lines, &[("a", &[&both]), ("b", &[&both]), ("c", &[&both, &spare])]);
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
    // The third shard has another server to go to.
    assert_eq!(asked(&proxy, "/?s=c", "").await.1, "spare");
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
