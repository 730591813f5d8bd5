//! Shared parts of the tests: servers on loopback.

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use curtail_load::{Extent, Outcome, Pace, Plan, Report, run, run_observed};
use h2::RecvStream;
use h2::server::{SendResponse, handshake};
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;

pub(crate) const MS: u64 = 1_000_000;

/// A server that stops when this value is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves every connection with `serve`.
    pub(crate) async fn start<F: Future<Output = ()> + Send + 'static>(
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(stream));
            }
        });
        Server { address, accepted, task }
    }

    /// Handles each request as `handle` decides, given the number of earlier requests on all
    /// connections and the head of the request.
    pub(crate) async fn each(
        handle: impl Fn(usize, &str) -> Then + Send + Sync + 'static,
    ) -> Server {
        let state = Arc::new((handle, AtomicUsize::new(0)));
        Server::start(move |mut stream| {
            let state = Arc::clone(&state);
            async move {
                while let Some(head) = next_head(&mut stream).await {
                    let (status, body) =
                        match state.0(state.1.fetch_add(1, Ordering::SeqCst), &head) {
                            Then::Answer(status, body) => (status, body),
                            Then::Late(time) => {
                                tokio::time::sleep(time).await; // tidy: real time
                                (200, "")
                            }
                            Then::Silence => pending().await,
                            Then::Close => return,
                        };
                    answer(&mut stream, status, body).await;
                }
            }
        })
        .await
    }

    /// Returns the number of connections that the server has accepted.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Returns a plan of `requests` requests with equal gaps.
    pub(crate) fn plan(&self, rate: f64, requests: u64) -> Plan {
        plan_for(self.address, rate, requests)
    }
}

/// How a server handles a request.
pub(crate) enum Then {
    /// Responds with this status and body.
    Answer(u16, &'static str),
    /// Responds with 200 after this time.
    Late(Duration),
    /// Sends no response, and handles no further request on the connection.
    Silence,
    Close,
}

/// Responds with 200 and no body.
pub(crate) const FINE: Then = Then::Answer(200, "");

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn plan_for(address: SocketAddr, rate: f64, requests: u64) -> Plan {
    let mut plan = Plan::new(format!("http://{address}/").parse().unwrap(), rate);
    plan.pace = Pace::constant(rate);
    plan.extent = Extent::Requests(requests);
    plan
}

pub(crate) async fn measure(plan: &Plan) -> Report {
    run(plan, pending(), |_| {}).await.unwrap()
}

pub(crate) async fn observe(plan: &Plan, mut on_response: impl FnMut(&Outcome)) -> Report {
    let go_on = |response: &Outcome, _| {
        on_response(response);
        ControlFlow::Continue(())
    };
    run_observed(plan, pending(), |_| {}, go_on).await.unwrap()
}

/// Returns an address on which no server listens.
pub(crate) async fn unused() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// Echoes each datagram. `copies` returns the number of copies to send for a sequence number.
pub(crate) async fn udp_echo(copies: impl Fn(u64) -> usize + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut bytes = vec![0; 1 << 16];
        while let Ok((count, from)) = socket.recv_from(&mut bytes).await {
            for _ in 0..copies(u64::from_be_bytes(bytes[..8].try_into().unwrap())) {
                socket.send_to(&bytes[..count], from).await.unwrap();
            }
        }
    });
    address
}

/// Returns a plan with equal gaps and no path, for UDP and the protocols whose requests are
/// `queries`.
pub(crate) fn plan_of(scheme: &str, address: SocketAddr, rate: f64, requests: u64) -> Plan {
    let target = format!("{scheme}://{address}").parse().unwrap();
    Plan { target, timeout_ns: 1_000 * MS, ..plan_for(address, rate, requests) }
}

/// Returns the head of the next request, as text. Returns `None` at the end of the connection.
pub(crate) async fn next_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        // Read one byte at a time, so that no byte of the next request is consumed.
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

pub(crate) async fn say(stream: &mut TcpStream, text: &str) {
    // This fails if the client has disconnected.
    let _ = stream.write_all(text.as_bytes()).await;
}

pub(crate) async fn answer(stream: &mut TcpStream, status: u16, body: &str) {
    let length = body.len();
    say(stream, &format!("HTTP/1.1 {status} \r\ncontent-length: {length}\r\n\r\n{body}")).await;
}

/// Responds to every request with 200 and the request target.
pub(crate) async fn echo(mut stream: TcpStream) {
    while let Some(head) = next_head(&mut stream).await {
        answer(&mut stream, 200, target(&head)).await;
    }
}

/// A latency beside which the noise of a busy machine is small, so that few samples make a percentile
/// precise.
pub(crate) const STEADY: Duration = Duration::from_millis(100);

/// Returns the request target in the head of a request.
pub(crate) fn target(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// Serves HTTP/2 and gRPC, and echoes bodies and messages.
pub(crate) async fn serve_http2(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let Ok(mut connection) = handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(send_back(request, respond));
    }
}

async fn send_back(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let is_grpc = request.headers().get("content-type").is_some_and(|it| it == "application/grpc");
    let (mut body, mut bytes) = (request.into_body(), Vec::new());
    while let Some(Ok(data)) = body.data().await {
        let _ = body.flow_control().release_capacity(data.len());
        bytes.extend_from_slice(&data);
    }
    if let Ok(mut stream) = respond.send_response(Response::new(()), false) {
        let _ = stream.send_data(Bytes::from(bytes), !is_grpc);
        if is_grpc {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            let _ = stream.send_trailers(trailers);
        }
    }
}
