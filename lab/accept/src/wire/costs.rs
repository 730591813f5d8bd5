//! What requests and streams through the proxy cost.

use anyhow::Result;
use serde_json::Value;

use super::{LISTEN_TLS, certificate, front, lenient};
use crate::figures::{each, median, members, numbers, over};
use crate::lab::{Fields, Lab, Server, kept_up};
use crate::line::Line;
use crate::proxies::{CURTAIL, ENVOY, HAPROXY, NGINX, Proxy};
use crate::verdict::{above, least, most, noted};

pub(super) const CPU_H2_3: Line = Line {
    number: 3,
    name: "cpu-h2",
    text: "CPU per request, HTTP/2 to HTTP/2, 16 connections with 8 streams each",
    seconds: 110,
    quick_seconds: 30,
    needs: &["cores:2", "apt:nginx", "apt:nghttp2-client/h2load", "apt:haproxy", "pip:envoy"],
    judge: cpu_h2,
    ..Line::NEW
};

pub(super) const CPU_TLS_4: Line = Line {
    number: 4,
    name: "cpu-tls",
    text: "CPU per request, HTTP/1.1 over TLS to HTTP/1.1, 16 connections",
    seconds: 110,
    quick_seconds: 30,
    needs: &[
        "cores:2",
        "program:openssl",
        "apt:nginx",
        "apt:nghttp2-client/h2load",
        "apt:haproxy",
        "pip:envoy",
    ],
    judge: cpu_tls,
    ..Line::NEW
};

pub(super) const STREAMS_6: Line = Line {
    number: 6,
    name: "streams",
    text: "200 streams of server-sent events, 50 chunks per second each",
    seconds: 180,
    quick_seconds: 30,
    needs: &["cores:2", "apt:haproxy"],
    judge: streams,
    ..Line::NEW
};

pub(super) const GRPC_STREAMS_10: Line = Line {
    number: 10,
    name: "grpc-streams",
    text: "200 server streams of gRPC, 50 messages per second each: one per client, and 50 per connection",
    seconds: 330,
    quick_seconds: 60,
    needs: &["cores:2", "apt:haproxy"],
    judge: grpc_streams,
    ..Line::NEW
};

pub(super) const INSTRUCTIONS_11: Line = Line {
    number: 11,
    name: "instructions",
    text: "instructions per event and per message: 50 streams with 10 per second each",
    seconds: 180,
    quick_seconds: 180,
    needs: &["program:valgrind", "program:curl", "apt:haproxy"],
    judge: instructions,
    ..Line::NEW
};

pub(super) const MEMORY_7: Line = Line {
    number: 7,
    name: "memory",
    text: "peak memory of a proxy: 8,500 idle and 1,000 active connections, and 1,000 uploads of 10 MB at the same time",
    seconds: 70,
    quick_seconds: 70,
    needs: &["python:3.9"],
    judge: memory,
    ..Line::NEW
};

pub(super) const SLOW_READERS_9: Line = Line {
    number: 9,
    name: "slow-readers",
    text: "others' 99th percentile beside 100 clients that do not read their responses of 200 kB, 4 slots",
    seconds: 70,
    quick_seconds: 30,
    needs: &["python:3.9"],
    judge: slow_readers,
    ..Line::NEW
};

/// The proxy has its own core. The server and the clients share another one.
const PROXY_CORE: &str = "taskset -c 1";
const OTHER_CORE: &str = "taskset -c 0";

const H2: [(&str, &str); 3] = [("bind", "proto h2"), ("towards", "proto h2"), ("http2", "http2")];

