use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// An export of one span, which has only ids and an end.
pub(super) fn export() -> Vec<u8> {
    let end = [0x41, 1, 0, 0, 0, 0, 0, 0, 0];
    let span = [&[0x0a, 16][..], &[1; 16], &[0x12, 8], &[2; 8], &end].concat();
    [&[0x0a, 41, 0x12, 39, 0x12, 37][..], &span].concat()
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).expect("memory");
    gzip.finish().expect("memory")
}

pub(super) fn collector() -> Collector {
    Collector { traces: Arc::default(), shown: ProgressBar::hidden() }
}

/// Sends requests. Returns the collector's responses, and the traces that it has afterward.
async fn responses(requests: &[(&str, Vec<u8>)]) -> (String, Traces) {
    let collector = collector();
    let traces = Arc::clone(&collector.traces);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let mut client = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("up");
    let (stream, _) = listener.accept().await.expect("a client");
    let serving = tokio::spawn(converse(stream, collector));
    for (head, body) in requests {
        let head = format!("{head}\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        client.write_all(&[head.as_bytes(), body].concat()).await.expect("sent");
    }
    client.shutdown().await.expect("sent");
    let mut text = String::new();
    client.read_to_string(&mut text).await.expect("text");
    serving.await.expect("no panic");
    let mut traces = traces.lock().expect("no panic");
    (text, std::mem::take(&mut traces))
}

#[tokio::test]
async fn exports_are_taken_in_every_encoding() {
    let json = br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"7","spanId":"8","endTimeUnixNano":"1"}]}]}]}"#;
    let post = "POST /v1/traces HTTP/1.1\r\ncontent-type:";
    let (text, traces) = responses(&[
        (&format!("{post} application/x-protobuf"), export()),
        (&format!("{post} application/json; charset=utf-8"), json.to_vec()),
        (&format!("{post} application/json"), b"{}".to_vec()),
        (
            &format!(
                "{post} Application/X-Protobuf\r\ncontent-encoding: GZip\r\nconnection: close"
            ),
            gzip(&export()),
        ),
    ])
    .await;
    assert_eq!(text.matches("HTTP/1.1 200").count(), 4, "{text}");
    assert!(text.contains("content-type: application/json") && text.contains("{}"), "{text}");
    assert_eq!(traces.counts(), (3, 2));
}

#[tokio::test]
async fn unsupported_exports_are_rejected_and_counted() {
    let post = "POST /v1/traces HTTP/1.1\r\ncontent-type:";
    let kind = format!("{post} application/x-protobuf");
    let refused = [
        ("POST /v1/metrics HTTP/1.1", export(), "404"),
        ("GET /v1/traces HTTP/1.1", Vec::new(), "405"),
        ("POST /v1/traces HTTP/1.1", export(), "415"),
        (&format!("{kind}\r\ncontent-encoding: zstd"), export(), "415"),
        (&format!("{kind}\r\ncontent-encoding: gzip"), export(), "400"),
        (&format!("{kind}\r\ncontent-encoding: gzip"), gzip(&vec![0; BODY_BYTES_MAX + 1]), "400"),
        (&format!("{post} application/json"), br#"{"resourceMetrics":[]}"#.to_vec(), "400"),
        (&kind, b"{}".to_vec(), "400"),
    ];
    for (head, body, status) in refused {
        let head = format!("{head}\r\nconnection: close");
        let (text, mut traces) = responses(&[(&head, body)]).await;
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {text}");
        assert_eq!(traces.counts(), (0, 0), "{head}");
        // A profile, which reports the rejected requests, needs at least one trace.
        let mut span = curtail_probe::traces::Span::default();
        (span.trace, span.id, span.end_ns) = (1, 1, 1);
        traces.add(&span);
        let profile = traces.profile(None, 1).expect("a trace");
        assert_eq!(profile.lost[0].reason, "requests that were refused", "{head}");
    }
}

#[tokio::test]
async fn an_export_that_is_too_long_is_refused_unread() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let mut client = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("up");
    let (stream, _) = listener.accept().await.expect("a client");
    tokio::spawn(converse(stream, collector()));
    let head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-length: 16777217\r\n\r\n";
    client.write_all(head.as_bytes()).await.expect("sent");
    client.shutdown().await.expect("sent");
    let mut text = String::new();
    client.read_to_string(&mut text).await.expect("text");
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
}
