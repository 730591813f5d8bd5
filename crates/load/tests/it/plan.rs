//! Tests that bad input is rejected with an explanation.

use curtail_load::{Arrivals, Extent, Pace, Plan, Precision, Profile, Target, Trust, run};

fn plan() -> Plan {
    Plan::new("http://127.0.0.1:1/".parse().unwrap(), 1.0)
}

#[test]
fn targets_are_host_port_and_path() {
    for (text, host, port, path) in [
        ("http://127.0.0.1:8080/path", "127.0.0.1", 8080, "/path"),
        ("http://localhost:80", "localhost", 80, "/"),
        ("HTTP://a-b.example:1/x/y?q=1&r=%20", "a-b.example", 1, "/x/y?q=1&r=%20"),
        ("http://h:65535?q=1", "h", 65535, "/?q=1"),
        ("http://h/path", "h", 80, "/path"),
        ("http://[::1]:9000/a:b", "::1", 9000, "/a:b"),
        ("https://h", "h", 443, "/"),
        ("grpc://h:1/a.b.C/D", "h", 1, "/a.b.C/D"),
        ("memcached://h", "h", 11211, ""),
        ("redis://h/", "h", 6379, ""),
        ("tcp://h:1", "h", 1, ""),
        ("udp://[::1]:7", "::1", 7, ""),
    ] {
        let target: Target = text.parse().unwrap();
        assert_eq!((target.host(), target.port(), target.path()), (host, port, path), "{text}");
        assert_eq!(target.to_string().parse(), Ok(target));
    }
}

#[test]
fn other_targets_are_refused() {
    let cases = [
        ("", "does not begin with"),
        ("127.0.0.1:8080/path", "does not begin with"),
        ("ftp://h:1/", "does not begin with"),
        ("grpc://h/a.B/C", "has no port"),
        ("tcp://h", "has no port"),
        ("grpc://h:1", "names no method"),
        ("grpcs://h:1/a.B", "names no method"),
        ("grpc://h:1/a.B/C/D", "names no method"),
        ("grpc://h:1//C", "names no method"),
        ("grpc://h:1/a.B/C?d", "names no method"),
        ("http://", "has no host"),
        ("http://:80/", "has no host"),
        ("http:///path", "has no host"),
        ("http://a b:80/", "the host may contain"),
        ("http://ä:80/", "the host may contain"),
        ("http://[::1:80/", "the host may contain"),
        ("http://[::1]x:80/", "the host may contain"),
        ("http://[name]:80/", "the host may contain"),
        ("http://me:secret@h:80/", "use a header"),
        ("http://h:0/", "the port is not"),
        ("http://h:65536/", "the port is not"),
        ("http://h:+80/", "the port is not"),
        ("http://::1:80/", "in [ ]"),
        ("http://fe80::1/", "in [ ]"),
        ("http://h:80:81/", "the port is not"),
        ("redis://:secret@h", "AUTH PASSWORD"),
        ("http://h:80/a#b", "a fragment"),
        ("http://h:80/a b", "percent-encoded"),
        ("http://h:80/\r\nx", "percent-encoded"),
        ("redis://h:1/0", "redis://HOST:PORT"),
        ("udp://h:1/x", "udp://HOST:PORT"),
        ("tcp://h:1/?q", "tcp://HOST:PORT"),
    ];
    for (text, why) in cases {
        let error = text.parse::<Target>().unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(&format!("`{text}`")), "{error}");
    }
}

/// Bypasses the parser's check.
fn profile(text: &str) -> Pace {
    let rate = |text: &str| text.parse::<f64>().unwrap();
    let profile = match text.split_once("..") {
        Some((from, to)) => Profile::Ramp { from: rate(from), to: rate(to) },
        None => text.parse().unwrap(),
    };
    Pace::Open { profile, arrivals: Arrivals::Poisson }
}

fn precision(relative: f64, per_mille: u32) -> Option<Precision> {
    Some(Precision { relative, per_mille: vec![per_mille] })
}

