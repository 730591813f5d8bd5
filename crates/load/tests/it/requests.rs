//! Tests which requests and keys are rejected, and how requests and keys are distributed. The
//! encoding is tested in `session/requests`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use curtail_load::{KeyDistribution, Keys, Plan, Protocol, Scheme, parse_header, read_queries_for};

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
