//! Tests of the PROXY header: known bytes, errors, arbitrary bytes, splits, streams.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use curtail_net::proxy_protocol::{Header, Parsed, parse, read};
use curtail_net::{Endpoint, ProxyHeaderError};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::common::{Authority, Handshake, LONG, assert_contains, plain};

const SIGNATURE: &[u8] = b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a";

fn header(version_command: u8, family: u8, variable: &[u8]) -> Vec<u8> {
    let length = u16::try_from(variable.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[version_command, family], &length, variable].concat()
}

fn complete(input: &[u8]) -> (Header, usize) {
    match parse(input).unwrap() {
        Parsed::Complete { header, length } => (header, length),
        Parsed::NeedsMore => panic!("more is needed after {} bytes", input.len()),
    }
}

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn headers_of_the_specification_are_read() {
    let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0x1f, 0x90, 0, 80];
    let expected =
        Header::Ip { source: socket("192.0.2.1:8080"), destination: socket("192.0.2.2:80") };
    assert_eq!(complete(&header(0x21, 0x11, &v4)), (expected.clone(), 28));
    // Extensions and later bytes are skipped: here a TLV of type NOOP, and a request.
    let with_tlv = [&v4[..], &[4, 0, 2, 9, 9]].concat();
    let input = [&header(0x21, 0x11, &with_tlv)[..], b"GET /"].concat();
    assert_eq!(complete(&input), (expected, 33));
    let mut v6 = [0; 36];
    (v6[15], v6[31], v6[33], v6[35]) = (1, 2, 80, 81);
    let expected = Header::Ip { source: socket("[::1]:80"), destination: socket("[::2]:81") };
    assert_eq!(complete(&header(0x21, 0x21, &v6)).0, expected);
    let mut unix = [0; 216];
    unix[..2].copy_from_slice(b"/a");
    unix[108..].fill(b'b');
    let (parsed, _) = complete(&header(0x21, 0x31, &unix));
    assert_eq!(parsed.source(), Some(Endpoint::Unix("/a".into())));
    let Header::Unix { destination, .. } = parsed else { panic!("{parsed:?}") };
    assert_eq!(destination, PathBuf::from("b".repeat(108)));
    // Local connections, with and without addresses, and families without a client.
    assert_eq!(complete(&header(0x20, 0x00, &[])), (Header::Local, 16));
    assert_eq!(complete(&header(0x20, 0x11, &v4)), (Header::Local, 28));
    assert_eq!(complete(&header(0x20, 0x11, &[])), (Header::Local, 16));
    for family in [0x00, 0x12, 0x22, 0x32, 0xff] {
        let (parsed, length) = complete(&header(0x21, family, &v4));
        assert_eq!((parsed.source(), length), (None, 28));
        assert_eq!(parsed, Header::Unknown);
    }
}

#[test]
fn unusable_headers_are_refused_with_the_fix() {
    for (input, fix) in [
        (&b"GET / HTTP/1.1\r\n"[..], "does not begin with a PROXY header; enable PROXY"),
        (b"PROXX", "does not begin"),
        (b"\r\n\r\n\0\r\nQUIX", "does not begin"),
        (b"PROXY TCP4 192.0.2.1", "has version 1; set the load balancer to version 2"),
        (&header(0x11, 0x11, &[0; 12]), "has version 1"),
        (&header(0x31, 0x11, &[0; 12]), "has version 3"),
        (&header(0x22, 0x11, &[0; 12]), "has command 2"),
        (&header(0x21, 0x11, &[0; 11]), "has 11 bytes of addresses, but its family 0x11 needs 12"),
        (&header(0x21, 0x21, &[0; 35]), "needs 36"),
        (&header(0x21, 0x31, &[0; 215]), "needs 216"),
        (&header(0x21, 0x11, &[0; 4097]), "has 4097 bytes of addresses and extensions, at most"),
    ] {
        assert_contains(&parse(input).unwrap_err().to_string(), &[fix]);
    }
    assert_eq!(complete(&header(0x21, 0x11, &[0; 4096])).1, 4112);
}

#[tokio::test]
async fn the_client_of_the_header_becomes_the_peer_of_the_stream() {
    let source = socket("[2001:db8::7]:9");
    let sent = Header::Ip { source, destination: socket("[2001:db8::8]:10") };
    let [mut client, accepted] = plain().await;
    let local = accepted.local();
    client.write_all(&[sent.to_bytes(), b"GET /".to_vec()].concat()).await.unwrap();
    let mut stream = read(accepted, LONG).await.unwrap();
    assert_eq!((stream.peer(), stream.local()), (Some(Endpoint::Ip(source)), local));
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"GET /");

    for header in [Header::Local, Header::Unknown] {
        let [mut client, accepted] = plain().await;
        client.write_all(&header.to_bytes()).await.unwrap();
        let stream = read(accepted, LONG).await.unwrap();
        assert_eq!(stream.peer(), client.local());
    }
}

