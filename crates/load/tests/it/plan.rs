//! Tests that bad input is rejected with an explanation, and how keys are distributed. The encoding of
//! requests is tested in `session/requests`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use curtail_load::{
    Arrivals, Extent, KeyDistribution, Keys, Pace, Plan, Precision, Profile, Protocol, Scheme,
    Target, Trust, parse_header, read_queries_for, run,
};

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
    let http: [(Change, &str); 33] = [
        (|plan| plan.pace = Pace::poisson(0.0), "rate 0 "),
        (|plan| plan.pace = Pace::poisson(1e300), "rate 1e300 "),
        (|plan| plan.pace = Pace::poisson(0.04), "rate 0.04 × duration 10s is 0.4 requests"),
        (|plan| plan.pace = Pace::poisson(f64::NAN), "rate NaN "),
        (|plan| plan.pace = Pace::poisson(f64::INFINITY), "rate inf "),
        (|plan| plan.extent = Extent::Requests(0), "nothing would be measured"),
        (|plan| plan.pace = profile("1..0"), "rate 0 "),
        (|plan| plan.pace = profile("1:5s,1:6s"), "take 11s in all"),
        (|plan| (plan.pace, plan.extent) = (profile("1..9"), Extent::Requests(9)), "duration"),
        (|plan| plan.until = precision(1.0, 990), "below 100 %"),
        (|plan| plan.until = precision(0.1, 1_000), "below 100"),
        (|plan| plan.threads = 0, "0 threads; use 1 to 64"),
        (|plan| plan.threads = 65, "65 threads; use 1 to 64"),
        (|plan| plan.connections = 0, "0 connections"),
        (|plan| plan.timeout_ns = 0, "--timeout 0ns"),
        (|plan| plan.timeout_ns = 60_000_000_001, "--timeout 60.000000001s"),
        (|plan| plan.headers = vec![("Connection".into(), "close".into())], "`Connection`"),
        (|plan| plan.headers = vec![("a b".into(), "c".into())], "header `a b: c`"),
        (|plan| plan.headers = vec![("a".into(), "b\nc".into())], "header `a: b\nc`"),
        (
            |plan| plan.queries = vec!["/fine".into(), "/not fine".into()],
            "request `/not fine`: contains a character",
        ),
        (|plan| plan.queries = vec!["/{key}".into()], "set their number with --keys"),
        (|plan| plan.protocol.streams = 5, "add --http2"),
        (|plan| plan.protocol.pipeline = 2, "use memcached://"),
        (|plan| plan.protocol.pipeline = 0, "use 1 to 65536"),
        (|plan| plan.protocol.trust = Trust::Anyone, "use https://"),
        (|plan| plan.protocol.method = Some("A B".into()), "method `A B`"),
        (|plan| plan.protocol.method = Some("CONNECT".into()), "a tunnel"),
        (|plan| plan.protocol.datagram_bytes = 7, "use 8 to 65507"),
        (|plan| plan.protocol.datagram_bytes = 9, "use udp://"),
        (|plan| plan.protocol.streams = 0, "0 streams; use 1 to 65536"),
        (|plan| plan.queries = vec!["{\"path\"".into()], "request `{\"path\"`"),
        (|plan| plan.queries = vec!["{\"a\": 1}".into()], "unknown field `a`"),
        (
            |plan| plan.queries = vec![r#"{"body": "", "body_base64": ""}"#.into()],
            "leave one of them out",
        ),
    ];
    let others: [(&str, Change, &str); 4] = [
        ("http://h/{key}", |plan| plan.protocol.data = None, "set their number with --keys"),
        ("udp://h:1", |plan| plan.protocol.data = Some("x".into()), "udp:// does not support data"),
        ("redis://h", |plan| plan.protocol.data = None, "no requests for redis://"),
        ("memcached://h", |plan| plan.protocol.http2 = true, ""),
    ];
    let http = http.map(|(change, text)| ("http://h", change, text));
    for (target, change, text) in http.into_iter().chain(others) {
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

#[test]
fn keys_have_their_distribution() {
    let mut plan = Plan::new("http://127.0.0.1:1/{key}".parse().unwrap(), 1_000.0);
    let mut counts = |distribution| {
        plan.protocol.keys = Some(Keys { count: 100, distribution });
        plan.check().unwrap();
        let mut counts = BTreeMap::<usize, u32>::new();
        for slot in plan.schedule().unwrap().take(10_000) {
            *counts.entry(slot.query).or_default() += 1;
        }
        counts
    };
    let uniform = counts(KeyDistribution::Uniform);
    // The standard deviation of each count is 10.
    assert!((0..100).all(|key| uniform[&key].abs_diff(100) < 60), "{uniform:?}");
    // The sum of 1/k up to 100 is 5.187.
    let zipf = counts(KeyDistribution::Zipf(1.0));
    assert!(zipf[&0].abs_diff(1_928) < 200 && zipf[&1].abs_diff(964) < 150, "{zipf:?}");
    assert!(zipf.keys().all(|key| *key < 100));
}

#[test]
fn key_distributions_are_read() {
    assert_eq!("uniform".parse(), Ok(KeyDistribution::Uniform));
    assert_eq!("zipf:0.99".parse(), Ok(KeyDistribution::Zipf(0.99)));
    for text in ["zipf", "zipf:0", "zipf:-1", "zipf:x", "zipf:NaN", "zipf:11", "normal", ""] {
        let error = text.parse::<KeyDistribution>().unwrap_err().to_string();
        assert!(error.contains(&format!("`{text}`")) && error.contains("zipf:0.99"), "{error}");
    }
}

#[test]
fn keys_require_requests_that_use_them() {
    let keys = |count| Some(Keys { count, distribution: KeyDistribution::Uniform });
    let mut plan = Plan::new("http://h/x".parse().unwrap(), 1.0);
    plan.protocol.keys = keys(5);
    assert!(plan.check().unwrap_err().to_string().contains("no request contains {key}"));
    plan.queries = vec!["/{key}".to_owned(), "/x".to_owned()];
    assert_eq!(plan.check(), Ok(()));
    plan.protocol.keys = keys(500_001);
    assert!(plan.check().unwrap_err().to_string().contains("use 1 to 500000"));
    plan.queries[0] = format!("/{{key}}{}", "x".repeat(10_000));
    plan.protocol.keys = keys(500_000);
    assert!(plan.check().unwrap_err().to_string().contains("more than 1 GiB"));
    plan.protocol = Protocol { keys: keys(0), ..Protocol::default() };
    assert!(plan.check().unwrap_err().to_string().contains("0 keys"));
}

#[test]
fn malformed_lines_of_requests_are_reported_with_the_line_and_the_fix() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("queries");
    let read_http = |file: &Path| read_queries_for(file, Scheme::Http);
    for (text, queries) in [
        ("/a\r\n\n  /b?q=1  \n/c", &["/a", "/b?q=1", "/c"][..]),
        // Some editors save a byte order mark.
        ("\u{feff}/a\r\n/b\r\n", &["/a", "/b"]),
        ("/a/{key}\n{\"body\": \"{key}\"}\n", &["/a/{key}", "{\"body\": \"{key}\"}"]),
    ] {
        fs::write(&file, text).unwrap();
        assert_eq!(read_http(&file).unwrap(), queries);
    }
    for line in [
        r#"{"path": "b"}"#,
        r#"{"path": "/b""#,
        r#"{"headers": {"Expect": ""}}"#,
        r#"{"headers": {"a b": ""}}"#,
        r#"{"headers": {"a": "\n"}}"#,
        r#"{"method": "A B"}"#,
        r#"{"method": "CONNECT"}"#,
        "x",
        "/b c",
        "/ä",
        "/a#b",
        "\u{feff}/b",
    ] {
        fs::write(&file, format!("/a\n\n{line}\n")).unwrap();
        let error = read_queries_for(&file, Scheme::Https).unwrap_err().to_string();
        assert!(error.contains("queries:3: "), "{error}");
    }
    fs::write(&file, b"/\xff").unwrap();
    let error = read_http(&file).unwrap_err().to_string();
    assert!(error.contains("queries:1: it is not UTF-8 text"), "{error}");
    fs::write(&file, "\n \n").unwrap();
    assert!(read_http(&file).unwrap_err().to_string().contains("no query"));
    let missing = read_http(&directory.path().join("missing")).unwrap_err();
    assert!(missing.to_string().ends_with("check the path"), "{missing}");
}

#[test]
fn headers_are_read() {
    let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
    assert_eq!(parse_header("k: v"), pair("k", "v"));
    assert_eq!(parse_header("k:v:w"), pair("k", "v:w"));
    assert_eq!(parse_header("k:"), pair("k", ""));
    for text in ["", "k", ": v"] {
        let error = parse_header(text).unwrap_err().to_string();
        assert!(error.contains(&format!("`{text}` is not")), "{error}");
    }
}
