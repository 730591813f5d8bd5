//! Bodies of any length pass intact.

use crate::client;
use crate::envoy::{self, service, until};
use crate::leaf::{Act, Leaf};

const POLICY: &str = "policy = \"delayed:20ms:cc+round-robin\"\nhedge_budget = 1.0\ncancel = \"reset\"\n\
                      idempotent_methods = [\"GET\", \"PUT\"]\nresponse_buffer = \"64KiB\"";

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_long_request_body_is_relayed_once() {
    let leaf = Leaf::scripted(|received| Act::Respond(200, received.body.clone()));
    let Some(envoy) = envoy::start(&service(POLICY, &[leaf.address])) else { return };
    for length in [1, 65_536, 65_537, 3_000_000] {
        let response = client::send(envoy.http, "PUT", "/", &bytes(length));
        assert_eq!(response.status, 200, "{length}");
        assert!(response.body == bytes(length), "{length}: the body has changed");
    }
    assert_eq!(leaf.count(), 4);
}

#[test]
fn a_long_response_of_a_duplicate_is_given_up() {
    // Both copies get a long response, and only the router can stream it.
    let leaf = |first| {
        let long = Act::Respond(200, bytes(1_000_000));
        Leaf::scripted(move |received| {
            match received.fields.iter().any(|f| f.contains("internal")) {
                // A duplicate.
                true => long.clone(),
                false => Act::Later(crate::leaf::Gate::clone(first)),
            }
        })
    };
    let gate: &'static crate::leaf::Gate = Box::leak(Box::default());
    let leaves = [leaf(gate), leaf(gate)];
    let addresses = leaves.clone().map(|leaf| leaf.address);
    let Some(envoy) = envoy::start(&service(POLICY, &addresses)) else { return };
    let to = envoy.http;
    let client = std::thread::spawn(move || client::get(to, "/"));
    until("the duplicate to be given up", || envoy.counter("copies_ended", "over_limit") == 1);
    gate.open();
    let response = client.join().unwrap();
    assert_eq!((response.status, response.text().as_str()), (200, "late"));
}

#[test]
fn a_response_that_breaks_off_frees_its_slot() {
    let leaf = Leaf::start(Act::BreakOff);
    let lines = "policy = \"psq\"\nslots = 1\neject_after = 0";
    let Some(envoy) = envoy::start(&service(lines, &[leaf.address])) else { return };
    for _ in 0..3 {
        client::get(envoy.http, "/");
    }
    assert_eq!(leaf.count(), 3, "a slot that is not freed blocks the second request");
    assert_eq!(envoy.count("copies_ended", "reset", 3), 3);
}
