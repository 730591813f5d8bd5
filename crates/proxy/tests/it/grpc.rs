//! Tests what the status of gRPC decides, and the errors of the proxy for clients of gRPC.

use http::Request;

use crate::harness::http2::{Act, Backend2, Http2Client, Reply, values};
use crate::harness::{Proxy, config, eventually, service};

const UNARY: &str = "protocol = \"grpc\"\npolicy = \"round-robin\"\nretry_budget = 1.0\n\
    route = [{ grpc = \"a.B/Query\", unary = true, idempotent = true }, { grpc = \"a.B\" }]";

fn call(method: &str) -> Request<()> {
    let builder = Request::builder().method("POST").uri(format!("http://x/a.B/{method}"));
    let builder = builder.header("content-type", "application/grpc").header("te", "trailers");
    builder.body(()).expect("a request")
}

/// A response with a body, and a status in its trailers.
fn status(code: &'static str) -> Vec<Act> {
    let kind = vec![("content-type", "application/grpc".to_owned())];
    let trailers = vec![("grpc-status", code), ("grpc-retry-pushback-ms", "60000")];
    vec![Act::Head(200, kind, false), Act::Data(b"hello".into(), false), Act::Trailers(trailers)]
}

async fn replicas(lines: &str, backends: &[&Backend2]) -> (Proxy, Http2Client) {
    let addresses: Vec<_> = backends.iter().map(|backend| backend.address).collect();
    let proxy = Proxy::start(&config("", &service(lines, &addresses))).await;
    let client = Http2Client::connect(proxy.http).await;
    (proxy, client)
}

fn code(reply: &Reply) -> String {
    let fields = reply.trailers.as_ref().unwrap_or(&reply.fields);
    values(fields, "grpc-status").concat()
}

#[tokio::test]
async fn a_unary_call_is_repeated_if_the_status_is_a_failure_of_the_replica() {
    for (first, repeated) in [("14", true), ("8", true), ("13", true), ("5", false), ("0", false)] {
        let bad = Backend2::new(move |_| status(first)).await;
        let good = Backend2::new(|_| status("0")).await;
        let (_proxy, client) = replicas(UNARY, &[&bad, &good]).await;
        // The pick alternates between the replicas.
        let mut codes = Vec::new();
        for _ in 0..4 {
            let reply = client.send(call("Query"), b"").await.expect("a reply");
            assert_eq!((reply.status, reply.text()), (200, "hello".to_owned()));
            codes.push(code(&reply));
        }
        codes.sort_unstable();
        let expected = if repeated { ["0"; 4] } else { ["0", "0", first, first] };
        assert_eq!(codes, expected, "{first}");
        // A replica that pushes back gets no further calls, unless its responses are good.
        assert_eq!(bad.seen().len(), if repeated { 1 } else { 2 }, "{first}");
        assert!(bad.seen().iter().all(|seen| seen.header("te") == ["trailers"]));
    }
}

#[tokio::test]
async fn a_call_that_is_not_unary_is_streamed_and_sent_once() {
    let bad = Backend2::new(|_| status("14")).await;
    let (proxy, client) = replicas(UNARY, &[&bad]).await;
    let reply = client.send(call("Watch"), b"x").await.expect("a reply");
    assert_eq!((reply.text(), code(&reply)), ("hello".to_owned(), "14".to_owned()));
    assert_eq!(bad.seen().len(), 1);
    // The end of the response decides what it was worth.
    let refused = [("outcome", "refused")];
    eventually("the outcome", async || {
        proxy.count("curtail_copies_ended_total", &refused).await == 1
    })
    .await;
}

#[tokio::test]
async fn errors_of_the_proxy_are_statuses_of_grpc() {
    let silent = Backend2::new(|_| vec![Act::Hang]).await;
    let (_proxy, client) = replicas(UNARY, &[&silent]).await;
    let mut late = call("Query");
    late.headers_mut().insert("grpc-timeout", "50m".parse().expect("a value"));
    let unknown = Request::builder().method("POST").uri("http://x/other.C/D");
    let unknown = unknown.header("content-type", "application/grpc").body(()).expect("a request");
    // `timeout` is far longer than the deadline of the client.
    for (request, expected) in [(late, "4"), (unknown, "12")] {
        let reply = client.send(request, b"").await.expect("a reply");
        assert_eq!((reply.status, code(&reply).as_str()), (200, expected));
        assert!(reply.body.is_empty() && reply.trailers.is_none());
        assert!(!values(&reply.fields, "grpc-message").is_empty());
    }
}

#[tokio::test]
async fn a_response_without_a_status_is_a_failure() {
    let kind = || vec![("content-type", "application/grpc".to_owned())];
    let bad = Backend2::new(move |_| vec![Act::Head(200, kind(), true)]).await;
    let (_proxy, client) = replicas(UNARY, &[&bad]).await;
    let reply = client.send(call("Query"), b"").await.expect("a reply");
    assert_eq!(code(&reply), "14");
}
