//! A service of the configuration inside another proxy, which has the connections: Envoy.
//!
//! The text is the table `[[service]]` as JSON, with the same words and errors. A shard names a
//! cluster of the host in place of replicas, and keys about connections are the host's.

use std::num::NonZeroU64;

use curtail_kernel::{Limits, OutcomeTable, Policy};
use curtail_runtime::http::Commit;
use serde_json::{Map, Value};

use crate::config::{self, Config};
use crate::cost::Cost;
use crate::route::Router;

/// What messages call the text.
const NAME: &str = "service";

/// The number of places for servers in a shard, and its bound.
const PLACES: u32 = 64;
const PLACES_MAX: u32 = 10_000;

/// Keys that the host decides, each with the place of the setting in Envoy.
pub(crate) const FOREIGN: [(&str, &str); 13] = [
    ("listen", "the listeners of Envoy"),
    ("tls", "transport_socket of the cluster"),
    ("connect_timeout", "connect_timeout of the cluster"),
    ("health", "health_checks of the cluster"),
    ("idle_timeout", "common_http_protocol_options of the cluster"),
    ("idle_connections", "common_http_protocol_options of the cluster"),
    ("max_response_headers", "common_http_protocol_options of the cluster"),
    ("max_response_header_bytes", "common_http_protocol_options of the cluster"),
    ("max_request_body", "a buffer filter before this one"),
    ("tunnels", "upgrade_configs of the connection manager"),
    ("throttle", "an instance of curtail proxy in front of the replica"),
    ("stage", "an instance of curtail proxy in front of the replicas"),
    ("flow", "an instance of curtail proxy as the sidecar"),
];

/// A checked service without connections of its own.
#[derive(Debug)]
pub struct Embedded {
    config: Config,
    router: Router,
    clusters: Vec<String>,
    places: u32,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The shard, as an index into [`Embedded::shards`].
    pub shard: usize,
    /// Whether the request may be sent twice.
    pub idempotent: bool,
    /// When a copy wins.
    pub commit: Commit,
    /// The expected cost of its work.
    pub cost_hint: Option<NonZeroU64>,
}

/// A request without a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unroutable {
    /// The status of the response.
    pub status: u16,
    /// The reason, for the client.
    pub text: String,
}

impl Embedded {
    /// Parses and checks the text.
    ///
    /// # Errors
    /// All errors, one per line, each as `service: VALUE: what is wrong; the fix`.
    pub fn parse(json: &str) -> Result<Self, String> {
        let mut service = match serde_json::from_str(json) {
            Ok(Value::Object(service)) => service,
            Ok(_) => return Err(format!("{NAME}: is not an object; write {{\"name\": …}}")),
            Err(error) => return Err(format!("{NAME}: is not JSON ({error})")),
        };
        let foreign = foreign(&service);
        if !foreign.is_empty() {
            return Err(foreign.join("\n"));
        }
        let clusters = take_clusters(&mut service)?;
        let places = take_places(&mut service)?;
        // Whoever ends a request of the host also resets it.
        service.entry("cancel").or_insert_with(|| "reset".into());
        let text = format!("service = [{}]", toml_of(&Value::Object(service)));
        let config = config::parse(NAME, &text).map_err(|errors| plain(&errors.to_string()))?;
        if !config.services[0].limits.cancel {
            let fix = "remove it, because Envoy resets the copies of a request that ends";
            return Err(format!("{NAME}: cancel = \"none\" is not possible in Envoy; {fix}"));
        }
        Ok(Self { router: Router::new(&config), config, clusters, places })
    }

    fn service(&self) -> &config::Service {
        &self.config.services[0]
    }

    /// Returns the name of the service.
    pub fn name(&self) -> &str {
        &self.service().name
    }

    /// Returns the policy.
    pub fn policy(&self) -> Policy {
        self.service().policy
    }

    /// Returns the limits of the service's cells.
    pub fn limits(&self) -> Limits {
        self.service().limits
    }

    /// Returns the number of slots of each server.
    pub fn slots(&self) -> u32 {
        self.service().slots_or_one()
    }

    /// Returns the number of places for servers in each shard.
    pub fn places(&self) -> u32 {
        self.places
    }

    /// Returns the outcomes of responses.
    pub fn outcomes(&self) -> &OutcomeTable {
        &self.service().outcomes
    }

