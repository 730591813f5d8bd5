//! Clusters of Envoy, and what their connections need.

use std::time::Duration;

use curtail_net::{Address, CertificateFiles, ServerTlsSpec};
use curtail_runtime::http::{Probe, Protocol};
use serde_json::{Value, json};

use super::{FILTER, module};
use crate::config::{Service, Shard};

/// An address with a port.
pub(super) fn socket(host: &str, port: u16) -> Value {
    json!({ "socket_address": { "address": host, "port_value": port } })
}

fn seconds(time: Duration) -> Value {
    format!("{}s", time.as_secs_f64()).into()
}

/// The cluster of a shard.
pub(super) fn of(service: &Service, shard: &Shard, name: &str) -> Value {
    let addresses = shard.replicas.iter().map(|&server| &service.servers[server]);
    let is_static = addresses.clone().all(|address| match address {
        Address::Tcp { host, .. } => host.parse::<std::net::IpAddr>().is_ok(),
        Address::Unix(_) => true,
    });
    let endpoints = addresses.map(|address| {
        let address = match address {
            Address::Tcp { host, port } => socket(host, *port),
            Address::Unix(path) => json!({ "pipe": { "path": path } }),
        };
        json!({ "endpoint": { "address": address } })
    });
    let endpoints: Value = endpoints.collect();
    let mut cluster = json!({
        "name": name,
        "type": if is_static { "STATIC" } else { "STRICT_DNS" },
        "connect_timeout": seconds(service.settings.connect_timeout),
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{ "lb_endpoints": endpoints }],
        },
        "load_balancing_policy": { "policies": [{ "typed_extension_config": {
            "name": "envoy.load_balancing_policies.dynamic_modules",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.dynamic_modules.v3.DynamicModulesLoadBalancerConfig",
                "dynamic_module_config": module(),
                "lb_policy_name": FILTER,
            },
        }}]},
        // The kernel bounds queues and copies.
        "circuit_breakers": { "thresholds": [{
            "max_connections": u32::MAX, "max_pending_requests": u32::MAX,
            "max_requests": u32::MAX, "max_retries": u32::MAX,
        }]},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": protocol(service),
        },
    });
    if let Some(checks) = health(service) {
        cluster["health_checks"] = checks;
    }
    if let Some(tls) = &service.tls {
        cluster["transport_socket"] = tls_cluster(tls, service);
    }
    cluster
}

fn protocol(service: &Service) -> Value {
    let idle = json!({ "idle_timeout": seconds(service.settings.idle_timeout) });
    let mut options = json!({
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "common_http_protocol_options": idle,
    });
    let (key, protocol) = match service.protocol {
        Protocol::Http1 => ("explicit_http_config", json!({ "http_protocol_options": {} })),
        Protocol::Http2 => ("explicit_http_config", json!({ "http2_protocol_options": {} })),
        Protocol::Auto => ("auto_config", json!({})),
    };
    options[key] = protocol;
    options
}

fn health(service: &Service) -> Option<Value> {
    let (key, check) = match &service.health.probe {
        Probe::Connect => return None,
        Probe::Get(path) => (
            "http_health_check",
            json!({
                "path": path,
                "expected_statuses": [{ "start": 200, "end": 500 }],
            }),
        ),
        Probe::Grpc(name) => ("grpc_health_check", json!({ "service_name": name })),
    };
    let interval = seconds(service.health.interval);
    Some(json!([{
        "interval": interval,
        "no_traffic_interval": interval,
        "timeout": seconds(service.health.timeout),
        "unhealthy_threshold": 2,
        "healthy_threshold": 1,
        key: check,
    }]))
}

fn file(path: &std::path::Path) -> Value {
    json!({ "filename": path })
}

fn certificate(files: &CertificateFiles) -> Value {
    json!({ "certificate_chain": file(&files.cert), "private_key": file(&files.key) })
}

fn tls_cluster(tls: &curtail_net::ClientTlsSpec, service: &Service) -> Value {
    let system = std::path::Path::new("/etc/ssl/certs/ca-certificates.crt");
    let mut common = json!({
        "validation_context": { "trusted_ca": file(tls.ca.as_deref().unwrap_or(system)) },
    });
    if let Some(files) = &tls.cert_key {
        common["tls_certificates"] = json!([certificate(files)]);
    }
    let mut context = json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": common,
    });
    let host = service.servers.first().and_then(Address::host);
    if let Some(name) = tls.name.as_deref().or(host) {
        context["sni"] = name.into();
        context["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"] =
            json!([{ "san_type": "DNS", "matcher": { "exact": name } }]);
    }
    json!({ "name": "envoy.transport_sockets.tls", "typed_config": context })
}

/// TLS for clients.
pub(super) fn tls_listener(spec: &ServerTlsSpec) -> Value {
    let certificates = spec.certificates.iter().map(certificate);
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "common_tls_context": {
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_certificates": certificates.collect::<Value>(),
            },
        },
    })
}
