//! Servers that fail, requests that wait too long, bad configurations, and a bug of our own.

use std::net::{SocketAddr, TcpListener};

use crate::client;
use crate::envoy::{self, service, until};
use crate::leaf::{Act, Leaf};

/// An address at which nothing listens.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

const ROUND_ROBIN: &str = "policy = \"round-robin\"\nidempotent_methods = [\"GET\", \"PUT\"]\n\
                           retry_budget = 1.0\neject_after = 0\neject_after_refusals = 0";

#[test]
fn a_failed_copy_is_retried_with_its_body() {
    for (act, kind) in [(Act::Respond(503, Vec::new()), "refused"), (Act::Reset, "reset")] {
        let (bad, good) = (Leaf::start(act), Leaf::good());
        let Some(envoy) = envoy::start(&service(ROUND_ROBIN, &[bad.address, good.address])) else {
            return;
        };
        for body in [&b"one"[..], b"two", b""] {
            let method = if body.is_empty() { "GET" } else { "PUT" };
            let response = client::send(envoy.http, method, "/x", body);
            assert_eq!((response.status, response.text().as_str()), (200, "good"), "{kind}");
        }
        let bodies: Vec<_> = good.received().into_iter().map(|received| received.body).collect();
        assert_eq!(bodies, [&b"one"[..], b"two", b""]);
        let failed = bad.count() as u64;
        assert!(failed > 0, "the bad server was tried");
        assert_eq!(envoy.count("copies_ended", kind, failed), failed);
        assert_eq!(envoy.count("copies_started", "retry", failed), failed);
    }
}

#[test]
fn a_server_without_a_listener_is_avoided() {
    let good = Leaf::good();
    let Some(envoy) = envoy::start(&service(ROUND_ROBIN, &[nowhere(), good.address])) else {
        return;
    };
    for _ in 0..4 {
        assert_eq!(client::get(envoy.http, "/").status, 200);
    }
    assert!(envoy.count("copies_ended", "connect_failed", 1) >= 1);
}

#[test]
fn the_last_bad_response_passes() {
    let bad = Leaf::start(Act::Respond(503, b"overloaded".to_vec()));
    let Some(envoy) = envoy::start(&service(ROUND_ROBIN, &[bad.address])) else { return };
    let response = client::get(envoy.http, "/");
    assert_eq!((response.status, response.text().as_str()), (503, "overloaded"));
    let response = client::send(envoy.http, "POST", "/", b"body");
    assert_eq!((response.status, response.text().as_str()), (503, "overloaded"));
}

#[test]
fn requests_do_not_wait_for_ever() {
    let stuck = Leaf::start(Act::Hang);
    let lines = "policy = \"psq\"\nslots = 1\nqueue = 1\ntimeout = \"400ms\"";
    let Some(envoy) = envoy::start(&service(lines, &[stuck.address])) else { return };
    let to = envoy.http;
    let clients: Vec<_> =
        (0..3).map(|_| std::thread::spawn(move || client::get(to, "/"))).collect();
    let responses = clients.into_iter().map(|client| client.join().unwrap());
    let mut statuses: Vec<_> = responses.map(|response| response.status).collect();
    statuses.sort_unstable();
    // One runs, one finds the queue full, and one waits. It may still get the slot of the first.
    assert_eq!((statuses[0], statuses[2]), (503, 504), "{statuses:?}");
    assert!([503, 504].contains(&statuses[1]), "{statuses:?}");
    until("the copies to be reset", || stuck.cancelled() == stuck.count());
    assert!(envoy.count("requests", "shed", 1) >= 1);
}

#[test]
fn a_bad_configuration_is_rejected_with_the_fix() {
    let Some(program) = envoy::program() else { return };
    let leaf = Leaf::good();
    let good = envoy::config(&service("policy = \"psq\"\nslots = 1", &[leaf.address]));
    let folder = tempfile::tempdir().unwrap();
    for (was, is, said) in [
        ("\"psq\"", "\"psqq\"", "did you mean psq?"),
        ("\"slots\":1", "\"slotz\":1", "did you mean slots?"),
        ("\"slots\":1", "\"slots\":1,\"tls\":false", "transport_socket of the cluster"),
        ("\"slots\":1", "\"slots\":1", "OK"),
    ] {
        let file = folder.path().join("envoy.json");
        let text = good.to_string();
        assert!(text.contains(was), "{was}: {text}");
        std::fs::write(&file, text.replace(was, is)).unwrap();
        let output = envoy::command(&program, &file).args(["--mode", "validate"]).output().unwrap();
        let shown = [output.stdout, output.stderr].concat();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert_eq!(output.status.success(), said == "OK", "{shown}");
        assert!(shown.contains(said), "{is}: {shown}");
    }
}

#[test]
fn a_panic_costs_one_request() {
    let leaf = Leaf::good();
    let lines = "policy = \"rescue\"\nslots = 1";
    let Some(mut envoy) = envoy::start(&service(lines, &[leaf.address])) else { return };
    let injected = |of| client::send_with(envoy.http, "GET", "/", of, b"").status;
    for _ in 0..3 {
        assert_eq!(injected("x-curtail-panic: yes"), 500);
        assert_eq!(injected("x-other: yes"), 200);
    }
    assert!(envoy.is_alive());
    assert_eq!(leaf.count(), 3);
}