    /// Returns the name of each shard with the name of its cluster.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let shards = self.service().shards.iter().zip(&self.clusters);
        shards.map(|(shard, cluster)| (&*shard.name, &**cluster))
    }

    /// Returns the path of the load probes, if the policy sends them.
    pub fn probe(&self) -> Option<&str> {
        self.service().probe.as_deref()
    }

    /// Returns the size up to which request bodies are kept, in bytes.
    pub fn replay_bytes(&self) -> u64 {
        self.service().replay_bytes
    }

    /// Returns the size up to which responses are kept, in bytes.
    pub fn response_buffer(&self) -> usize {
        self.service().settings.response_buffer
    }

    /// Whether the metadata of a request states where its response came from: `debug_headers`.
    pub fn notes(&self) -> bool {
        self.service().debug_headers
    }

    /// Returns what works but is probably not intended, and what an operator should know.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        self.config.warnings().iter().chain(self.config.notes()).map(|text| plain(text))
    }

    /// Finds the destination of a request. `header` returns the values of a header, given its name
    /// in lower case.
    ///
    /// # Errors
    /// No route or shard fits.
    pub fn route<'s, 'h, V: IntoIterator<Item = &'h [u8]>>(
        &'s self,
        method: &str,
        path_and_query: &str,
        header: impl Fn(&'s str) -> V,
    ) -> Result<Destination, Unroutable> {
        let routed = self.router.route(method, path_and_query, &header);
        let target =
            routed.map_err(|why| Unroutable { status: why.status(), text: why.to_string() })?;
        let hint = self.service().cost_hint.as_deref();
        let declared = hint.and_then(|name| Cost::read(header(name)));
        Ok(Destination {
            shard: target.shard,
            idempotent: target.idempotent,
            commit: target.commit,
            cost_hint: declared.or(target.cost).map(Cost::hint),
        })
    }
}

/// Returns the errors about keys that the host decides.
fn foreign(service: &Map<String, Value>) -> Vec<String> {
    let given = FOREIGN.iter().filter(|(key, _)| service.contains_key(*key));
    let mut errors: Vec<_> = given
        .map(|(key, place)| format!("{NAME}: {key} does not apply inside Envoy; use {place}"))
        .collect();
    if let Some(protocol) = service.get("protocol").filter(|protocol| *protocol != "grpc") {
        let fix = "remove it, and set typed_extension_protocol_options of the cluster; only \
                   \"grpc\" is possible here, whose trailers decide the outcome";
        errors.push(format!("{NAME}: protocol = {protocol} does not apply inside Envoy; {fix}"));
    }
    errors
}

/// Takes the clusters of the shards out of the table, and completes it with stand-ins for replicas.
/// A service with `cluster` has one shard.
fn take_clusters(service: &mut Map<String, Value>) -> Result<Vec<String>, String> {
    if let Some(cluster) = service.remove("cluster") {
        let shard = serde_json::json!({ "name": cluster, "cluster": cluster });
        if service.insert("shard".into(), Value::Array(vec![shard])).is_some() {
            return Err(format!("{NAME}: cluster is given beside shard; remove one of them"));
        }
    }
    let Some(Value::Array(shards)) = service.get_mut("shard") else {
        let fix = "add \"cluster\": \"…\", or a list \"shard\" with a name and a cluster each";
        return Err(format!("{NAME}: no cluster is named; {fix}"));
    };
    let mut clusters = Vec::new();
    for (at, shard) in shards.iter_mut().enumerate() {
        let cluster = shard.as_object_mut().and_then(|shard| {
            // The host knows the replicas, and that they change.
            let replicas = [0, 1].map(|of| format!("replica{of}.shard{at}.invalid:1"));
            shard.insert("replicas".into(), replicas.as_slice().into());
            shard.remove("cluster")
        });
        match cluster {
            Some(Value::String(cluster)) if !cluster.is_empty() => clusters.push(cluster),
            _ => {
                let fix = "add \"cluster\": \"…\", the name of the cluster in Envoy";
                return Err(format!("{NAME}: shard {at} has no cluster; {fix}"));
            }
        }
    }
    Ok(clusters)
}

/// Takes the number of places for servers out of the table.
fn take_places(service: &mut Map<String, Value>) -> Result<u32, String> {
    let Some(given) = service.remove("places") else { return Ok(PLACES) };
    let places = given.as_u64().and_then(|places| u32::try_from(places).ok());
    places.filter(|places| (1..=PLACES_MAX).contains(places)).ok_or_else(|| {
        let fix = format!("use the most hosts that a cluster may have, from 1 to {PLACES_MAX}");
        format!("{NAME}: {given}: places is out of range; {fix}")
    })
}

