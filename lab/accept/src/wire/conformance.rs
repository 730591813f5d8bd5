//! Whether the proxy does what the protocols require: conformance suites, request smuggling, and
//! hedging of gRPC calls.

use anyhow::Result;
use serde_json::{Value, json};

use super::{calls_proto, front, lenient};
use crate::figures::{numbers, text, texts};
use crate::lab::{Fields, Lab};
use crate::line::Line;
use crate::proxies::{CURTAIL, HAPROXY, NGINX, Proxy};
use crate::verdict::{above, below, least, most, noted};

pub(super) const H2SPEC_1: Line = Line {
    number: 1,
    name: "h2spec",
    text: "h2spec 2.2.1 on a proxy from HTTP/2 to HTTP/1.1",
    seconds: 40,
    quick_seconds: 40,
    needs: &["program:go", "go:h2spec", "apt:nginx", "apt:haproxy"],
    judge: h2spec,
    ..Line::NEW
};

pub(super) const INTEROP_2: Line = Line {
    number: 2,
    name: "interop",
    text: "17 interoperability cases of grpc-go 1.85 through the proxy",
    seconds: 130,
    quick_seconds: 130,
    needs: &["program:go", "go:grpc-client", "go:grpc-server", "apt:haproxy"],
    judge: interop,
    ..Line::NEW
};

pub(super) const SMUGGLING_5: Line = Line {
    number: 5,
    name: "smuggling",
    text: "request smuggling: ambiguous requests, from HTTP/1.1 and HTTP/2 to HTTP/1.1, and from HTTP/1.1 to HTTP/2",
    seconds: 100,
    quick_seconds: 100,
    needs: &["python:3.9", "registry:h2", "apt:haproxy", "apt:nginx"],
    judge: smuggling,
    ..Line::NEW
};

pub(super) const GRPC_8: Line = Line {
    number: 8,
    name: "grpc",
    text: "four replicas of a tonic service with hiccups (2 % of 150 ms), 2 slots each, 250 calls per second",
    seconds: 130,
    quick_seconds: 80,
    needs: &["program:sh"],
    judge: grpc,
    ..Line::NEW
};

