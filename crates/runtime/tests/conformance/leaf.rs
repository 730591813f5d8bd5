//! HTTP servers on loopback that respond to each request on demand.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use curtail_http::h1::server::Connection;
use curtail_http::h1::{Limits, Timeouts};
use curtail_net::Stream;
use curtail_runtime::http::{LoadReport, ORCA};
use curtail_sim::script::RESPONSE_BYTES;
use h2::RecvStream;
use h2::server::SendResponse;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::wire::Wire;

/// The timeout is longer than every scenario, because timeouts of idle connections are not tested
/// here.
const LONG: Duration = Duration::from_secs(365 * 86_400);

/// A request that has reached a server.
pub struct Call {
    /// The number of the server.
    pub server: u32,
    /// The number of the query.
    pub query: u32,
    response: Option<oneshot::Sender<LoadReport>>,
    gone: Arc<AtomicBool>,
}

impl Call {
    /// Makes the server write the response, with this load report.
    pub fn response(&mut self, report: LoadReport) {
        if let Some(response) = self.response.take() {
            // The error is ignored, because a client that has left is detected through its
            // connection
            // or its stream.
            let _ = response.send(report);
        }
    }

    /// Returns whether the server has seen the end of the connection, or of the HTTP/2 stream.
    pub fn has_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

/// Requests that have reached servers, in order of arrival.
#[derive(Clone, Default)]
pub struct Door(Arc<Mutex<Vec<Call>>>);

impl Door {
    /// Takes the first request for this query that has reached this server.
    pub fn take(&self, server: u32, query: u32) -> Option<Call> {
        let mut calls = self.0.lock().unwrap();
        let at = calls.iter().position(|call| (call.server, call.query) == (server, query))?;
        Some(calls.remove(at))
    }

    /// Returns the first request that has not been taken, if there is one.
    pub fn left_over(&self) -> Option<(u32, u32)> {
        self.0.lock().unwrap().first().map(|call| (call.server, call.query))
    }

    /// Starts a server that runs until its runtime ends.
    pub async fn open(&self, server: u32, wire: Wire) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
        let address = listener.local_addr().expect("it is bound");
        let door = self.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, wire, server, door.clone()));
            }
        });
        address
    }

    /// Lets a request in. Returns the body of the response and the load report when they are due,
    /// or `None` if the client leaves before that.
    async fn admit(
        &self,
        server: u32,
        target: &str,
        left: impl Future<Output = ()>,
    ) -> Option<(String, String)> {
        let query = target.trim_start_matches('/').parse().expect("a query's number");
        let (response, written) = oneshot::channel();
        let gone = Arc::new(AtomicBool::new(false));
        let call = Call { server, query, response: Some(response), gone: Arc::clone(&gone) };
        self.0.lock().unwrap().push(call);
        tokio::select! {
            report = written => {
                let report = report.ok()?.to_orca();
                Some((body(query, server), report))
            }
            () = left => {
                gone.store(true, Ordering::Relaxed);
                None
            }
        }
    }
}

/// Returns the body of a response, whose length is that of a simulated response.
pub fn body(query: u32, server: u32) -> String {
    let text = format!("q{query} by s{server}");
    format!("{text:<0$}", RESPONSE_BYTES as usize)
}

async fn serve(socket: TcpStream, wire: Wire, server: u32, door: Door) {
    // The frames of HTTP/2 would otherwise wait for acknowledgements of TCP, in real time.
    socket.set_nodelay(true).expect("a socket of TCP");
    let Some(stream) = wire.accept(socket.into(), server, LONG).await else { return };
    if wire.is_http2(server) {
        serve_http2(stream, server, door).await;
    } else {
        serve_http1(stream, server, door).await;
    }
}

async fn serve_http1(stream: Stream, server: u32, door: Door) {
    let timeouts = Timeouts { idle: LONG, head: LONG, body: LONG, write: LONG, linger: LONG };
    let mut connection = Connection::new(stream, Limits::default(), timeouts);
    while let Ok(Some(request)) = connection.next_request().await {
        let admitted = door.admit(server, request.head.target(), connection.peer_closed());
        let Some((body, report)) = admitted.await else { return };
        let fields = [("content-type", "text/plain"), (ORCA, &report)];
        if connection.respond(200, fields, body.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn serve_http2(stream: Stream, server: u32, door: Door) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(serve_stream(request, respond, server, door.clone()));
    }
}

async fn serve_stream(
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    server: u32,
    door: Door,
) {
    let reset = poll_fn(|context| respond.poll_reset(context).map(|_| ()));
    let admitted = door.admit(server, request.uri().path(), reset);
    let Some((body, report)) = admitted.await else { return };
    let head = http::Response::builder().header("content-length", body.len()).header(ORCA, report);
    // Errors are ignored, because a client that has left is detected through its stream.
    if let Ok(mut sending) = respond.send_response(head.body(()).expect("valid fields"), false) {
        let _ = sending.send_data(body.into(), true);
    }
}
