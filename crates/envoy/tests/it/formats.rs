//! What `curtail envoy` writes.

use curtail_proxy::envoy::{Format, Unconvertible, convert_text};
use serde_json::Value;

use crate::envoy;

/// A configuration with everything that has a counterpart in Envoy.
fn rich(folder: &std::path::Path) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (cert, key) = (cert.display(), key.display());
    format!(
        r#"
        [listen]
        http = "127.0.0.1:18080"
        https = "127.0.0.1:18443"
        admin = "127.0.0.1:19901"
        tls = {{ certificates = [{{ cert = "{cert}", key = "{key}" }}] }}

        [[service]]
        name = "search"
        policy = "rescue"
        slots = 4
        shard_by = {{ hash = {{ header = "x-key" }} }}
        tls = {{ ca = "{cert}", name = "search.internal", cert = "{cert}", key = "{key}" }}
        protocol = "auto"
        route = [{{ path_prefix = "/" }}, {{ path_prefix = "/live", tunnel = true, method = "GET" }}]

        [[service.shard]]
        name = "a"
        replicas = ["127.0.0.1:9001", "unix:/run/search.sock"]

        [[service.shard]]
        name = "b"
        replicas = ["localhost:9003"]

        [[service]]
        name = "calls"
        policy = "c3"
        protocol = "grpc"
        health = {{ grpc = "" }}
        outcome = {{ failed = ["DATA_LOSS"] }}
        route = [{{ grpc = "test.Echo/Call", unary = true, idempotent = true }}]

        [[service.shard]]
        name = "0"
        replicas = ["127.0.0.1:9005", "127.0.0.1:9006"]
        "#
    )
}

fn convert(text: &str, format: Format) -> Result<Value, Unconvertible> {
    convert_text("test", text, format).map(|converted| converted.text)
}

#[test]
fn envoy_accepts_the_bootstrap() {
    let Some(program) = envoy::program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let text = convert(&rich(folder.path()), Format::Bootstrap).unwrap();
    let file = folder.path().join("envoy.json");
    std::fs::write(&file, text.to_string()).unwrap();
    let output = envoy::command(&program, &file).args(["--mode", "validate"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{text:#}");
    assert!(!said.contains("deprecated"), "{said}");
}

#[test]
fn other_formats_have_the_same_parts() {
    let folder = tempfile::tempdir().unwrap();
    let text = rich(folder.path());
    let of = |format| convert(&text, format).unwrap();
    let (bootstrap, snippets) = (of(Format::Bootstrap), of(Format::Snippets));
    let clusters = &bootstrap["static_resources"]["clusters"];
    let listener = &bootstrap["static_resources"]["listeners"][0];
    let manager = &listener["filter_chains"][0]["filters"][0]["typed_config"];
    let routes = &manager["route_config"]["virtual_hosts"][0]["routes"];
    assert_eq!((&snippets["clusters"], &snippets["routes"]), (clusters, routes));
    assert_eq!(snippets["http_filters"][0], manager["http_filters"][0]);
    // The longest path comes first, and a path with a method before one without.
    let paths: Vec<_> = routes.as_array().unwrap().iter().map(|route| &route["match"]).collect();
    assert_eq!(paths[0]["path_separated_prefix"], "/test.Echo/Call");
    assert_eq!(paths[1]["path_separated_prefix"], "/live");
    assert_eq!(paths[2]["prefix"], "/");
    for format in [Format::Gateway, Format::Istio] {
        let text = of(format).to_string();
        for part in clusters.as_array().unwrap().iter().chain(routes.as_array().unwrap()) {
            assert!(text.contains(&part.to_string()), "{format:?}: {part}");
        }
    }
}

#[test]
fn what_envoy_cannot_do_is_an_error() {
    let service = |line: &str| {
        format!(
            "[[service]]\nname = \"a\"\npolicy = \"round-robin\"\n{line}\n\
             [[service.shard]]\nname = \"0\"\nreplicas = [\"127.0.0.1:9001\"]\n"
        )
    };
    for (line, said) in [
        ("throttle = 4", "throttle is not possible in Envoy"),
        ("cancel = \"none\"", "cancel = \"none\" is not possible in Envoy"),
        ("listen = \"127.0.0.1:9100\"", "listen is not possible in Envoy"),
        ("polizy = 1", "test:4: polizy: unknown key; did you mean policy?"),
    ] {
        let error = convert(&service(line), Format::Bootstrap).unwrap_err().to_string();
        assert!(error.contains(said), "{line}: {error}");
    }
    assert!(convert(&service(""), Format::Bootstrap).is_ok());
}
