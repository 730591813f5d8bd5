//! Hosts come, go and fall ill, and Envoy knows.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::client;
use crate::envoy::{self, service, until};
use crate::leaf::{Act, Leaf};

/// Writes the endpoints of a cluster, as a control plane would send them.
fn publish(file: &Path, hosts: &[SocketAddr]) {
    let endpoint = |host: &SocketAddr| {
        let address = json!({ "address": host.ip().to_string(), "port_value": host.port() });
        json!({ "endpoint": { "address": { "socket_address": address } } })
    };
    let endpoints: Value = hosts.iter().map(endpoint).collect();
    let update = json!({ "resources": [{
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": "leaf",
        "endpoints": [{ "lb_endpoints": endpoints }],
    }]});
    // Envoy watches for files that take the place of others.
    let new = file.with_extension("new");
    std::fs::write(&new, update.to_string()).unwrap();
    std::fs::rename(new, file).unwrap();
}

#[test]
fn hosts_that_join_get_copies_and_hosts_that_leave_get_none() {
    let leaves = [Leaf::good(), Leaf::good(), Leaf::good()];
    let hosts = leaves.clone().map(|leaf| leaf.address);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("endpoints.json");
    publish(&file, &hosts[..2]);
    let mut config = envoy::config(&service("policy = \"round-robin\"", &hosts));
    let cluster = config["static_resources"]["clusters"][0].as_object_mut().unwrap();
    cluster.remove("load_assignment");
    cluster.insert("type".into(), "EDS".into());
    let source = json!({ "path_config_source": { "path": file } });
    cluster.insert("eds_cluster_config".into(), json!({ "eds_config": source }));
    config["node"] = json!({ "id": "test", "cluster": "test" });
    let Some(envoy) = envoy::start_with(&config) else { return };
    let counts = || leaves.each_ref().map(Leaf::count);
    for _ in 0..4 {
        assert_eq!(client::get(envoy.http, "/").status, 200);
    }
    assert_eq!(counts(), [2, 2, 0]);
    publish(&file, &hosts[1..]);
    until("the new host to get a request", || {
        assert_eq!(client::get(envoy.http, "/").status, 200);
        leaves[2].count() > 0
    });
    let gone = leaves[0].count();
    for _ in 0..6 {
        assert_eq!(client::get(envoy.http, "/").status, 200);
    }
    assert_eq!(leaves[0].count(), gone, "the host has left");
}

#[test]
fn the_health_of_hosts_is_that_of_envoy() {
    // Its health is bad as long as requests for `/health` are.
    let ill = Leaf::scripted(|received| match received.line.contains("health") {
        true => Act::Respond(500, Vec::new()),
        false => Act::Respond(200, b"ill".to_vec()),
    });
    let good = Leaf::good();
    let lines = "policy = \"round-robin\"";
    let services = service(lines, &[ill.address, good.address])
        .replace("health = false", "health = { path = \"/health\", interval = \"50ms\" }");
    let Some(envoy) = envoy::start(&services) else { return };
    until("the good host to be found", || client::get(envoy.http, "/").status == 200);
    for _ in 0..6 {
        assert_eq!(client::get(envoy.http, "/").text(), "good");
    }
}