/// Writes a value as TOML, on one line. TOML has no null, which stands for a key that is left out.
fn toml_of(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let entries = table.iter().filter(|(_, value)| !value.is_null());
            let entries = entries.map(|(key, value)| {
                // A string of JSON is a basic string of TOML.
                format!("{} = {}", Value::from(key.as_str()), toml_of(value))
            });
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(list) => {
            format!("[{}]", list.iter().map(toml_of).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Removes the line, which is always the first one.
fn plain(text: &str) -> String {
    text.replace(&format!("{NAME}:1: "), &format!("{NAME}: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Embedded, String> {
        Embedded::parse(json)
    }

    #[test]
    fn the_words_are_those_of_the_proxy() {
        let service = parse(
            r#"{ "name": "search", "policy": "rescue", "slots": 4, "timeout": "1s",
                 "shard": [{ "name": "a", "cluster": "leaf-a" }, { "name": "b", "cluster": "leaf-b" }],
                 "shard_by": { "header": "x-shard" },
                 "route": [{ "path_prefix": "/" }, { "path_prefix": "/sum", "unary": true, "cost": 3 }] }"#,
        );
        let service = service.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(service.name(), "search");
        assert_eq!(service.policy().to_string(), "rescue");
        assert_eq!(service.slots(), 4);
        assert_eq!(service.limits().timeout_ns, 1_000_000_000);
        assert!(service.limits().cancel, "Envoy resets what ends");
        assert_eq!(service.shards().collect::<Vec<_>>(), [("a", "leaf-a"), ("b", "leaf-b")]);
        let found = service.route("GET", "/sum/1", |name| {
            assert_eq!(name, "x-shard");
            [&b"b"[..]]
        });
        let found = found.expect("a destination");
        assert_eq!((found.shard, found.idempotent, found.commit), (1, true, Commit::End));
        assert_eq!(found.cost_hint.map(u64::from), Some(3_000_000));
        let none = service.route("GET", "/", |_| [&b"c"[..]]).expect_err("no shard");
        assert_eq!(none.status, 404);
    }

    #[test]
    fn a_single_cluster_is_a_shard() {
        let service = parse(r#"{ "name": "a", "cluster": "leaf" }"#).expect("valid");
        assert_eq!(service.shards().collect::<Vec<_>>(), [("leaf", "leaf")]);
        assert_eq!(service.policy().to_string(), "rescue+least-outstanding");
    }

    #[test]
    fn errors_name_the_value_and_the_fix() {
        for (json, parts) in [
            ("{", &["is not JSON"][..]),
            ("[]", &["is not an object"]),
            (r#"{ "name": "a" }"#, &["no cluster", "add \"cluster\""]),
            (r#"{ "name": "a", "shard": [{ "name": "x" }] }"#, &["shard 0 has no cluster"]),
            (r#"{ "name": "a", "cluster": "c", "shard": [] }"#, &["beside shard"]),
            (r#"{ "name": "a", "cluster": "c", "policy": "resque" }"#, &["did you mean rescue"]),
            (
                r#"{ "name": "a", "cluster": "c", "slotz": 1 }"#,
                &["service: ", "did you mean slots"],
            ),
            (r#"{ "name": "a", "cluster": "c", "slots": "\"\\\n" }"#, &["slots"]),
            (r#"{ "name": "a", "cluster": "c", "policy": "psq" }"#, &["add slots = N"]),
            (r#"{ "name": "a", "cluster": "c", "places": 0 }"#, &["0: places is out of range"]),
            (r#"{ "name": "a", "cluster": "c", "cancel": "none" }"#, &["not possible in Envoy"]),
            (r#"{ "name": "a", "cluster": "c", "protocol": "h2" }"#, &["protocol = \"h2\""]),
            (
                r#"{ "name": "a", "cluster": "c", "health": false, "tls": false }"#,
                &["health_checks of the cluster", "transport_socket of the cluster"],
            ),
        ] {
            let errors = parse(json).expect_err(json);
            for part in parts {
                assert!(errors.contains(part), "{json}: {errors}");
            }
            assert!(!errors.contains(":1:"), "{json}: {errors}");
        }
    }

    mod any_text {
        use proptest::prelude::*;

        use super::*;

        /// JSON with the words of a configuration.
        fn json() -> impl Strategy<Value = Value> {
            let word = "name|cluster|shard|policy|slots|places|route|cancel|timeout|rescue|psq|a";
            let leaf = prop_oneof![
                Just(Value::Null),
                any::<bool>().prop_map(Value::from),
                any::<i64>().prop_map(Value::from),
                any::<f64>().prop_map(Value::from),
                word.prop_map(Value::from),
                any::<String>().prop_map(Value::from),
            ];
            leaf.prop_recursive(4, 32, 6, move |inner| {
                let map = proptest::collection::hash_map(word, inner.clone(), 0..6);
                let list = proptest::collection::vec(inner, 0..4);
                prop_oneof![
                    list.prop_map(Value::Array),
                    map.prop_map(|map| Value::Object(map.into_iter().collect())),
                ]
            })
        }

        proptest! {
            #[test]
            fn no_text_panics(text in any::<String>()) {
                let _ = parse(&text);
            }

            #[test]
            fn no_object_panics(json in json()) {
                let _ = parse(&json.to_string());
            }
        }
    }
}
