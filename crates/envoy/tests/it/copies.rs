//! Where copies go, and which of them wins.

use crate::client;
use crate::envoy::{self, service, until};
use crate::leaf::{Act, Gate, Leaf};

#[test]
fn a_response_passes_and_nothing_of_the_module_reaches_the_server() {
    let leaf = Leaf::good();
    let Some(envoy) = envoy::start(&service("policy = \"psq\"\nslots = 2", &[leaf.address])) else {
        return;
    };
    let response = client::get(envoy.http, "/a?b");
    assert_eq!((response.status, response.text().as_str()), (200, "good"));
    let [received] = &leaf.received()[..] else { panic!("one request") };
    assert_eq!(received.line, "GET /a?b");
    assert!(!received.fields.iter().any(|field| field.contains("curtail")), "{received:?}");
    assert_eq!(envoy.count("requests", "answered", 1), 1);
    assert_eq!(envoy.count("copies_won", "primary", 1), 1);
}

#[test]
fn all_workers_share_a_queue_of_each_shard() {
    let gate = Gate::default();
    let leaf = Leaf::start(Act::Later(gate.clone()));
    let Some(envoy) = envoy::start(&service("policy = \"psq\"\nslots = 3", &[leaf.address])) else {
        return;
    };
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let to = envoy.http;
            std::thread::spawn(move || client::get(to, "/").status)
        })
        .collect();
    until("the slots to fill", || leaf.most() == 3);
    gate.open();
    for client in clients {
        assert_eq!(client.join().unwrap(), 200);
    }
    assert_eq!((leaf.count(), leaf.most()), (20, 3));
    assert!(envoy.count("copies_started", "queue", 1) >= 1, "some have waited");
}

/// A policy that sends a second copy after 20 ms.
const DELAYED: &str = "policy = \"delayed:20ms:cc+round-robin\"\nhedge_budget = 1.0\ncancel = \"reset\"\n\
                       idempotent_methods = [\"GET\", \"PUT\"]";

#[test]
fn a_duplicate_wins_and_the_other_copy_is_reset() {
    let (stuck, good) = (Leaf::start(Act::Hang), Leaf::good());
    let Some(envoy) = envoy::start(&service(DELAYED, &[stuck.address, good.address])) else {
        return;
    };
    let mut sent = Vec::new();
    until("a duplicate to win", || {
        let body = format!("body {}", sent.len());
        let response = client::send(envoy.http, "PUT", "/x", body.as_bytes());
        assert_eq!((response.status, response.text().as_str()), (200, "good"));
        sent.push(body.into_bytes());
        envoy.counter("copies_won", "duplicate") > 0
    });
    until("the copies to be reset", || stuck.cancelled() == stuck.count());
    let bodies: Vec<_> = good.received().into_iter().map(|received| received.body).collect();
    assert_eq!(bodies, sent, "a duplicate has the body");
    assert!(envoy.count("cancellations", "cleanup", 1) >= 1);
}

#[test]
fn copies_that_start_together_go_to_different_servers() {
    let gate = Gate::default();
    let leaves = [0, 1].map(|_| Leaf::start(Act::Later(gate.clone())));
    let addresses = leaves.clone().map(|leaf| leaf.address);
    let lines = "policy = \"laedge:cc\"\nslots = 1\ncancel = \"reset\"";
    let Some(envoy) = envoy::start(&service(lines, &addresses)) else { return };
    let to = envoy.http;
    let client = std::thread::spawn(move || client::get(to, "/").status);
    until("two copies", || leaves.iter().map(Leaf::count).sum::<usize>() == 2);
    assert_eq!(leaves.each_ref().map(Leaf::count), [1, 1]);
    gate.open();
    assert_eq!(client.join().unwrap(), 200);
}

#[test]
fn a_request_that_must_not_run_twice_has_one_copy() {
    let gate = Gate::default();
    let leaves = [0, 1].map(|_| Leaf::start(Act::Later(gate.clone())));
    let addresses = leaves.clone().map(|leaf| leaf.address);
    let Some(envoy) = envoy::start(&service(DELAYED, &addresses)) else { return };
    let to = envoy.http;
    let [get, post] = ["GET", "POST"]
        .map(|method| std::thread::spawn(move || client::send(to, method, "/", b"body").status));
    let seen = |method| {
        let received = leaves.iter().flat_map(Leaf::received);
        received.filter(|received| received.line.starts_with(method)).count()
    };
    until("the duplicate", || seen("GET") == 2);
    gate.open();
    let both = (get.join().unwrap(), post.join().unwrap());
    assert_eq!(both, (200, 200), "{:?}", leaves.each_ref().map(Leaf::received));
    assert_eq!(seen("POST"), 1);
}

#[test]
fn shards_have_clusters_of_their_own() {
    let leaves = [Leaf::good(), Leaf::good()];
    let [a, b] = leaves.clone().map(|leaf| leaf.address);
    let services = format!(
        "[[service]]\nname = \"s\"\nhealth = false\nshard_by = {{ header = \"x-shard\" }}\n\
         [[service.shard]]\nname = \"a\"\nreplicas = [\"{a}\"]\n\
         [[service.shard]]\nname = \"b\"\nreplicas = [\"{b}\"]\n"
    );
    let Some(envoy) = envoy::start(&services) else { return };
    let at = |target: &str| client::send_with(envoy.http, "GET", "/", target, b"").status;
    assert_eq!([at("x-shard: a"), at("x-shard: b"), at("x-shard: b")], [200; 3]);
    assert_eq!([at("x-shard: c"), at("x-other: a")], [404, 400]);
    assert_eq!([leaves[0].count(), leaves[1].count()], [1, 2]);
    let received = leaves[1].received();
    assert!(received[0].fields.iter().all(|field| !field.contains("cluster")), "{received:?}");
}