#[test]
fn values_out_of_range_are_refused() {
    type Change = fn(&mut Plan);
    let cases: [(&str, Change, &str); 37] = [
        ("http://h", |plan| plan.pace = Pace::poisson(0.0), "rate 0 "),
        ("http://h", |plan| plan.pace = Pace::poisson(1e300), "rate 1e300 "),
        (
            "http://h",
            |plan| plan.pace = Pace::poisson(0.04),
            "rate 0.04 × duration 10s is 0.4 requests",
        ),
        ("http://h", |plan| plan.pace = Pace::poisson(f64::NAN), "rate NaN "),
        ("http://h", |plan| plan.pace = Pace::poisson(f64::INFINITY), "rate inf "),
        ("http://h", |plan| plan.extent = Extent::Requests(0), "nothing would be measured"),
        ("http://h", |plan| plan.pace = profile("1..0"), "rate 0 "),
        ("http://h", |plan| plan.pace = profile("1:5s,1:6s"), "take 11s in all"),
        (
            "http://h",
            |plan| (plan.pace, plan.extent) = (profile("1..9"), Extent::Requests(9)),
            "duration",
        ),
        ("http://h", |plan| plan.until = precision(1.0, 990), "below 100 %"),
        ("http://h", |plan| plan.until = precision(0.1, 1_000), "below 100"),
        ("http://h", |plan| plan.threads = 0, "0 threads; use 1 to 64"),
        ("http://h", |plan| plan.threads = 65, "65 threads; use 1 to 64"),
        ("http://h", |plan| plan.connections = 0, "0 connections"),
        ("http://h", |plan| plan.timeout_ns = 0, "--timeout 0ns"),
        ("http://h", |plan| plan.timeout_ns = 60_000_000_001, "--timeout 60.000000001s"),
        (
            "http://h",
            |plan| plan.headers = vec![("Connection".into(), "close".into())],
            "`Connection`",
        ),
        ("http://h", |plan| plan.headers = vec![("a b".into(), "c".into())], "header `a b: c`"),
        ("http://h", |plan| plan.headers = vec![("a".into(), "b\nc".into())], "header `a: b\nc`"),
        (
            "http://h",
            |plan| plan.queries = vec!["/fine".into(), "/not fine".into()],
            "request `/not fine`: contains a character",
        ),
        ("http://h", |plan| plan.queries = vec!["/{key}".into()], "set their number with --keys"),
        ("http://h/{key}", |plan| plan.protocol.data = None, "set their number with --keys"),
        ("http://h", |plan| plan.protocol.streams = 5, "add --http2"),
        ("http://h", |plan| plan.protocol.pipeline = 2, "use memcached://"),
        ("http://h", |plan| plan.protocol.pipeline = 0, "use 1 to 65536"),
        ("http://h", |plan| plan.protocol.trust = Trust::Anyone, "use https://"),
        ("http://h", |plan| plan.protocol.method = Some("A B".into()), "method `A B`"),
        ("http://h", |plan| plan.protocol.method = Some("CONNECT".into()), "a tunnel"),
        ("http://h", |plan| plan.protocol.datagram_bytes = 7, "use 8 to 65507"),
        ("http://h", |plan| plan.protocol.datagram_bytes = 9, "use udp://"),
        ("http://h", |plan| plan.protocol.streams = 0, "0 streams; use 1 to 65536"),
        ("http://h", |plan| plan.queries = vec!["{\"path\"".into()], "request `{\"path\"`"),
        ("http://h", |plan| plan.queries = vec!["{\"a\": 1}".into()], "unknown field `a`"),
        ("udp://h:1", |plan| plan.protocol.data = Some("x".into()), "udp:// does not support data"),
        ("redis://h", |plan| plan.protocol.data = None, "no requests for redis://"),
        ("memcached://h", |plan| plan.protocol.http2 = true, ""),
        (
            "http://h",
            |plan| plan.queries = vec![r#"{"body": "", "body_base64": ""}"#.into()],
            "leave one of them out",
        ),
    ];
    for (target, change, text) in cases {
        let mut plan = Plan::new(target.parse().unwrap(), 1.0);
        change(&mut plan);
        let error = plan.check().unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn a_plan_that_cannot_run_is_refused() {
    let mut bad = plan();
    bad.connections = 0;
    let error = run(&bad, std::future::pending(), |_| {}).await.unwrap_err();
    assert!(error.to_string().starts_with("0 connections"), "{error}");
}
