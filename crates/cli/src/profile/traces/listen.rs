//! An OTLP endpoint: Receives `POST /v1/traces` over HTTP, in protobuf or JSON, and gRPC on the
//! same port. Both accept gzip.
//!
//! At most [`CONNECTIONS_MAX`] connections are open, and further clients wait in the backlog. An
//! export has at most [`BODY_BYTES_MAX`] bytes, both before and after decompression. One export is
//! parsed at a time, and [`Traces`] bounds the number of spans.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use curtail_http::h1::server::{Connection, Request, ServerError};
use curtail_http::h1::{Limits, Timeouts};
use curtail_probe::traces::parse::{ParseError, json, protobuf};
use curtail_probe::traces::{Span, Traces};
use indicatif::ProgressBar;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::unzip;
use crate::exit::{Stop, lacking};
use crate::run::{self, Termination};
use crate::say;

const CONNECTIONS_MAX: usize = 256;
const BODY_BYTES_MAX: usize = 16 << 20;
/// Pause after a failed accept, for example for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Timeout for the first bytes that a connection sends.
const FIRST_BYTES: Duration = Duration::from_secs(30);

mod grpc;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

#[derive(Clone)]
struct Collector {
    traces: Arc<Mutex<Traces>>,
    shown: ProgressBar,
}

