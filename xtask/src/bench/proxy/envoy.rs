//! Envoy's configuration.
//!
//! Envoy queues requests per connection pool, that is behind a server that was chosen already; it
//! has nothing like one queue per shard. Circuit breakers turn requests away rather than hold them
//! back, so they are set out of the way. Its best choice is then the server with the fewest
//! requests, of all servers rather than of two at random. Hedging would gain it nothing here:
//! copies of a query take equally long.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::peer::Upstream;

const FILTER: &str = "type.googleapis.com/envoy.extensions.filters";
const BALANCER: &str =
    "type.googleapis.com/envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest";

pub(super) fn config(listen: SocketAddr, upstream: &Upstream) -> Value {
    let router = json!({
        "name": "envoy.filters.http.router",
        "typed_config": {
            "@type": format!("{FILTER}.http.router.v3.Router"),
            "suppress_envoy_headers": true,
        },
    });
    let route = json!({
        "match": {"prefix": "/"},
        "route": {"cluster": "leaves", "timeout": "60s"},
    });
    let manager = json!({
        "@type": format!(
            "{FILTER}.network.http_connection_manager.v3.HttpConnectionManager"
        ),
        "stat_prefix": "clients",
        "codec_type": "HTTP1",
        // Drawing one costs, and nobody reads it.
        "generate_request_id": false,
        "route_config": {
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}],
        },
        "http_filters": [router],
    });
    let name = "envoy.filters.network.http_connection_manager";
    json!({
        "static_resources": {
            "listeners": [{
                "name": "clients",
                "address": socket(listen),
                "filter_chains": [{"filters": [{"name": name, "typed_config": manager}]}],
            }],
            "clusters": [cluster(upstream)],
        },
    })
}

fn cluster(upstream: &Upstream) -> Value {
    let endpoint = |server: &SocketAddr| json!({"endpoint": {"address": socket(*server)}});
    let endpoints: Vec<Value> = upstream.servers.iter().map(endpoint).collect();
    let full_scan = json!({
        "name": "envoy.load_balancing_policies.least_request",
        "typed_config": {"@type": BALANCER, "selection_method": "FULL_SCAN"},
    });
    json!({
        "name": "leaves",
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_balancing_policy": {"policies": [{"typed_extension_config": full_scan}]},
        "circuit_breakers": {"thresholds": [{
            "max_connections": 4096,
            "max_pending_requests": 4096,
            "max_requests": 4096,
        }]},
        "health_checks": [{
            "interval": "0.25s",
            "timeout": "0.5s",
            "unhealthy_threshold": 2,
            "healthy_threshold": 1,
            "http_health_check": {"path": "/health"},
        }],
        "load_assignment": {
            "cluster_name": "leaves",
            "endpoints": [{"lb_endpoints": endpoints}],
        },
    })
}

fn socket(address: SocketAddr) -> Value {
    let (host, port) = (address.ip().to_string(), address.port());
    json!({"socket_address": {"address": host, "port_value": port}})
}
