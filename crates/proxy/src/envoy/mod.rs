//! Writes Envoy's configuration for the module, from a configuration of the proxy.
//!
//! What the proxy does with connections, Envoy does with its own settings: listeners, TLS, health
//! checks and protocols become those. What the kernel decides becomes the configuration of the
//! module's filter, in the same words.

mod cluster;

use std::path::Path;

use curtail_config::ConfigErrors;
use serde_json::{Map, Value, json};

use crate::config::{self, Config, Service};
use crate::embedded::{Embedded, FOREIGN};

/// The name of the module's library, without `lib` and `.so`.
pub const MODULE: &str = "curtail_envoy";

/// Where the configuration goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A whole configuration of Envoy.
    Bootstrap,
    /// The parts to insert into an existing one: the filter, the routes and the clusters.
    Snippets,
    /// An `EnvoyPatchPolicy` of Envoy Gateway.
    Gateway,
    /// An `EnvoyFilter` of Istio.
    Istio,
}

/// Envoy's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// The configuration, which is also YAML.
    pub text: Value,
    /// What could not be carried over, one line each.
    pub remarks: Vec<String>,
}

/// The reason why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Unconvertible {
    /// The file has errors.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// Envoy cannot do what the file demands.
    #[error("{0}")]
    Impossible(String),
}

/// Converts a file.
///
/// # Errors
/// The file cannot be read or has errors, or something in it is impossible in Envoy.
pub fn convert(path: &Path, format: Format) -> Result<Converted, Unconvertible> {
    let text = curtail_config::read_text(path)?;
    convert_text(&path.display().to_string(), &text, format)
}

/// Converts the text of a file, which errors call `name`.
///
/// # Errors
/// The file has errors, or something in it is impossible in Envoy.
pub fn convert_text(name: &str, text: &str, format: Format) -> Result<Converted, Unconvertible> {
    let config = config::parse(name, text)?;
    let tables: Value = curtail_config::parse(name, text)?;
    let tables = match &tables["service"] {
        Value::Array(tables) => tables.clone(),
        table => vec![table.clone()],
    };
    let mut parts = Parts::default();
    for (service, table) in config.services.iter().zip(tables) {
        parts.add(name, service, table)?;
    }
    parts.routes.sort_by_key(|route| std::cmp::Reverse(route.rank));
    let text = match format {
        Format::Bootstrap => parts.bootstrap(&config),
        Format::Snippets => json!({
            "http_filters": [parts.filter()],
            "routes": parts.routes(),
            "clusters": parts.clusters,
        }),
        Format::Gateway => parts.gateway(),
        Format::Istio => parts.istio(),
    };
    Ok(Converted { text, remarks: parts.remarks })
}

/// The parts of Envoy's configuration.
#[derive(Default)]
struct Parts {
    clusters: Vec<Value>,
    routes: Vec<Route>,
    upgrades: Vec<String>,
    remarks: Vec<String>,
}

struct Route {
    /// Envoy takes the first route that matches: longer paths come first, and those with a method.
    rank: (usize, bool),
    text: Value,
}

