//! Load reports of servers, and what Envoy reports about requests.

use serde_json::json;

use crate::client;
use crate::envoy::{self, service, until};
use crate::leaf::{Act, Leaf};

/// A server that reports this number of requests in flight.
fn loaded(in_flight: u32) -> Leaf {
    Leaf::scripted(move |received| match received.line.as_str() {
        "GET /load" => Act::Load(in_flight, 5),
        _ => Act::Respond(200, b"good".to_vec()),
    })
}

#[test]
fn prequal_asks_servers_for_their_load_and_prefers_the_idle_one() {
    let leaves = [loaded(50), loaded(0)];
    let addresses = leaves.clone().map(|leaf| leaf.address);
    let lines = "policy = \"prequal\"\nprobe = \"/load\"";
    let Some(envoy) = envoy::start(&service(lines, &addresses)) else { return };
    let seen = |is_probe: bool| {
        leaves.each_ref().map(|leaf| {
            let received = leaf.received();
            received.iter().filter(|of| (of.line == "GET /load") == is_probe).count()
        })
    };
    until("probes of both servers", || {
        assert_eq!(client::get(envoy.http, "/").status, 200);
        seen(true).iter().all(|probes| *probes > 2)
    });
    let before = seen(false);
    for _ in 0..30 {
        assert_eq!(client::get(envoy.http, "/").status, 200);
    }
    let [busy, idle] = seen(false);
    let (busy, idle) = (busy - before[0], idle - before[1]);
    assert!(idle > 2 * busy, "{busy} to the busy server, {idle} to the idle one");
}

#[test]
fn the_access_log_has_the_metadata_of_a_request() {
    let leaf = Leaf::good();
    let lines = "policy = \"psq\"\nslots = 1\ndebug_headers = true";
    let mut config = envoy::config(&service(lines, &[leaf.address]));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access");
    let listener = &mut config["static_resources"]["listeners"][0];
    listener["filter_chains"][0]["filters"][0]["typed_config"]["access_log"] = json!([{
        "name": "file",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
            "path": log,
            "log_format": { "text_format_source": {
                "inline_string": "%DYNAMIC_METADATA(curtail)%\n",
            }},
        },
    }]);
    let Some(envoy) = envoy::start_with(&config) else { return };
    assert_eq!(client::get(envoy.http, "/").status, 200);
    let line = || std::fs::read_to_string(&log).unwrap_or_default();
    until("the access log", || line().ends_with('\n'));
    let noted: serde_json::Value = serde_json::from_str(&line()).unwrap();
    assert_eq!((&noted["policy"], &noted["role"]), (&json!("psq"), &json!("primary")));
    assert_eq!((&noted["copies"], &noted["server"]), (&json!(1), &json!(leaf.address)));
    assert!(noted["queued_us"].is_number(), "{noted}");
}