#[tokio::test]
async fn tls_follows_a_header_and_keeps_its_client() {
    let authority = Authority::new();
    let source = socket("198.51.100.1:7");
    let sent = Header::Ip { source, destination: socket("198.51.100.2:443") };
    let [mut client, accepted] = plain().await;
    client.write_all(&sent.to_bytes()).await.unwrap();
    let (tls, server) = (authority.client(), authority.server());
    let accept = async {
        let stream = read(accepted, LONG).await.unwrap();
        server.accept(stream, LONG).await
    };
    let (client, server) = tokio::join!(tls.connect(client, "localhost"), accept);
    let mut connected = Handshake { client, server }.unwrap();
    assert_eq!(connected.server.peer(), Some(Endpoint::Ip(source)));
    connected.exchange().await;
}

#[tokio::test]
async fn incomplete_headers_end_with_the_connection_or_the_timeout() {
    let bytes = Header::Local.to_bytes();
    let [mut client, accepted] = plain().await;
    client.write_all(&bytes[..15]).await.unwrap();
    client.shutdown().await.unwrap();
    let error = read(accepted, LONG).await.unwrap_err();
    assert!(matches!(error, ProxyHeaderError::Closed), "{error}");
    let [_client, accepted] = plain().await;
    let error = read(accepted, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, ProxyHeaderError::Timeout(_)), "{error}");
}

fn headers() -> impl Strategy<Value = Header> {
    let socket = || (any::<IpAddr>(), any::<u16>()).prop_map(SocketAddr::from);
    let path = || "(/[a-z]{1,20}){0,5}".prop_map(PathBuf::from);
    prop_oneof![
        Just(Header::Local),
        Just(Header::Unknown),
        (socket(), socket())
            .prop_filter("one family", |(a, b)| a.is_ipv4() == b.is_ipv4())
            .prop_map(|(source, destination)| Header::Ip { source, destination }),
        (path(), path()).prop_map(|(source, destination)| Header::Unix { source, destination }),
    ]
}

/// Bytes that often begin as a header does.
fn inputs() -> impl Strategy<Value = Vec<u8>> {
    let near = (
        0..=12_usize,
        any::<u8>(),
        any::<u8>(),
        0..6_u8,
        prop::collection::vec(any::<u8>(), 0..300),
    )
        .prop_map(|(kept, command, family, high, after)| {
            let command = if command < 128 { 0x20 | (command & 1) } else { command };
            let family = [0x11, 0x21, 0x31, family][usize::from(family & 3)];
            let start = [&SIGNATURE[..kept], &[command, family, high & !1]].concat();
            [start, after].concat()
        });
    let text = "(PROXY |PROX|GET )?.{0,20}".prop_map(String::into_bytes);
    prop_oneof![near, text, prop::collection::vec(any::<u8>(), 0..64)]
}

/// Returns the verdict as text, because errors of the transport cannot be compared.
fn verdict(input: &[u8]) -> String {
    match parse(input) {
        Ok(parsed) => format!("{parsed:?}"),
        Err(error) => error.to_string(),
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(header in headers(), after in prop::collection::vec(any::<u8>(), 0..9)) {
        let bytes = header.to_bytes();
        for length in 0..bytes.len() {
            prop_assert_eq!(parse(&bytes[..length]).unwrap(), Parsed::NeedsMore);
        }
        let length = bytes.len();
        let parsed = parse(&[bytes, after].concat()).unwrap();
        prop_assert_eq!(parsed, Parsed::Complete { header, length });
    }

    #[test]
    fn addresses_of_two_families_are_mapped(v4: std::net::Ipv4Addr, v6: std::net::Ipv6Addr, port: u16) {
        let source = SocketAddr::from((v4, port));
        let header = Header::Ip { source, destination: SocketAddr::from((v6, port)) };
        let (parsed, _) = complete(&header.to_bytes());
        prop_assert_eq!(parsed.source().unwrap().ip(), Some(IpAddr::V4(v4)));
    }

    /// The first verdict that is final stays the same with every further byte.
    #[test]
    fn the_verdict_depends_on_the_bytes_alone(input in inputs()) {
        let needs_more = format!("{:?}", Parsed::NeedsMore);
        let mut seen = needs_more.clone();
        for length in 0..=input.len() {
            let next = verdict(&input[..length]);
            prop_assert!(seen == needs_more || seen == next, "{} became {}", seen, next);
            seen = next;
        }
    }
}