impl Parts {
    fn add(
        &mut self,
        name: &str,
        service: &Service,
        mut table: Value,
    ) -> Result<(), Unconvertible> {
        let impossible = |key: &str| {
            let which = &service.name;
            let fix = "remove it, or keep this service behind curtail proxy";
            Unconvertible::Impossible(format!(
                "{name}: service {which:?}: {key} is not possible in Envoy; {fix}"
            ))
        };
        let keys = table.as_object_mut().expect("a service is a table");
        for key in ["throttle", "stage", "flow", "listen"] {
            if keys.contains_key(key) {
                return Err(impossible(key));
            }
        }
        if keys.get("cancel").is_some_and(|cancel| cancel == "none") {
            return Err(impossible("cancel = \"none\""));
        }
        for key in ["max_request_body", "max_response_header_bytes", "max_response_headers"] {
            if keys.contains_key(key) {
                let which = &service.name;
                self.remarks.push(format!("{name}: service {which:?}: {key} is left out"));
            }
        }
        for (key, _) in FOREIGN {
            keys.remove(key);
        }
        if keys.get("protocol").is_some_and(|protocol| protocol != "grpc") {
            keys.remove("protocol");
        }
        let names = service.shards.iter().map(|shard| match service.shards.len() {
            1 => service.name.clone(),
            _ => format!("{}-{}", service.name, shard.name),
        });
        let names: Vec<String> = names.collect();
        let shards = service.shards.iter().zip(&names);
        let shards = shards.map(|(shard, cluster)| json!({"name": shard.name, "cluster": cluster}));
        keys.insert("shard".into(), shards.collect());
        if let Some(Value::Array(routes)) = keys.get_mut("route") {
            for route in routes.iter_mut().filter_map(Value::as_object_mut) {
                route.remove("tunnel");
            }
        }
        for (shard, cluster) in service.shards.iter().zip(&names) {
            self.clusters.push(cluster::of(service, shard, cluster));
        }
        if let Err(errors) = Embedded::parse(&table.to_string()) {
            return Err(Unconvertible::Impossible(errors));
        }
        self.add_routes(service, &names, &table);
        Ok(())
    }

    fn add_routes(&mut self, service: &Service, clusters: &[String], table: &Value) {
        for route in &service.routes {
            let mut matches = match &*route.path_prefix {
                "" => json!({ "prefix": "/" }),
                prefix => json!({ "path_separated_prefix": prefix }),
            };
            if let Some(method) = &route.method {
                let exact = json!({ "exact": method });
                matches["headers"] = json!([{ "name": ":method", "string_match": exact }]);
            }
            // The module enforces the timeout.
            let mut action = json!({ "timeout": "0s" });
            let mut text = json!({ "match": matches });
            match clusters {
                [only] => action["cluster"] = only.as_str().into(),
                _ => {
                    action["cluster_header"] = CLUSTER_HEADER.into();
                    text["request_headers_to_remove"] = json!([CLUSTER_HEADER]);
                }
            }
            if route.tunnel {
                for protocol in &service.tunnels.protocols {
                    if !self.upgrades.contains(protocol) {
                        self.upgrades.push(protocol.clone());
                    }
                }
            }
            text["route"] = action;
            text["typed_per_filter_config"] = json!({ FILTER: {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute",
                "dynamic_module_config": module(),
                "filter_config": of_struct(table),
            }});
            let depth = route.path_prefix.len();
            self.routes.push(Route { rank: (depth, route.method.is_some()), text });
        }
    }

    fn routes(&self) -> Value {
        self.routes.iter().map(|route| route.text.clone()).collect()
    }

