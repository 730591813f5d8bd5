//! Tests the meaning of the configuration file, and the errors that invalid files cause.

use std::path::{Path, PathBuf};
use std::time::Duration;

use curtail_flow::{Discipline, Workflow, WorkflowSpec};
use curtail_kernel::{GroupId, Limits, Policy, ServerId};
use curtail_runtime::http::{Health, Probe};
use proptest::prelude::*;

use super::model::Cancel;
use super::{ConfigError, FlowRole, Key, LogFormat, LogLevel, ShardBy};
use crate::config::{self, Config};
use crate::cost::Cost;

/// The configuration file from the interface document, unchanged.
const EXAMPLE: &str = include_str!("../../tests/configs/good/interface.toml");

/// The smallest service.
const MINIMAL: &str = include_str!("../../tests/configs/good/minimal.toml");

fn parse(text: &str) -> Config {
    config::parse("test.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn configs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs")
}

/// Returns the errors (`#!`) or warnings (`#?`) that the comments of a file promise for their
/// lines, as `VALUE: what is wrong; the fix`. A text that ends in `…` is only the start of the
/// message.
fn promised(text: &str, mark: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate();
    let marked = lines.flat_map(|(at, line)| line.split(mark).skip(1).map(move |text| (at, text)));
    marked.map(|(at, text)| (at + 1, text.trim().to_string())).collect()
}

fn compare(name: &str, promised: &[(usize, String)], messages: &[String]) {
    assert_eq!(promised.len(), messages.len(), "{name}:\n{}", messages.join("\n"));
    for ((line, text), message) in promised.iter().zip(messages) {
        let whole = format!("{name}:{line}: {text}");
        match whole.strip_suffix('…') {
            Some(start) => assert!(message.starts_with(start), "{message}\nis not\n{whole}"),
            None => assert_eq!(*message, whole),
        }
    }
}

