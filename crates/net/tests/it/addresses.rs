//! Tests of addresses: forms, errors, resolution.

use std::net::SocketAddr;
use std::path::PathBuf;

use curtail_net::{Address, Endpoint};
use proptest::prelude::*;

#[test]
fn the_documented_forms_are_read_and_printed_as_written() {
    let longest = format!("{}:1", ["a".repeat(63).as_str(); 4].join(".").split_at(253).0);
    for text in [
        "127.0.0.1:80",
        "0.0.0.0:0",
        "[::1]:80",
        "[::]:65535",
        "[0:0::1]:9001",
        "localhost:80",
        "name.internal:9001",
        "Name_1.internal.:9001",
        "10.example:1",
        "unix:/run/x.sock",
        "unix:relative.sock",
        &longest,
    ] {
        let address = Address::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(address.to_string(), text);
        assert_eq!(text.parse(), Ok(address));
    }
    let address = Address::parse("[::1]:80").unwrap();
    assert_eq!(address, Address::Tcp { host: "::1".to_owned(), port: 80 });
    assert_eq!(Address::parse("unix:/a").unwrap(), Address::Unix(PathBuf::from("/a")));
}

#[test]
fn errors_contain_the_text_and_the_fix() {
    let long = format!("{}:1", "a".repeat(254));
    let path = format!("unix:/{}", "a".repeat(107));
    for (text, fix) in [
        ("", "append one"),
        ("localhost", "append one, as in `localhost:8080`"),
        ("[::1]", "append one"),
        ("[::1]80", "append one"),
        ("localhost:", "port ``"),
        ("localhost:65536", "from 0 to 65535"),
        ("localhost:+80", "write digits"),
        ("localhost:080", "without leading zeros"),
        ("http://localhost:80", "write only `HOST:PORT`"),
        (":80", "`0.0.0.0:PORT`"),
        ("::1:80", "write `[ADDRESS]:PORT`"),
        ("[::1:80", "write `[ADDRESS]:PORT`"),
        ("[127.0.0.1]:80", "is not an IPv6 address"),
        ("256.0.0.1:80", "is not an IPv4 address"),
        ("10.1:80", "is not an IPv4 address"),
        ("a b:80", "contains ` `"),
        ("a/b:80", "contains `/`"),
        ("a..b:80", "single dots"),
        (".:80", "single dots"),
        ("ü.example:80", "contains `ü`"),
        (&long, "254 bytes; use at most 253"),
        ("unix:", "write `unix:/run/NAME.sock`"),
        ("unix:@name", "write a path"),
        ("unix:/a\0b", "remove it"),
        (&path, "108 bytes; use at most 107"),
    ] {
        let error = Address::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(&format!("address `{text}`: ")), "{error}");
        assert!(error.contains(fix), "{error}");
    }
}

#[tokio::test]
async fn addresses_are_resolved_by_the_system_and_literals_without_it() {
    let resolve = async |text: &str| Address::parse(text).unwrap().resolve().await;
    let ip = |text: &str| Endpoint::from(text.parse::<SocketAddr>().unwrap());
    assert_eq!(resolve("192.0.2.1:80").await.unwrap(), [ip("192.0.2.1:80")]);
    assert_eq!(resolve("[2001:db8::1]:80").await.unwrap(), [ip("[2001:db8::1]:80")]);
    assert_eq!(resolve("unix:/a").await.unwrap(), [Endpoint::Unix("/a".into())]);
    let local = resolve("localhost:80").await.unwrap();
    assert!(local.iter().all(|endpoint| endpoint.ip().unwrap().is_loopback()), "{local:?}");
    let mut distinct = local.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!((distinct.len(), local.is_empty()), (local.len(), false));
    // The system rejects this name without a query, because a label has at most 63 bytes.
    let name = format!("{}.invalid:80", "a".repeat(64));
    let error = resolve(&name).await.unwrap_err().to_string();
    assert!(error.contains(&name) && error.contains("is not resolved"), "{error}");
}

#[test]
fn endpoints_print_as_addresses_and_unmap_ipv4() {
    let endpoint = Endpoint::from("[::ffff:192.0.2.1]:80".parse::<SocketAddr>().unwrap());
    assert_eq!(endpoint.ip(), Some("192.0.2.1".parse().unwrap()));
    assert_eq!(endpoint.to_string(), "[::ffff:192.0.2.1]:80");
    let endpoint = Endpoint::Unix("/run/x.sock".into());
    assert_eq!((endpoint.ip(), endpoint.to_string()), (None, "unix:/run/x.sock".to_owned()));
}

proptest! {
    #[test]
    fn no_text_panics_and_accepted_texts_read_back(text in "(unix:|\\[)?[a-z0-9:.@\\]\\-é]{0,12}(:[0-9]{0,5})?") {
        if let Ok(address) = Address::parse(&text) {
            prop_assert_eq!(address.to_string(), text);
        }
    }
}