    /// The filter. Its routes name the service.
    fn filter(&self) -> Value {
        json!({
            "name": FILTER,
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter",
                "dynamic_module_config": module(),
                "filter_name": FILTER,
            },
        })
    }

    fn connection_manager(&self, name: &str) -> Value {
        let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
        let upgrades = self.upgrades.iter().map(|protocol| json!({ "upgrade_type": protocol }));
        json!({
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "stat_prefix": name,
                "upgrade_configs": upgrades.collect::<Value>(),
                "route_config": {
                    "name": "curtail",
                    "virtual_hosts": [{
                        "name": "curtail", "domains": ["*"], "routes": self.routes(),
                    }],
                },
                "http_filters": [
                    self.filter(),
                    { "name": "envoy.filters.http.router", "typed_config": { "@type": router } },
                ],
            },
        })
    }

    fn bootstrap(&self, config: &Config) -> Value {
        let listen = &config.listen;
        let mut listeners = vec![json!({
            "name": "http",
            "address": cluster::socket(&listen.http.ip().to_string(), listen.http.port()),
            "filter_chains": [{ "filters": [self.connection_manager("http")] }],
        })];
        if let Some((address, spec)) = &listen.https {
            listeners.push(json!({
                "name": "https",
                "address": cluster::socket(&address.ip().to_string(), address.port()),
                "filter_chains": [{
                    "filters": [self.connection_manager("https")],
                    "transport_socket": cluster::tls_listener(spec),
                }],
            }));
        }
        let mut text = json!({
            "static_resources": { "listeners": listeners, "clusters": self.clusters },
        });
        if let Some(admin) = listen.admin {
            let address = cluster::socket(&admin.ip().to_string(), admin.port());
            text["admin"] = json!({ "address": address });
        }
        text
    }

    /// One operation per object, each addressed as Envoy Gateway names it.
    fn gateway(&self) -> Value {
        let patch = |kind: &str, name: &str, path: &str, value: Value| {
            json!({
                "type": format!("type.googleapis.com/envoy.config.{kind}"),
                "name": name,
                "operation": { "op": "add", "path": path, "value": value },
            })
        };
        let filters = "/default_filter_chain/filters/0/typed_config/http_filters/0";
        let routes = "/virtual_hosts/0/routes/0";
        let route = "default/curtail/http";
        let patches = [patch("listener.v3.Listener", route, filters, self.filter())];
        let of_routes = self
            .routes
            .iter()
            .rev()
            .map(|of| patch("route.v3.RouteConfiguration", route, routes, of.text.clone()));
        let of_clusters = self.clusters.iter().map(|of| {
            let name = of["name"].as_str().unwrap_or_default();
            patch("cluster.v3.Cluster", name, "", of.clone())
        });
        let patches: Value = patches.into_iter().chain(of_routes).chain(of_clusters).collect();
        json!({
            "apiVersion": "gateway.envoyproxy.io/v1alpha1",
            "kind": "EnvoyPatchPolicy",
            "metadata": { "name": "curtail", "namespace": "default" },
            "spec": {
                "targetRef": {
                    "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "curtail",
                },
                "type": "JSONPatch",
                "jsonPatches": patches,
            },
        })
    }

    fn istio(&self) -> Value {
        let patch = |applies: &str, at: Value, operation: &str, value: Value| {
            let patch = json!({ "operation": operation, "value": value });
            json!({ "applyTo": applies, "match": at, "patch": patch })
        };
        let router = json!({ "listener": { "filterChain": { "filter": {
            "name": "envoy.filters.network.http_connection_manager",
            "subFilter": { "name": "envoy.filters.http.router" },
        }}}});
        let filter = patch("HTTP_FILTER", router, "INSERT_BEFORE", self.filter());
        let anywhere =
            json!({ "routeConfiguration": { "vhost": { "route": { "action": "ANY" } } } });
        let routes = self
            .routes
            .iter()
            .rev()
            .map(|of| patch("HTTP_ROUTE", anywhere.clone(), "INSERT_FIRST", of.text.clone()));
        let clusters = self.clusters.iter();
        let clusters = clusters.map(|of| patch("CLUSTER", Map::new().into(), "ADD", of.clone()));
        let patches: Value = std::iter::once(filter).chain(routes).chain(clusters).collect();
        json!({
            "apiVersion": "networking.istio.io/v1alpha3",
            "kind": "EnvoyFilter",
            "metadata": { "name": "curtail", "namespace": "istio-system" },
            "spec": { "configPatches": patches },
        })
    }
}

/// The name of the filter.
const FILTER: &str = "curtail";

/// The header by which the filter tells the router the cluster of the shard. The route removes it.
pub const CLUSTER_HEADER: &str = "x-curtail-cluster";

fn module() -> Value {
    // Envoy must not unload the library, whose threads run until the end of the process.
    json!({ "name": MODULE, "do_not_close": true })
}

/// Packs an object as Envoy passes it to a module: as JSON.
fn of_struct(value: &Value) -> Value {
    json!({ "@type": "type.googleapis.com/google.protobuf.Struct", "value": value })
}