/// Parses the bytes of one format into spans.
type Parse = fn(&[u8]) -> Result<Vec<Span>, ParseError>;
/// The status, the content type, and the body of a response.
type Reply = (u16, &'static str, String);

/// Collects traces until the duration is over or a signal arrives. The returned flag is true if a
/// signal ended the collection early.
pub(super) fn listen(
    address: SocketAddr,
    duration: Option<Duration>,
    traces: Traces,
) -> Result<(Traces, bool), Stop> {
    let collector = Collector { traces: Arc::new(Mutex::new(traces)), shown: run::spinner() };
    // The connections are aborted, even during an export.
    let is_interrupted = run::on_all_cores(collect(address, duration, &collector));
    collector.shown.finish_and_clear();
    let mut traces = collector.traces.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((std::mem::take(&mut traces), is_interrupted?))
}

async fn collect(
    address: SocketAddr,
    duration: Option<Duration>,
    collector: &Collector,
) -> Result<bool, Stop> {
    let unheard =
        |error| lacking!("--otlp: cannot listen at {address}: {error}; choose another port");
    // Install the signal handlers before the address is announced, so that no signal is missed.
    let mut ending = Termination::listen_at_terminal()?;
    let listener = TcpListener::bind(address).await.map_err(unheard)?;
    let bound = listener.local_addr().map_err(unheard)?;
    say::aside(format!(
        "collecting traces; exporters send them here with OTEL_EXPORTER_OTLP_ENDPOINT=http://{bound} and \
         OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf or grpc"
    ));
    let over = async {
        match duration {
            Some(duration) => sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    let mut over = std::pin::pin!(over);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut over => return Ok(false),
            () = ending.next() => return Ok(duration.is_some()),
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(converse(stream, collector.clone()));
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }
}

/// Serves the requests of one exporter, in sequence.
async fn converse(stream: TcpStream, collector: Collector) {
    let mut first = [0; 3];
    match timeout(FIRST_BYTES, stream.peek(&mut first)).await {
        Ok(Ok(3)) if first == *b"PRI" => return grpc::converse(stream, &collector).await,
        Ok(Ok(_)) => {}
        _ => return,
    }
    let limits = Limits { body_bytes: BODY_BYTES_MAX, ..Limits::default() };
    let mut client = Connection::new(stream, limits, Timeouts::default());
    loop {
        match client.next_request().await {
            Ok(Some(request)) => {
                let (status, kind, body) = collector.export(&request);
                let headers = [("content-type", kind)];
                if client.respond(status, headers, body.as_bytes()).await.is_err() {
                    return;
                }
            }
            Ok(None) => break,
            Err(ServerError::Reject(reject)) => {
                collector.refused();
                if client.reject(&reject).await.is_err() {
                    return;
                }
                break;
            }
            Err(_) => return,
        }
    }
    client.close().await;
}

impl Collector {
    fn export(&self, request: &Request) -> Reply {
        let done = self.take(request);
        done.unwrap_or_else(|(status, why)| {
            self.refused();
            (status, "text/plain; charset=utf-8", format!("{why}\n"))
        })
    }

    fn take(&self, request: &Request) -> Result<Reply, (u16, String)> {
        let head = &request.head;
        if head.path_and_query() != "/v1/traces" {
            return Err((404, "the only path is /v1/traces".to_owned()));
        }
        if head.method() != "POST" {
            return Err((405, "POST traces".to_owned()));
        }
        let kind = head.header("content-type").unwrap_or_default().to_ascii_lowercase();
        let (parse, kind, body): (Parse, _, _) = match &kind {
            kind if kind.starts_with(JSON.as_bytes()) => (json, JSON, "{}"),
            kind if kind.starts_with(PROTOBUF.as_bytes()) => (protobuf, PROTOBUF, ""),
            _ => return Err((415, format!("send {PROTOBUF} or {JSON}"))),
        };
        self.add(&request.body, head.header("content-encoding"), parse)?;
        Ok((200, kind, body.to_owned()))
    }

    /// Adds the spans of an export. One export is parsed at a time.
    fn add(&self, bytes: &[u8], coding: Option<&[u8]>, parse: Parse) -> Result<(), (u16, String)> {
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        // Names of codings are case-insensitive (RFC 9110, 8.4.1).
        let unpacked = match coding.map(<[u8]>::to_ascii_lowercase).as_deref() {
            None | Some(b"identity" | b"") => None,
            Some(b"gzip" | b"x-gzip") => {
                let unpacked = unzip(bytes, BODY_BYTES_MAX as u64);
                Some(unpacked.map_err(|error| (400, format!("gzip: {error}")))?)
            }
            Some(_) => return Err((415, "send gzip, or uncompressed bytes".to_owned())),
        };
        let spans = parse(unpacked.as_deref().unwrap_or(bytes));
        spans.map_err(|error| (400, error.to_string()))?.iter().for_each(|span| traces.add(span));
        let (held, seen) = (traces.held(), traces.count());
        self.shown
            .set_message(format!("{seen} traces, {held} spans held; Ctrl-C ends the collection"));
        Ok(())
    }

    fn refused(&self) {
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        traces.lose("requests that were refused", 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::profile::traces::tests::gzip;

    /// An export of one span, which has only ids and an end.
    pub(super) fn export() -> Vec<u8> {
        let end = [0x41, 1, 0, 0, 0, 0, 0, 0, 0];
        let span = [&[0x0a, 16][..], &[1; 16], &[0x12, 8], &[2; 8], &end].concat();
        [&[0x0a, 41, 0x12, 39, 0x12, 37][..], &span].concat()
    }

    pub(super) fn collector() -> Collector {
        Collector { traces: Arc::default(), shown: ProgressBar::hidden() }
    }

    /// Sends requests. Returns the collector's responses, and the traces that it has afterward.
    async fn responses(requests: &[(&str, Vec<u8>)]) -> (String, Traces) {
        let collector = collector();
        let traces = Arc::clone(&collector.traces);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("bound")).await.expect("up");
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
        assert_eq!((traces.held(), traces.count()), (3, 2));
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
            (
                &format!("{kind}\r\ncontent-encoding: gzip"),
                gzip(&vec![0; BODY_BYTES_MAX + 1]),
                "400",
            ),
            (&format!("{post} application/json"), br#"{"resourceMetrics":[]}"#.to_vec(), "400"),
            (&kind, b"{}".to_vec(), "400"),
        ];
        for (head, body, status) in refused {
            let head = format!("{head}\r\nconnection: close");
            let (text, mut traces) = responses(&[(&head, body)]).await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {text}");
            assert_eq!((traces.held(), traces.count()), (0, 0), "{head}");
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
        let mut client =
            TcpStream::connect(listener.local_addr().expect("bound")).await.expect("up");
        let (stream, _) = listener.accept().await.expect("a client");
        tokio::spawn(converse(stream, collector()));
        let head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-length: 16777217\r\n\r\n";
        client.write_all(head.as_bytes()).await.expect("sent");
        client.shutdown().await.expect("sent");
        let mut text = String::new();
        client.read_to_string(&mut text).await.expect("text");
        assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    }
}
