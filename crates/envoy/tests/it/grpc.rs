//! Calls of gRPC, whose trailers decide.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::envoy::{self, Envoy};

/// What a server does with a call.
#[derive(Clone, Copy)]
enum Call {
    /// Responds with a message and this status in the trailers.
    Status(&'static str),
    /// Responds with this status and nothing else.
    Alone(&'static str),
    Hang,
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Starts a server that does the same with all calls. Returns the number of its calls.
fn start(runtime: &Runtime, call: Call) -> (SocketAddr, Arc<AtomicU32>) {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let calls: Arc<AtomicU32> = Arc::default();
    let counted = Arc::clone(&calls);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, call, Arc::clone(&counted)));
        }
    });
    (address, calls)
}

async fn serve(stream: TcpStream, call: Call, calls: Arc<AtomicU32>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let mut hanging = Vec::new();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        calls.fetch_add(1, Ordering::Relaxed);
        let head = Response::builder().header("content-type", "application/grpc");
        match call {
            Call::Status(status) => {
                let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
                body.send_data(Bytes::from_static(b"\0\0\0\0\x02hi"), false).unwrap();
                let trailers = HeaderMap::from_iter([(
                    "grpc-status".parse().unwrap(),
                    status.parse().unwrap(),
                )]);
                body.send_trailers(trailers).unwrap();
            }
            Call::Alone(status) => {
                let head = head.header("grpc-status", status).body(()).unwrap();
                respond.send_response(head, true).unwrap();
            }
            Call::Hang => hanging.push(respond),
        }
    }
}

/// Makes a call. Returns the length of the message, and the status.
async fn call(to: SocketAddr, method: &str) -> (usize, String) {
    let stream = TcpStream::connect(to).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://test/test.Echo/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let (response, mut body) = client.ready().await.unwrap().send_request(request, false).unwrap();
    body.send_data(Bytes::from_static(b"\0\0\0\0\x02hi"), true).unwrap();
    let (head, mut body) = response.await.unwrap().into_parts();
    assert_eq!(head.status, 200);
    let mut length = 0;
    while let Some(data) = body.data().await {
        length += data.unwrap().len();
    }
    let trailers = body.trailers().await.unwrap();
    let status = trailers.as_ref().unwrap_or(&head.headers).get("grpc-status");
    (length, status.unwrap().to_str().unwrap().to_owned())
}

fn front(policy: &str, servers: [SocketAddr; 2]) -> Option<Envoy> {
    let lines = format!(
        "policy = \"{policy}\"\nprotocol = \"grpc\"\nhedge_budget = 1.0\nretry_budget = 1.0\n\
         route = [{{ path_prefix = \"/\" }}, \
                  {{ grpc = \"test.Echo/Twice\", unary = true, idempotent = true }}]"
    );
    envoy::start(&envoy::service(&lines, &servers))
}

#[test]
fn a_call_that_fails_is_retried_and_its_trailers_pass() {
    for failing in [Call::Alone("14"), Call::Status("14")] {
        let runtime = runtime();
        let (bad, bad_calls) = start(&runtime, failing);
        let (good, _) = start(&runtime, Call::Status("0"));
        let Some(envoy) = front("round-robin", [bad, good]) else { return };
        for _ in 0..4 {
            assert_eq!(runtime.block_on(call(envoy.http, "Twice")), (7, "0".to_owned()));
        }
        let failed = u64::from(bad_calls.load(Ordering::Relaxed));
        assert!(failed > 0, "the bad server was tried");
        assert_eq!(envoy.count("copies_ended", "refused", failed), failed);
        // Other methods run once.
        let statuses: Vec<_> =
            (0..2).map(|_| runtime.block_on(call(envoy.http, "Once")).1).collect();
        assert!(statuses.contains(&"14".to_owned()), "{statuses:?}");
    }
}

#[test]
fn a_duplicate_of_a_call_wins_with_its_trailers() {
    let runtime = runtime();
    let (stuck, _) = start(&runtime, Call::Hang);
    let (good, _) = start(&runtime, Call::Status("0"));
    let Some(envoy) = front("delayed:20ms:cc+round-robin", [stuck, good]) else { return };
    envoy::until("a duplicate to win", || {
        assert_eq!(runtime.block_on(call(envoy.http, "Twice")), (7, "0".to_owned()));
        envoy.counter("copies_won", "duplicate") > 0
    });
}

#[test]
fn a_status_about_the_request_passes() {
    let runtime = runtime();
    let (first, _) = start(&runtime, Call::Alone("3"));
    let (second, _) = start(&runtime, Call::Status("3"));
    let Some(envoy) = front("round-robin", [first, second]) else { return };
    for _ in 0..2 {
        assert_eq!(runtime.block_on(call(envoy.http, "Twice")).1, "3");
    }
    assert_eq!(envoy.count("copies_ended", "request", 2), 2);
}
