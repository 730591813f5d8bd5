//! Checks that the manual mentions every key, and that its examples do what their comments promise.

use crate::config::{self, Config};
use crate::cost::Cost;
use crate::route::Router;

const MANUAL: &str = include_str!("../../../../docs/proxy.md");

#[test]
fn the_manual_names_every_key() {
    let schema = config::schema();
    let root = schema["properties"].as_object().expect("tables");
    let tables = schema["$defs"].as_object().expect("tables").values();
    let keys = tables.filter_map(|table| table["properties"].as_object()).flat_map(|t| t.keys());
    for key in keys.filter(|key| !root.contains_key(*key)) {
        let named = [format!("`{key}`"), format!(".{key}`"), format!("`{key}.")];
        assert!(named.iter().any(|name| MANUAL.contains(name)), "docs/proxy.md lacks {key}");
    }
}

/// Returns the examples of the manual.
fn examples() -> impl Iterator<Item = &'static str> {
    let after = MANUAL.split("```toml\n").skip(1);
    after.map(|rest| rest.split_once("```").expect("an example has an end").0)
}

/// Returns a file that contains the example. An example is either a complete file or a few lines of
/// a `[[service]]` table.
fn file(example: &str) -> String {
    if example.contains("[[service]]") {
        return example.into();
    }
    // A key that selects a shard is tested with two shards.
    let shards = if example.contains("shard_by") { &["0", "1"][..] } else { &["0"] };
    let shard = |name: &&str| {
        format!("[[service.shard]]\nname = \"{name}\"\nreplicas = [\"10.0.0.1:900{name}\"]\n")
    };
    let shards: String = shards.iter().map(shard).collect();
    format!("[[service]]\nname = \"a\"\npolicy = \"random\"\n{example}\n{shards}")
}

/// Writes the files that the examples name.
fn certificates(folder: &std::path::Path) {
    let names = vec!["search.internal".to_owned()];
    let own = rcgen::generate_simple_self_signed(names).expect("a certificate");
    for (file, text) in [
        ("a.pem", own.cert.pem()),
        ("ca.pem", own.cert.pem()),
        ("a.key", own.signing_key.serialize_pem()),
    ] {
        std::fs::write(folder.join(file), text).expect("room");
    }
}

/// Checks a promise of the form `METHOD TARGET [NAME: VALUE]… -> OUTCOME`.
fn keeps(config: &Config, promise: &str) {
    let (request, outcome) = promise.split_once(" -> ").expect("a promise");
    let mut parts = request.split(['[', ']']);
    let (method, target) = parts.next().and_then(|line| line.trim().split_once(' ')).expect("two");
    let fields: Vec<_> = parts.filter_map(|field| field.split_once(": ")).collect();
    let values = |name: &str| {
        let named: Vec<_> = fields.iter().filter(|(field, _)| *field == name).collect();
        named.into_iter().map(|(_, value)| value.as_bytes())
    };
    let found = Router::new(config).route(method, target, values);
    let found = match (found, outcome.split_once(' ')) {
        (Err(error), _) => error.status().to_string(),
        (Ok(to), Some(("shard", _))) => {
            format!("shard {}", config.services[to.service].shards[to.shard].name)
        }
        (Ok(to), Some(("costs", _))) => {
            let expected = outcome.strip_prefix("costs ").and_then(|cost| cost.parse().ok());
            assert_eq!(to.cost, expected.and_then(Cost::new), "{promise}");
            return;
        }
        (Ok(to), _) if to.idempotent => "may run twice".into(),
        (Ok(_), _) => "runs once".into(),
    };
    assert_eq!(found, outcome, "{promise}");
}

#[test]
fn the_examples_of_the_manual_are_fine_and_do_what_they_promise() {
    let folder = tempfile::tempdir().expect("a folder");
    certificates(folder.path());
    let name = folder.path().join("example").display().to_string();
    let (mut files, mut promises) = (0, 0);
    for example in examples() {
        let config = config::parse(&name, &file(example));
        let config = config.unwrap_or_else(|errors| panic!("{errors}\nin\n{example}"));
        assert_eq!(config.warnings(), [""; 0], "{example}");
        for promise in example.lines().filter_map(|line| line.strip_prefix("# ")) {
            keeps(&config, promise);
            promises += 1;
        }
        files += 1;
    }
    assert_eq!((files, promises), (14, 23), "none was missed");
}

#[test]
fn sidecars_of_the_manual_and_of_the_evaluation_are_fine() {
    let page = include_str!("../../../../docs/sidecar.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    for text in [
        example.expect("an example"),
        include_str!("../../../../lab/soa/hotrod/frontend.toml"),
        include_str!("../../../../lab/soa/hotrod/customer.toml"),
        include_str!("../../../../lab/soa/hotrod/route.toml"),
    ] {
        let config = config::parse("example", text);
        let config = config.unwrap_or_else(|errors| panic!("{errors}\nin\n{text}"));
        assert_eq!(config.warnings(), [""; 0], "{text}");
    }
}
