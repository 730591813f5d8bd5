//! Requests and keys: what is sent, and what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::future::pending;
use std::sync::{Arc, Mutex};

use crate::common::{Server, answer};
use curtail_load::{
    KeyDistribution, Keys, Plan, Protocol, QueryOrder, Scheme, Trust, read_queries,
    read_queries_for, run,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;

type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// Answers every request, and takes down its first line, or all of its head, and its body.
async fn take_down(stream: TcpStream, seen: Seen) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        seen.lock().unwrap().push((head, String::from_utf8(body).unwrap()));
        answer(stream.get_mut(), 200, "").await;
    }
}

async fn seen_of(change: impl Fn(&mut Plan), requests: u64) -> Vec<(String, String)> {
    let seen = Seen::default();
    let taken = Arc::clone(&seen);
    let server = Server::start(move |stream| take_down(stream, Arc::clone(&taken))).await;
    let mut plan = server.plan(2_000.0, requests);
    plan.connections = 1;
    change(&mut plan);
    let report = run(&plan, pending(), |_| {}).await.unwrap();
    assert_eq!(report.errors.total(), 0, "{report:?}");
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_have_methods_headers_and_bodies() {
    let lines = [
        r#"{"method": "PUT", "path": "/x", "headers": {"x-a": "b"}, "body": "text"}"#,
        r#"{"path": "/y", "body_base64": "aGk="}"#,
        r#"{"method": "DELETE", "path": "/z"}"#,
        "/plain",
        r#"{"method": "HEAD"}"#,
    ];
    let seen = seen_of(|plan| plan.queries = lines.map(str::to_owned).to_vec(), 5).await;
    let first = |i: usize| seen[i].0.lines().next().unwrap();
    assert_eq!((first(0), &*seen[0].1), ("PUT /x HTTP/1.1", "text"));
    assert!(seen[0].0.contains("x-a: b\r\n"), "{}", seen[0].0);
    assert_eq!((first(1), &*seen[1].1), ("POST /y HTTP/1.1", "hi"));
    assert_eq!((first(2), &*seen[2].1), ("DELETE /z HTTP/1.1", ""));
    assert_eq!(first(3), "GET /plain HTTP/1.1");
    assert_eq!(first(4), "HEAD / HTTP/1.1");
}

#[tokio::test]
async fn data_and_method_are_those_of_a_request_that_names_none() {
    let change = |plan: &mut Plan| {
        plan.protocol.data = Some("a=1".to_owned());
        plan.queries = vec!["/a".to_owned(), r#"{"method": "GET", "path": "/b"}"#.to_owned()];
    };
    let seen = seen_of(change, 2).await;
    assert!(seen[0].0.starts_with("POST /a ") && seen[0].1 == "a=1", "{seen:?}");
    assert!(seen[1].0.starts_with("GET /b ") && seen[1].1 == "a=1", "{seen:?}");
    let patched = seen_of(|plan| plan.protocol.method = Some("PATCH".to_owned()), 1).await;
    assert!(patched[0].0.starts_with("PATCH / HTTP/1.1\r\n"), "{patched:?}");
}

#[tokio::test]
async fn one_seed_draws_the_same_keys_and_another_does_not() {
    let with_seed = |seed| {
        move |plan: &mut Plan| {
            plan.seed = seed;
            plan.queries = vec!["/a/{key}".to_owned(), "/b/{key}?again={key}".to_owned()];
            plan.order = QueryOrder::Random;
            let distribution = KeyDistribution::Uniform;
            plan.protocol.keys = Some(Keys { count: 1_000, distribution });
        }
    };
    let asked = |seen: Vec<(String, String)>| -> Vec<String> {
        seen.iter().map(|(head, _)| head.split(' ').nth(1).unwrap().to_owned()).collect()
    };
    let once = asked(seen_of(with_seed(1), 100).await);
    assert_eq!(once, asked(seen_of(with_seed(1), 100).await));
    assert_ne!(once, asked(seen_of(with_seed(2), 100).await));
    for target in &once {
        let (path, again) = target.split_once('?').unwrap_or((target, ""));
        let key = path.rsplit('/').next().unwrap();
        assert!(key.parse::<usize>().unwrap() < 1_000, "{target}");
        assert!(again.is_empty() || again == format!("again={key}"), "{target}");
    }
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
    // Their standard deviation is 10.
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
fn what_does_not_fit_is_refused_with_a_mend() {
    type Change = fn(&mut Plan);
    let keys = |count| Some(Keys { count, distribution: KeyDistribution::Uniform });
    let cases: [(&str, Change, &str); 15] = [
        ("http://h", |plan| plan.queries = vec!["/{key}".into()], "say how many with --keys"),
        ("http://h/{key}", |plan| plan.protocol.data = None, "say how many with --keys"),
        ("http://h", |plan| plan.protocol.streams = 5, "add --http2"),
        ("http://h", |plan| plan.protocol.trust = Trust::Anyone, "use https://"),
        ("http://h", |plan| plan.protocol.method = Some("A B".into()), "method `A B`"),
        ("http://h", |plan| plan.protocol.method = Some("CONNECT".into()), "a tunnel"),
        ("http://h", |plan| plan.protocol.datagram_bytes = 7, "use 8 to 65507"),
        ("http://h", |plan| plan.protocol.datagram_bytes = 9, "use udp://"),
        ("http://h", |plan| plan.protocol.streams = 0, "0 streams; use 1 to 65536"),
        ("http://h", |plan| plan.queries = vec!["{\"path\"".into()], "request `{\"path\"`"),
        ("http://h", |plan| plan.queries = vec!["{\"a\": 1}".into()], "unknown field `a`"),
        ("udp://h:1", |plan| plan.protocol.data = Some("x".into()), "udp:// has no use for data"),
        ("redis://h", |plan| plan.protocol.data = None, "nothing to ask redis://"),
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
        let error = plan.check().unwrap_err().to_string();
        assert!(error.contains(text), "{target}: {error}");
    }
    let mut plan = Plan::new("http://h/x".parse().unwrap(), 1.0);
    plan.protocol.keys = keys(5);
    assert!(plan.check().unwrap_err().to_string().contains("no request has {key}"));
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
fn lines_of_requests_are_read_and_bad_ones_told_with_the_line_and_a_mend() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("queries");
    fs::write(&file, "/a/{key}\n{\"path\": \"/b\", \"body\": \"{key}\"}\n").unwrap();
    assert_eq!(read_queries(&file).unwrap().len(), 2);
    for line in [
        r#"{"path": "b"}"#,
        r#"{"path": "/b""#,
        r#"{"headers": {"Expect": ""}}"#,
        r#"{"headers": {"a b": ""}}"#,
        r#"{"headers": {"a": "\n"}}"#,
        r#"{"method": "A B"}"#,
        r#"{"method": "CONNECT"}"#,
        "x",
    ] {
        fs::write(&file, format!("/a\n\n{line}\n")).unwrap();
        let error = read_queries_for(&file, Scheme::Https).unwrap_err().to_string();
        assert!(error.contains("queries:3: "), "{error}");
    }
}