fn cpu_h2(lab: &mut Lab<'_>) -> Result<()> {
    let to_h2 =
        [("protocol", r#"protocol = "h2""#), ("upstream_protocol", "http2_protocol_options")];
    cpu(lab, &[&H2[..], &to_h2].concat(), "-m8", "http")
}

fn cpu_tls(lab: &mut Lab<'_>) -> Result<()> {
    certificate(lab)?;
    let envoy = r#"transport_socket: { name: envoy.transport_sockets.tls, typed_config: { "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext, common_tls_context: { tls_certificates: [{ certificate_chain: { filename: {folder}/cert.pem }, private_key: { filename: {folder}/key.pem } }] } } }"#;
    let bind = "ssl crt {folder}/both.pem";
    cpu(lab, &[("listen", LISTEN_TLS), ("bind", bind), ("tls", envoy)], "--h1", "https")
}

/// Judges the CPU time of proxies per request. Only requests with status 2xx count. The results
/// have no bounds.
fn cpu(lab: &mut Lab<'_>, values: &[(&str, &str)], flags: &str, scheme: &str) -> Result<()> {
    let span = lab.number("span", 5.0, 5.0)?;
    let server = front(lab, NGINX, OTHER_CORE, &[], values)?;
    let proxies = [CURTAIL, HAPROXY, ENVOY];
    let measure = |proxy: Proxy| {
        let front = front(lab, proxy, PROXY_CORE, &[&server], values)?;
        let (address, before) = (front.address, front.cpu_ns()?);
        let h2load = format!("{OTHER_CORE} h2load {flags} -t1 -c16 -D{span} {scheme}://{address}/");
        let codes = lab.run(h2load).lines("status codes: ")?;
        let served = codes.first().and_then(|codes| numbers(codes).first().copied());
        let served = served.unwrap_or(f64::NAN);
        Ok(Cost { cpu_ns: front.cpu_ns()? - before, served, p99_us: f64::NAN })
    };
    let turn = |side: usize, _| lenient(proxies[side], measure(proxies[side]), Cost::MISSING);
    let found = lab.rounds(proxies.len(), lab.number("rounds", 5, 1)?, turn, |_| true)?;
    for (proxy, costs) in proxies.iter().zip(&found) {
        let claim = format!("{}: CPU per request", proxy.name);
        lab.check(claim, Cost::each(costs, Cost::per_request), above(0.0).unit("ns"));
    }
    for (proxy, costs) in proxies.iter().zip(&found) {
        let claim = format!("{}: requests per second", proxy.name);
        lab.check(claim, Cost::each(costs, |cost| cost.served / span), above(0.0));
    }
    Ok(())
}

/// The CPU time of a proxy, the requests or chunks that it served, and the delay of chunks.
#[derive(Clone, Copy)]
struct Cost {
    cpu_ns: f64,
    served: f64,
    p99_us: f64,
}

impl Cost {
    const MISSING: Self = Self { cpu_ns: f64::NAN, served: f64::NAN, p99_us: f64::NAN };

    /// Reads 200 streams through a proxy.
    fn of_streams(
        lab: &Lab<'_>,
        front: &Server,
        read: &str,
        span: f64,
        more: &str,
    ) -> Result<Self> {
        let before = front.cpu_ns()?;
        let read = format!("{OTHER_CORE} @streams {read} {} 200 {span} {more}", front.address);
        let fields = lab.run(read).fields()?;
        let cpu_ns = front.cpu_ns()? - before;
        Ok(Self { cpu_ns, served: fields.number("chunks"), p99_us: fields.number("p99_us") })
    }

    fn per_request(&self) -> f64 {
        self.cpu_ns / self.served
    }

    fn each(costs: &[Self], figure: impl Fn(&Self) -> f64) -> Vec<f64> {
        costs.iter().map(figure).collect()
    }

    /// Returns the median of the ratios of two proxies in the same round.
    fn ratio(ours: &[Self], theirs: &[Self], figure: impl Fn(&Self) -> f64) -> f64 {
        median(&over(&Self::each(ours, &figure), &Self::each(theirs, &figure)))
    }

    /// Returns the median share of chunks that arrive, of 200 streams with 50 per second.
    fn arrived(costs: &[Self], span: f64) -> f64 {
        median(&Self::each(costs, |cost| cost.served / 10_000.0 / span))
    }
}

/// Judges server-sent events, as language models send them: 200 streams with 50 chunks per second.
/// HAProxy holds small chunks back for up to 200 ms unless `option http-no-delay` is set, as users
/// of events do.
fn streams(lab: &mut Lab<'_>) -> Result<()> {
    let span = lab.number("span", 8.0, 8.0)?;
    let server = lab.server(format!("{OTHER_CORE} @streams serve 127.0.0.1:{{port}} 50"))?;
    let server = server.listening()?;
    let proxies = [CURTAIL, HAPROXY];
    let turn = |side: usize, _| {
        let front = front(lab, proxies[side], PROXY_CORE, &[&server], &[])?;
        Cost::of_streams(lab, &front, "read", span, "")
    };
    let found = lab.rounds(proxies.len(), lab.number("rounds", 9, 1)?, turn, |_| true)?;
    let ratio = Cost::ratio(&found[0], &found[1], Cost::per_request);
    lab.check("CPU per chunk, over that of HAProxy", ratio, most(1.2));
    let ratio = Cost::ratio(&found[0], &found[1], |cost| cost.p99_us);
    let claim = "99th percentile of the delay of a chunk, over that of HAProxy";
    lab.check(claim, ratio, most(1.5));
    for (proxy, costs) in proxies.iter().zip(&found) {
        let claim = format!("{}: chunks that arrive, of those that are sent", proxy.name);
        lab.check(claim, Cost::arrived(costs, span), least(0.95));
    }
    Ok(())
}

fn grpc_streams(lab: &mut Lab<'_>) -> Result<()> {
    const STREAMS: [u32; 2] = [1, 50];
    const NAMES: [&str; 3] = ["curtail", "haproxy", "relay"];
    let span = lab.number("span", 5.0, 5.0)?;
    let server = lab.server(format!("{OTHER_CORE} @streams serve-grpc 127.0.0.1:{{port}} 50"))?;
    let server = server.listening()?;
    let start = |side: usize| match [CURTAIL, HAPROXY].get(side) {
        Some(proxy) => {
            let values = [&H2[..], &[("protocol", r#"protocol = "grpc""#)]].concat();
            front(lab, *proxy, PROXY_CORE, &[&server], &values)
        }
        None => {
            let relay =
                format!("{PROXY_CORE} @streams relay-grpc 127.0.0.1:{{port}} {}", server.address);
            lab.server(relay)?.listening()
        }
    };
    let turn = |side: usize, _| -> Result<[Cost; 2]> {
        let [single, many] = STREAMS.map(|streams| {
            Cost::of_streams(lab, &start(side)?, "read-grpc", span, &streams.to_string())
        });
        Ok([single?, many?])
    };
    let found = lab.rounds(NAMES.len(), lab.number("rounds", 9, 1)?, turn, |_| true)?;
    let of = |side: usize, at: usize| -> Vec<Cost> {
        found[side].iter().map(|costs| costs[at]).collect()
    };
    type Figure = fn(&Cost) -> f64;
    let claims: [(&str, usize, Figure, _); 3] = [
        ("CPU per message, over that of HAProxy", 1, Cost::per_request, most(1.2)),
        (
            "CPU per message, over that of a bare relay with the crate h2",
            2,
            Cost::per_request,
            noted(),
        ),
        (
            "99th percentile of the delay of a message, over that of HAProxy",
            1,
            |cost| cost.p99_us,
            most(1.5),
        ),
    ];
    for (claim, other, figure, bound) in claims {
        for (at, streams) in STREAMS.into_iter().enumerate() {
            let claim = format!("{claim}, streams per connection: {streams}");
            lab.check(claim, Cost::ratio(&of(0, at), &of(other, at), figure), &bound);
        }
    }
    for (name, costs) in NAMES.into_iter().zip(&found) {
        let claim = format!("{name}: messages that arrive, of those that are sent");
        lab.check(claim, Cost::arrived(&costs.concat(), span), least(0.95));
    }
    Ok(())
}

/// Counts the instructions in user space, where the CPU of lines 6 and 10 includes the system's
/// part. The bare relay is a release build without a profile.
fn instructions(lab: &mut Lab<'_>) -> Result<()> {
    let mut counts = Vec::new();
    for (kind, proxy) in [
        ("sse", "curtail"),
        ("sse", "haproxy"),
        ("grpc", "curtail"),
        ("grpc", "haproxy"),
        ("grpc", "relay"),
    ] {
        let script = "sh lab/accept/files/instructions.sh @curtail";
        let count = lab.run(format!("{script} {proxy} @streams {kind}")).fields()?;
        counts.push(count.number("instructions"));
        lab.check(format!("{kind}, {proxy}"), count.number("instructions"), least(1000.0));
    }
    let claim = "server-sent events, Curtail over HAProxy";
    lab.check(claim, counts[0] / counts[1], most(1.2));
    let claim = "messages of gRPC, Curtail over a bare relay with the crate h2";
    lab.check(claim, counts[2] / counts[4], most(1.5));
    Ok(())
}

/// Starts the server of the script that occupies memory.
fn replica(lab: &Lab<'_>) -> Result<Server> {
    lab.server("python3 lab/accept/files/memory.py replica {port}")?.listening()
}

/// Occupies a proxy with the script.
struct Occupied {
    peak_mb: f64,
    fields: Fields,
}

impl Occupied {
    fn new(lab: &Lab<'_>, server: &Server, how: &str, sizes: &str) -> Result<Self> {
        let values = [("protocol", r#"max_request_body = "10MB""#)];
        let front = front(lab, CURTAIL, "", &[server], &values)?;
        let script = format!("python3 lab/accept/files/memory.py {how} {} {sizes}", front.address);
        let fields = lab.run(script).fields()?;
        Ok(Self { peak_mb: front.process.peak_bytes()? as f64 / 1e6, fields })
    }
}

/// A process may use half of its file descriptors for clients. Where the system permits 20,000,
/// that is 10,000 connections, so the bound of 200 MB for 11,000 connections is scaled to 9,500.
fn memory(lab: &mut Lab<'_>) -> Result<()> {
    let server = replica(lab)?;
    let connections = Occupied::new(lab, &server, "connections", "8500 1000 5")?;
    let uploads = Occupied::new(lab, &server, "uploads", "1000 10000000")?;
    lab.check("connections: peak memory", connections.peak_mb, most(172.0).unit("MB"));
    let responses = connections.fields.number("responses");
    lab.check("connections: responses", responses, least(9500.0));
    lab.check("uploads: peak memory", uploads.peak_mb, most(300.0).unit("MB"));
    lab.check("uploads that are complete", uploads.fields.number("complete"), least(1000.0));
    Ok(())
}

/// A response of 200 kB fits into `response_buffer`, so the replica is free although its client
/// does not read. Without the buffer, the 100 clients would hold all four slots.
fn slow_readers(lab: &mut Lab<'_>) -> Result<()> {
    const READERS: [u32; 2] = [0, 100];
    let server = replica(lab)?;
    let turn = |side: usize, _| {
        let values = [("policy", "psq"), ("slots", "4")];
        let front = front(lab, CURTAIL, "", &[&server], &values)?;
        let (address, readers) = (front.address, READERS[side]);
        let script = format!(
            r#"[ {readers} = 0 ] || python3 lab/accept/files/memory.py slow {address} {readers} 12 &
            sleep 2; "$0" load http://{address}/ --rate 500 --duration 8s --json; wait"#
        );
        lab.sh(&script, "@curtail").json()
    };
    let found: Vec<Vec<Value>> = lab.rounds(2, lab.number("rounds", 3, 1)?, turn, kept_up)?;
    let [alone, beside] = [0, 1].map(|side| median(&each(&found[side], "/latency_ns/p99")));
    let claim = "99th percentile, over that without slow readers";
    lab.check(claim, beside / alone, most(1.5));
    for (readers, reports) in READERS.into_iter().zip(&found) {
        let claim = format!("requests beside {readers} slow readers that got no good response");
        lab.check(claim, members(reports, "/errors"), most(0.0));
    }
    Ok(())
}