#[test]
fn every_error_in_a_file_is_reported_with_line_value_and_fix() {
    let mut files = 0;
    for entry in std::fs::read_dir(configs()).expect("the table") {
        let path = entry.expect("the table").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        files += 1;
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let text = std::fs::read_to_string(&path).expect("a file of the table");
        let (errors, warnings) = (promised(&text, "#!"), promised(&text, "#?"));
        assert!(!errors.is_empty() || !warnings.is_empty(), "{name} expects no message");
        match config::parse(name, &text) {
            Ok(config) => {
                compare(name, &errors, &[]);
                compare(name, &warnings, config.warnings());
            }
            Err(found) => {
                let lines: Vec<_> = found.errors().iter().map(ConfigError::line).collect();
                assert_eq!(lines, errors.iter().map(|&(line, _)| Some(line)).collect::<Vec<_>>());
                let messages: Vec<_> = found.errors().iter().map(ToString::to_string).collect();
                compare(name, &errors, &messages);
            }
        }
    }
    assert!(files > 40, "only {files} files found");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = config::load(&configs().join("there-is-none.toml")).expect_err("no file");
    let message = missing.to_string();
    assert!(message.contains("there-is-none.toml: cannot be read"), "{message}");
    assert_eq!(missing.errors()[0].line(), None);

    let latin1 = config::load(&configs().join("latin1.bytes")).expect_err("not UTF-8");
    let message = latin1.to_string();
    assert!(message.ends_with("latin1.bytes:2: \u{fffd}: is not UTF-8; save the file as UTF-8"));

    // Opening a pipe would wait for a writer.
    let pipe = std::env::temp_dir().join(format!("curtail-pipe-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let flow = std::fs::read_to_string(configs().join("flow.toml")).expect("a file of the table");
    let flow = flow.replace("\"no-key\"", &format!("{:?}", pipe.display().to_string()));
    let message = config::parse("flow.toml", &flow).expect_err("a pipe").to_string();
    std::fs::remove_file(&pipe).expect("it is ours");
    assert!(message.contains("cannot be read (it is not a regular file)"), "{message}");
}

#[test]
fn the_example_of_the_interface_resolves_as_documented() {
    let mut config = config::load(&configs().join("good/interface.toml")).expect("it parses");
    config.listen.places = [None, None, None];
    assert_eq!(config.warnings(), [""; 0]);
    assert_eq!(config.listen.http.to_string(), "127.0.0.1:8080");
    assert_eq!(config.listen.admin.map(|at| at.to_string()).as_deref(), Some("127.0.0.1:9901"));
    let [service] = &*config.services else { panic!("one service") };
    assert_eq!((service.policy.to_string().as_str(), service.gate()), ("laedge", 1));
    assert_eq!(service.cancel, Cancel::None);
    assert_eq!(service.limits.attempt_timeout_ns, 500_000_000);
    let health = &service.health;
    assert_eq!(health, &Health::default());
    assert_eq!(health.interval, Duration::from_millis(250));
    assert_eq!(service.routes[0].path_prefix, "", "the slash is not a segment");
    assert_eq!(service.shard_by, Some(ShardBy::Name(Key::Header("x-shard".into()))));
    assert_eq!(service.shards[0].replicas, [0, 1]);
    let servers: Vec<_> = service.servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["127.0.0.1:9001", "127.0.0.1:9002"]);

    // The example spells out most defaults. Otherwise it is the same service as the minimal one.
    let minimal = parse(MINIMAL);
    assert_eq!(minimal.listen, config.listen);
    assert_eq!(minimal.listen.max_connections, 10_000);
    assert_eq!((minimal.log.format, minimal.log.level), (LogFormat::Text, LogLevel::Info));
    let mut same = service.clone();
    same.shard_by = None;
    same.limits.attempt_timeout_ns = 1_000_000_000;
    assert_eq!(minimal.services[0], same);
}

#[test]
fn one_note_names_all_services_that_fit_a_single_proxy() {
    let another = |name: &str, policy: &str| {
        let text = MINIMAL.replace("\"search\"", &format!("{name:?}")).replace("laedge", policy);
        text.replace("slots", &format!("route = {{ path_prefix = \"/{name}\" }}\nslots"))
    };
    let text = MINIMAL.to_string() + &another("b", "random") + &another("c", "psq");
    let config = parse(&text);
    let [note] = config.notes() else { panic!("one note: {:?}", config.notes()) };
    let start = "services \"search\" (laedge), \"c\" (psq) gain most if one proxy sends all";
    assert!(note.starts_with(start), "{note}");
}

#[test]
fn effects_of_a_policy_on_a_service_are_noted() {
    let two = r#"["127.0.0.1:9001", "127.0.0.1:9002"]"#;
    let (one, none) = (r#"["127.0.0.1:9001"]"#, "idempotent_methods = []");
    let slots = "set the replicas' full number of slots in each proxy";
    let stopped = "cancels no copies (cancel = \"none\"), which loses most of the gain";
    let (alone, once) = ("sends no second copies to its shards", "no route whose requests may run");
    let published =
        "of 20 % of the queries (hedge_budget = 0.2), so it is not the policy that curtail";
    let limited = "hedge_budget = 0.2";
    for (policy, more, replicas, expected) in [
        ("psq", none, one, &[slots][..]),
        ("random", "", two, &[]),
        ("bounded:2", "", two, &[]),
        ("laedge+bounded:2", "", two, &[]),
        ("laedge+bounded:2", limited, two, &[published]),
        ("laedge", limited, two, &[slots, published]),
        ("laedge", "hedge_budget = 0.05", two, &[slots, "of 5 % of the queries"]),
        ("delayed:5ms", "", two, &[]),
        ("rescue", "", two, &[stopped]),
        ("rescue:preempt", "cancel = \"reset\"\nhedge_budget = 0.2", two, &[slots, published]),
        ("rescue:preempt", "cancel = \"reset\"", two, &[slots]),
        ("rescue+bounded:1", "", two, &[stopped]),
        ("rescue:no-cancel", "", two, &[]),
        ("rescue:no-cancel", "cancel = \"reset\"", two, &["cancels no copies although cancel"]),
        ("rescue", "cancel = \"reset\"", two, &[]),
        ("laedge", "", two, &[slots]),
        ("laedge", "", one, &[slots, alone]),
        ("laedge", none, two, &[slots, once]),
        ("laedge", "route = { method = \"POST\" }", two, &[slots, once]),
        ("laedge", "route = { method = \"POST\", idempotent = true }", two, &[slots]),
        ("laedge", "route = { path_prefix = \"/a\", idempotent = false }", two, &[slots, once]),
        ("rescue", none, one, &[stopped, alone, once]),
    ] {
        let text = MINIMAL.replace("\"laedge\"", &format!("{policy:?}")).replace(two, replicas);
        let config = parse(&text.replace("slots = 1", &format!("slots = 1\n{more}")));
        let notes = config.notes();
        assert_eq!(notes.len(), expected.len(), "{policy} {more}: {notes:?}");
        for (note, part) in notes.iter().zip(expected) {
            assert!(note.starts_with(&format!("service \"search\" ({policy}) ")), "{note}");
            assert!(note.contains(part), "{note}");
        }
    }
}

#[test]
fn the_defaults_of_the_schema_are_those_of_the_program() {
    let schema = config::schema();
    let defaults = |properties: &serde_json::Value| {
        let properties = properties.as_object().expect("properties").iter();
        let given = properties.filter_map(|(key, schema)| Some((key, schema.get("default")?)));
        // JSON strings, numbers, booleans and lists are also valid TOML.
        given.map(|(key, value)| format!("{key} = {value}\n")).collect::<String>()
    };
    let part = |name: &str| defaults(&schema["$defs"][name]["properties"]);
    let text = format!(
        "[listen]\n{}\n[log]\n{}\n[[service]]\nname = \"search\"\nslots = 1\n{}\n[service.health]\n{}\n[service.route]\n{}\n[[service.shard]]\nname = \"0\"\nreplicas = [\"127.0.0.1:9001\", \"127.0.0.1:9002\"]\n",
        part("Listen"),
        part("Log"),
        part("Service"),
        part("Health"),
        part("Route"),
    );
    assert!(text.contains("cancel_timeout") && text.contains("max_connections"), "{text}");
    let mut spelled = parse(&text);
    spelled.listen.places = [None, None, None];
    assert_eq!(spelled, parse(&MINIMAL.replace("policy = \"laedge\"\n", "")));
}

#[test]
fn costs_come_from_a_header_or_a_route() {
    let text = MINIMAL.replace("policy = \"laedge\"\n", "").replace(
        "slots = 1",
        "slots = 1\nrescue_budget = 0.05\ncost_hint = { header = \"X-Curtail-Cost\" }\n\
         route = [{ path_prefix = \"/\" }, { path_prefix = \"/sum\", cost = 3 }]",
    );
    let config = parse(&text);
    assert_eq!(config.warnings(), [""; 0]);
    let service = &config.services[0];
    assert!((service.limits.rescue_budget - 0.05).abs() < 1e-12);
    assert_eq!(service.cost_hint.as_deref(), Some("x-curtail-cost"));
    assert_eq!(
        service.routes.iter().map(|route| route.cost).collect::<Vec<_>>(),
        [None, Cost::new(3.0)]
    );
}

#[test]
fn the_schema_documents_every_key() {
    let schema = config::schema();
    assert!(!schema.to_string().contains("null"), "TOML has no null");
    assert_eq!(schema["required"], serde_json::json!(["service"]));
    let tables = schema["$defs"].as_object().expect("tables");
    assert!(tables.contains_key("Service") && tables.contains_key("Shard"));
    for (name, table) in tables {
        assert_eq!(table["additionalProperties"], false, "{name}");
        for (key, property) in table["properties"].as_object().expect("properties") {
            assert!(property["description"].is_string(), "{name}.{key}: {property}");
        }
    }
}

#[test]
fn a_sidecar_has_workflows_and_services_have_roles() {
    let text = format!(
        "{}flow = \"ingress\"\n{}[[service]]\nname = \"next\"\npolicy = \"random\"\n\
         flow = \"egress\"\nlisten = \"127.0.0.1:9081\"\n\
         shard = {{ name = \"0\", replicas = [\"127.0.0.1:9003\"] }}\n\
         [flow]\nservice = \"front\"\ndiscipline = \"lstf\"\nedge = true\n\
         workflow_by = {{ header = \"X-Tenant\" }}\n\
         [[flow.workflow]]\nname = \"buy\"\nweight = 3.0\ndeadline = \"2s\"\nlimit = 9.0\n",
        MINIMAL.split("[[service.shard]]").next().expect("a service"),
        MINIMAL.split_once("\n\n").map_or("", |(_, shards)| shards),
    );
    let config = parse(&text);
    let flow = config.flow.expect("it is given");
    assert_eq!((&*flow.service, flow.trusts), ("front", vec![]));
    assert_eq!(flow.discipline, Discipline::Lstf);
    assert_eq!(flow.workflow_by, Some(Key::Header("x-tenant".into())));
    let shares = Workflow { weight: 3.0, limit: 9.0, ..Workflow::default() };
    let spec = WorkflowSpec { shares, deadline: Some(Duration::from_secs(2)) };
    assert_eq!(flow.workflows, [("buy".to_owned(), spec)]);
    let roles: Vec<_> = config.services.iter().map(|service| service.flow).collect();
    assert_eq!(roles, [Some(FlowRole::Ingress), Some(FlowRole::Egress)]);
    assert_eq!(config.services[1].listen, Some(([127, 0, 0, 1], 9081).into()));
    assert_eq!(parse(MINIMAL).flow, None);
}

#[test]
fn limits_and_gates_are_those_of_the_file() {
    let text = MINIMAL.replace("slots = 1", "slots = 3\ncancel = \"reset\"\nqueue = 7");
    let limits = parse(&text).services[0].limits;
    assert!(limits.cancel && limits.check().is_ok());
    assert_eq!((limits.queue, limits.timeout_ns), (7, 2_000_000_000));
    for (policy, gate) in [
        ("policy = \"laedge\"", 2),
        ("policy = \"bounded:5\"", 5),
        ("policy = \"rescue+bounded:3\"", 3),
        ("policy = \"random\"", 128),
        // The default policy needs no tuning.
        ("", 2),
    ] {
        let text = MINIMAL.replace("policy = \"laedge\"", policy).replace("slots = 1", "slots = 2");
        let service = &parse(&text).services[0];
        assert_eq!(service.gate(), gate, "{policy}");
        assert!(!policy.is_empty() || service.policy == Policy::RESCUE);
    }
}

#[test]
fn a_copy_has_half_of_the_time_if_another_one_can_follow() {
    let two = r#"["127.0.0.1:9001", "127.0.0.1:9002"]"#;
    let one = r#"["127.0.0.1:9001"]"#;
    for (lines, replicas, attempt_s, cancel_s) in [
        ("", two, 1, 10),
        ("", one, 2, 10),
        ("timeout = \"50s\"", two, 25, 25),
        ("timeout = \"50s\"", one, 50, 50),
        ("timeout = \"50s\"\ncancel = \"reset\"", two, 25, 10),
        ("timeout = \"50s\"\ncancel_timeout = \"30s\"", two, 25, 30),
        ("timeout = \"50s\"\nattempt_timeout = \"3s\"", one, 3, 10),
        ("retry_budget = 0.0", two, 2, 10),
        ("idempotent_methods = []", two, 2, 10),
        ("idempotent_methods = []\nroute = { idempotent = true }", two, 1, 10),
        ("route = [{ method = \"POST\" }, { path_prefix = \"/a\" }]", two, 1, 10),
    ] {
        let text =
            MINIMAL.replace("slots = 1", &format!("slots = 1\n{lines}")).replace(two, replicas);
        let config = parse(&text);
        assert_eq!(config.warnings(), [""; 0], "{lines}");
        let limits = config.services[0].limits;
        let seconds =
            [limits.attempt_timeout_ns, limits.cancel_timeout_ns].map(|ns| ns / 1_000_000_000);
        assert_eq!(seconds, [attempt_s, cancel_s], "{lines} {replicas}");
    }
}

#[test]
fn a_service_with_nothing_but_addresses_is_rescued_without_slots() {
    let text = MINIMAL.replace("policy = \"laedge\"", "").replace("slots = 1", "");
    let service = &parse(&text).services[0];
    assert_eq!(service.policy.to_string(), "rescue+least-outstanding");
    assert_eq!(service.gate(), service.limits.max_outstanding);
    assert!(!service.policy.pulls());
}

#[test]
fn health_and_admin_can_be_switched_off() {
    let text =
        format!("[listen]\nadmin = false\n{}", MINIMAL.replace("slots", "health = false\nslots"));
    let config = parse(&text);
    assert_eq!(config.listen.admin, None);
    assert_eq!(config.services[0].health.probe, Probe::Connect);
}

/// The simulator runs the same limits unless an experiment changes them.
#[test]
fn the_defaults_of_a_service_are_those_of_the_kernel() {
    let limits = parse(MINIMAL).services[0].limits;
    let Limits { rescue_budget, max_ejected, tuning, .. } = Limits::default();
    let Limits { eject_after, eject_after_refusals, retry_after_max_ns, .. } = Limits::default();
    let Limits { ejection_ns, ejection_max_ns, .. } = Limits::default();
    let budgets = Limits { rescue_budget, max_ejected, tuning, ..limits };
    let refusals = Limits { eject_after, eject_after_refusals, retry_after_max_ns, ..budgets };
    assert_eq!(Limits { ejection_ns, ejection_max_ns, ..refusals }, limits);
}

#[test]
fn services_shards_and_routes_may_be_single_tables() {
    let text =
        MINIMAL.replace("[[service]]", "[service]").replace("[[service.shard]]", "[service.shard]");
    assert_eq!(parse(&text), parse(MINIMAL));
}

#[test]
fn shards_that_share_servers_share_a_cell() {
    let config = config::load(&configs().join("good/cells.toml")).expect("it parses");
    let service = &config.services[0];
    let cells = service.cells();
    // a and b share a server, and so do c and d. e is alone. d and a are connected through the last
    // shard, f.
    assert_eq!(cells.cells.len(), 2);
    assert_eq!(cells.cells[0].shards, [0, 1, 2, 3, 5]);
    assert_eq!(cells.cells[1].shards, [4]);
    for (shard, &(cell, group)) in cells.shards.iter().enumerate() {
        let cell = &cells.cells[cell];
        assert_eq!(cell.shards[group.index()], shard);
        let servers = cell.topology.groups[group.index()].iter();
        let servers: Vec<_> = servers.map(|server| cell.servers[server.index()]).collect();
        assert_eq!(servers, service.shards[shard].replicas);
    }
    for cell in &cells.cells {
        assert_eq!(cell.topology.check(), Ok(()));
        assert!(cell.topology.servers.iter().all(|server| server.slots == 2));
        let addresses: Vec<_> =
            cell.servers.iter().map(|&at| service.servers[at].clone()).collect();
        assert_eq!(cell.addresses, addresses);
        service
            .policy
            .build(&cell.topology, service.limits, curtail_kernel::rng(1))
            .expect("builds");
    }
    let all: usize = cells.cells.iter().map(|cell| cell.servers.len()).sum();
    assert_eq!(all, service.servers.len(), "every server is in one cell");
    assert_eq!(cells.shards[4], (1, GroupId(0)));
    assert_eq!(cells.cells[1].topology.groups[0], [ServerId(0), ServerId(1)]);
}

/// Checks that two shards are in the same cell if and only if servers connect them.
fn is_partition(shards: &[Vec<u16>]) -> Result<(), TestCaseError> {
    let mut text = String::from(
        "[[service]]\nname = \"a\"\npolicy = \"random\"\nshard_by = { query = \"k\" }\n",
    );
    for (at, ports) in shards.iter().enumerate() {
        let replicas: Vec<_> = ports.iter().map(|port| format!("10.0.0.1:{port}")).collect();
        text += &format!("[[service.shard]]\nname = \"{at}\"\nreplicas = {replicas:?}\n");
    }
    let cells = parse(&text).services[0].cells();
    // Propagates labels until nothing changes, which is slow but obviously correct.
    let pairs = || (0..shards.len()).flat_map(|a| (0..shards.len()).map(move |b| (a, b)));
    let mut label: Vec<usize> = (0..shards.len()).collect();
    for _ in shards {
        for (a, b) in pairs() {
            if shards[a].iter().any(|port| shards[b].contains(port)) {
                label[a] = label[a].min(label[b]);
            }
        }
    }
    for (a, b) in pairs() {
        prop_assert_eq!(cells.shards[a].0 == cells.shards[b].0, label[a] == label[b]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cells_are_the_connected_components(
        shards in prop::collection::vec(prop::collection::btree_set(1u16..12, 1..3), 1..8)
    ) {
        let shards: Vec<Vec<u16>> = shards.into_iter().map(|set| set.into_iter().collect()).collect();
        is_partition(&shards)?;
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = config::parse("random", &text);
    }

    #[test]
    fn no_mutation_makes_it_panic(
        cuts in prop::collection::vec((any::<[prop::sample::Index; 2]>(), 0usize..12, any::<char>()), 1..9)
    ) {
        let mut chars: Vec<char> = EXAMPLE.chars().collect();
        for (at, length, other) in cuts {
            let [at, from] = at.map(|index| index.index(chars.len() + 1));
            let end = |at: usize| (at + length).min(chars.len());
            // Another part of the file, or an arbitrary character.
            let mut with = chars[from..end(from)].to_vec();
            if with.len() < 3 {
                with = vec![other];
            }
            chars.splice(at..end(at), with);
        }
        let text: String = chars.into_iter().collect();
        if let Err(errors) = config::parse("mutated", &text) {
            let lines = text.matches('\n').count() + 1;
            for error in errors.errors() {
                prop_assert!(error.line().is_some_and(|line| (1..=lines).contains(&line)));
                prop_assert!(error.to_string().contains("; "), "{error}");
            }
        }
    }

    #[test]
    fn every_valid_configuration_can_be_built(
        policy in prop::sample::select(&["laedge", "psq", "rescue", "rescue:preempt", "rescue+bounded:3", "bounded:2", "random", "delayed:5ms:cc", "probabilistic:5ms:0.5", "app-timeout:5ms", "clone"][..]),
        cancel in prop::sample::select(&["none", "reset"][..]),
        slots in 0u32..5,
        outstanding in 0u32..3,
        budget in -1.0f64..2.0,
    ) {
        let text = MINIMAL.replace("\"laedge\"", &format!("{policy:?}")).replace(
            "slots = 1",
            &format!("slots = {slots}\ncancel = {cancel:?}\nmax_outstanding = {outstanding}\nretry_budget = {budget:?}\nrescue_budget = {budget:?}"),
        );
        // The kernel accepts every configuration that the parser accepts.
        if let Ok(config) = config::parse("random", &text) {
            let service = &config.services[0];
            prop_assert_eq!(service.policy.simulator_only(), None);
            let rng = curtail_kernel::rng(1);
            let built = service.policy.build(&service.cells().cells[0].topology, service.limits, rng);
            prop_assert!(built.is_ok());
        }
    }
}

/// The page is written by hand, so this compares it with the descriptors of the policies.
#[test]
fn the_page_lists_every_policy_and_what_it_needs() {
    let page = include_str!("../../../../docs/proxy.md");
    let table = page.split_once("| policy | queries wait |").expect("the table of policies").1;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|row| row.split('|').collect())
        .collect();
    for form in Policy::live_forms() {
        if form == "c3:literal" || form.starts_with("das:") {
            continue; // variants for comparisons
        }
        let listed =
            |row: &&Vec<&str>| row.get(1).is_some_and(|of| of.contains(&format!("`{form}`")));
        let row = rows.iter().find(listed).unwrap_or_else(|| panic!("{form} has no row"));
        let bare = form.replace("[:cc]", "").replace("PICK", "two-choices").replace("pN", "p95");
        let bare = bare.replace('N', "2").replace('D', "5ms").replace('Q', "0.5");
        let needs = Policy::parse(&bare, None).expect(&bare).needs();
        for (word, needed) in [
            ("`slots`", needs.slots),
            ("cancel = \"reset\"", needs.cancellation),
            ("load reports", needs.feedback),
            ("`probe`", needs.probes),
            ("`clients`", needs.clients),
            ("stage = true", needs.priority),
        ] {
            assert!(!needed || row[4].contains(word), "{form}: the page does not say {word}");
        }
    }
}