/// Runs h2spec. Both reports stay in the line's folder.
fn h2spec(lab: &mut Lab<'_>) -> Result<()> {
    let action =
        ("action", r#"return 200 "a response that is long enough for a window of a few bytes\n";"#);
    let values = [("bind", "proto h2"), action];
    let server = front(lab, NGINX, "", &[], &values)?.ready("/")?;
    let proxies = [CURTAIL, HAPROXY];
    let counts = proxies.map(|proxy| {
        let measured = front(lab, proxy, "", &[&server], &values).and_then(|front| {
            let h2spec = format!("@h2spec -h 127.0.0.1 -p {} -o 2", front.address.port());
            let report = lab.run(h2spec).may_fail().output()?.text;
            std::fs::write(lab.folder.join(format!("{}.txt", proxy.name)), &report)?;
            let summary = report.lines().find_map(|line| Some(line.split_once(" tests, ")?.1));
            Ok(numbers(summary.unwrap_or_default()))
        });
        lenient(proxy, measured, Vec::new())
    });
    let [ours, theirs] = counts;
    // The one case that fails sends an invalid preface. The port also serves HTTP/1.1, so the
    // client gets a 400 in HTTP/1.1 before the connection is closed, and h2spec expects a close
    // alone. The port of HAProxy serves only HTTP/2.
    let kinds = [
        ("passed", [least(144.0), least(144.0)]),
        ("skipped", [noted(), noted()]),
        ("failed", [most(1.0), most(0.0)]),
    ];
    let counts = [ours?, theirs?];
    for (at, (kind, bounds)) in kinds.into_iter().enumerate() {
        for ((proxy, counts), bound) in proxies.iter().zip(&counts).zip(bounds) {
            lab.check(format!("{}: {kind}", proxy.name), counts.get(at).copied(), bound);
        }
    }
    Ok(())
}

const CASES: &str = "empty_unary large_unary client_streaming server_streaming ping_pong empty_stream \
    timeout_on_sleeping_server cancel_after_begin cancel_after_first_response \
    status_code_and_message special_status_message unimplemented_method unimplemented_service \
    custom_metadata orca_per_rpc rpc_soak channel_soak";

/// Returns the cases that fail. The client's output for each case is in the line's folder.
fn failing(lab: &Lab<'_>, proxy: Proxy, port: u16) -> Result<Vec<&'static str>> {
    let mut failed = Vec::new();
    for case in CASES.split(' ') {
        let config = match case {
            "orca_per_rpc" => {
                r#"{"loadBalancingConfig": [{"test_backend_metrics_load_balancer": {}}]}"#
            }
            _ => "",
        };
        let script =
            format!(r#"exec timeout 20 "$0" "$@" > {{folder}}/{}-{case}.txt 2>&1"#, proxy.name);
        let client = format!(
            "@grpc-client --server_host 127.0.0.1 --server_port {port} --test_case {case} \
             --service_config_json"
        );
        if !lab.sh(&script, client).arg(config).may_fail().output()?.ok {
            failed.push(case);
        }
    }
    Ok(failed)
}

fn interop(lab: &mut Lab<'_>) -> Result<()> {
    let values =
        [("bind", "proto h2"), ("towards", "proto h2"), ("protocol", r#"protocol = "grpc""#)];
    let server = lab.server("@grpc-server --port {port}")?.listening()?;
    for proxy in [CURTAIL, HAPROXY] {
        let failed = front(lab, proxy, "", &[&server], &values)
            .and_then(|front| Ok(Some(failing(lab, proxy, front.address.port())?)));
        let failed = lenient(proxy, failed, None)?;
        let passed = failed.as_ref().map(|failed| (CASES.split(' ').count() - failed.len()) as f64);
        let names = failed.filter(|failed| !failed.is_empty());
        let names = names.map_or("none".to_owned(), |failed| failed.join(","));
        let claim = format!("{}: cases that pass, and those that fail", proxy.name);
        lab.check(claim, passed, least(17.0).show(names));
    }
    Ok(())
}

/// A comparison of what a proxy forwards with what its client sent.
struct Attack {
    proxy: Proxy,
    direction: &'static str,
    values: &'static [(&'static str, &'static str)],
}

const ATTACKS: [Attack; 8] = [
    Attack { proxy: CURTAIL, direction: "h1-h1", values: &[] },
    Attack { proxy: CURTAIL, direction: "h2-h1", values: &[] },
    Attack { proxy: CURTAIL, direction: "h1-h2", values: &[("protocol", r#"protocol = "h2""#)] },
    Attack { proxy: HAPROXY, direction: "h1-h1", values: &[] },
    Attack { proxy: HAPROXY, direction: "h2-h1", values: &[("bind", "proto h2")] },
    Attack { proxy: HAPROXY, direction: "h1-h2", values: &[("towards", "proto h2")] },
    Attack { proxy: NGINX, direction: "h1-h1", values: &[] },
    Attack { proxy: NGINX, direction: "h2-h1", values: &[("http2", "http2")] },
];

/// The values with which nginx forwards requests.
const RECORDER: [(&str, &str); 2] = [
    ("upstream", "upstream recorder { server {server0}; keepalive 64; }"),
    ("action", "proxy_pass http://recorder;"),
];

const SMUGGLING: &str = "{folder}/venv/bin/python lab/accept/files/smuggling/smuggling.py";

impl Attack {
    fn run(&self, lab: &Lab<'_>) -> Result<Value> {
        let Self { proxy, direction, values } = self;
        let measured = || {
            let upstream = lab.server(format!("{SMUGGLING} upstream {{port}}"))?.listening()?;
            let values = [*values, &RECORDER].concat();
            let front = front(lab, *proxy, "", &[&upstream], &values)?;
            let attack = format!("{SMUGGLING} attack {direction} {}", proxy.name);
            let (upstream, front) = (upstream.address, front.address);
            lab.run(format!("{attack} {upstream} {front} {{folder}}")).json()
        };
        lenient(*proxy, measured(), Value::Null)
    }

    fn claim(&self, what: &str) -> String {
        format!("{}, {}: {what}", self.proxy.name, self.direction)
    }
}

/// Sends ambiguous requests to an upstream that records what it gets. A case is unsafe if the
/// upstream gets more than one request, or bytes or fields that another server could parse in a
/// different way, or if the next request fails. The last run prints all cases.
fn smuggling(lab: &mut Lab<'_>) -> Result<()> {
    lab.sh("rm -f {folder}/*.json && python3 -m venv {folder}/venv", "").quiet().output()?;
    lab.run("{folder}/venv/bin/pip install --quiet h2==4.3.0").quiet().output()?;
    let found: Result<Vec<Value>> = ATTACKS.iter().map(|attack| attack.run(lab)).collect();
    let found = found?;
    let table = lab.run(format!("{SMUGGLING} table {{folder}}")).json()?;
    let all = || ATTACKS.iter().zip(&found);
    for (attack, found) in all().filter(|(attack, _)| attack.proxy.name == "curtail") {
        let claim = attack.claim("unsafe cases");
        lab.holds(claim, text(found, "/unsafe"), found["unsafe"] == json!([]));
    }
    // All but nginx from HTTP/2.
    for (attack, found) in all().take(ATTACKS.len() - 1) {
        let claim = attack.claim("ordinary requests that fail");
        lab.holds(claim, text(found, "/plain_failed"), found["plain_failed"] == json!([]));
    }
    let shown = |lab: &mut Lab<'_>, claim: String, cases: &Value| {
        let cases = texts(cases.as_array().into_iter().flatten(), "");
        lab.check(claim, cases.len() as f64, noted().show(cases.join("; ")));
    };
    for (attack, found) in all().filter(|(attack, _)| attack.proxy.name != "curtail") {
        shown(lab, attack.claim("number of unsafe cases"), &found["unsafe"]);
    }
    let claim = "number of cases that curtail accepts or refuses in contrast to all others";
    shown(lab, claim.to_owned(), &table["differ"]);
    Ok(())
}

/// A load on four replicas of a gRPC service.
struct Calls<'a> {
    method: &'a str,
    policy: &'a str,
    rate: f64,
    span: f64,
    warmup: f64,
}

impl Calls<'_> {
    /// Returns what the load generator and the servers counted. Servers count calls that state an
    /// earlier attempt (`grpc-previous-rpc-attempts`).
    fn run(&self, lab: &Lab<'_>) -> Result<Fields> {
        let server = |seed: u32| {
            lab.server(format!("@calls serve 127.0.0.1:{{port}} 2 {seed}"))?.listening()
        };
        let servers = [server(1)?, server(2)?, server(3)?, server(4)?];
        let [first, second, third, fourth] = servers.each_ref().map(|server| server.address);
        let proxy = lab.server("@curtail proxy --tied-to-stdin --config")?.config(
            "wire-calls.toml",
            &[
                ("policy", &self.policy),
                ("server0", &first),
                ("server1", &second),
                ("server2", &third),
                ("server3", &fourth),
            ],
        )?;
        let proxy = proxy.listening()?;
        let proto = calls_proto(lab)?;
        let Self { method, rate, span, warmup, .. } = self;
        let script = format!(
            r#""$0" load grpc://{}/calls.Calls/{method} --proto {proto} -b "{{}}" --rate {rate} \
            --duration {span}s --warmup {warmup}s --json | "$1" stats {first} {second} {third} {fourth}"#,
            proxy.address
        );
        lab.sh(&script, "@curtail @calls").fields()
    }
}

/// Judges hedging per method, cancellation, and push-back (gRFC A6). A call that was cancelled had
/// its stream reset: the connections stay, as no call fails.
fn grpc(lab: &mut Lab<'_>) -> Result<()> {
    let rate = lab.number("rate", 250.0, 250.0)?;
    let [span, warmup] = [lab.number("span", 20.0, 10.0)?, lab.number("warmup", 10.0, 6.0)?];
    let policies = ["psq", "rescue", "laedge:cc"];
    let mut queries = Vec::new();
    for policy in policies {
        queries.push(Calls { method: "Query", policy, rate, span, warmup }.run(lab)?);
    }
    let mut repeated = Vec::new();
    for method in ["Refuse", "Forbid", "Reject"] {
        let calls = Calls { method, policy: "psq", rate: 100.0, span: 3.0, warmup: 0.0 };
        repeated.push(calls.run(lab)?.number("repeated"));
    }
    let of = || policies.into_iter().zip(&queries);
    let p99 = |fields: &Fields| fields.number("p99_ms");
    for (policy, fields) in of().skip(1) {
        let claim = format!("{policy}: 99th percentile, over that of psq");
        lab.check(claim, p99(fields) / p99(&queries[0]), below(1.0));
    }
    for (policy, fields) in of() {
        lab.check(format!("{policy}: 99th percentile"), p99(fields), above(0.0).unit("ms"));
    }
    for (policy, fields) in of().skip(1) {
        let claim = format!("{policy}: calls that a reset of their stream cancelled at a server");
        lab.check(claim, fields.number("cancelled"), least(20.0));
    }
    for (policy, fields) in of() {
        let claim =
            format!("{policy}: share of the copies that are not the first ones of their calls");
        lab.check(claim, fields.number("repeated") / fields.number("started"), noted());
    }
    let claim = "without push-back, calls that a server refuses are repeated";
    lab.check(claim, repeated[0], least(1.0));
    lab.check("Forbid: calls that are repeated", repeated[1], most(0.0));
    lab.check("Reject: calls that are repeated", repeated[2], most(0.0));
    Ok(())
}
