//! HTTP servers on loopback that respond to each request on demand.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curtail_http::h1::server::Connection;
use curtail_http::h1::{Limits, Timeouts};
use curtail_runtime::http::{LoadReport, ORCA};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

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
            // connection.
            let _ = response.send(report);
        }
    }

    /// Returns whether the server has seen that its client closed or reset the connection.
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
    pub async fn open(&self, server: u32) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
        let address = listener.local_addr().expect("it is bound");
        let door = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, server, door.clone()));
            }
        });
        address
    }
}

async fn serve(stream: TcpStream, server: u32, door: Door) {
    let timeouts = Timeouts { idle: LONG, head: LONG, body: LONG, write: LONG, linger: LONG };
    let mut connection = Connection::new(stream, Limits::default(), timeouts);
    while let Ok(Some(request)) = connection.next_request().await {
        let query =
            request.head.target().trim_start_matches('/').parse().expect("a query's number");
        let (response, written) = oneshot::channel();
        let gone = Arc::new(AtomicBool::new(false));
        let call = Call { server, query, response: Some(response), gone: Arc::clone(&gone) };
        door.0.lock().unwrap().push(call);
        let report = tokio::select! {
            written = written => match written {
                Ok(report) => report,
                Err(_) => return,
            },
            () = connection.peer_closed() => {
                gone.store(true, Ordering::Relaxed);
                return;
            }
        };
        let body = format!("q{query} by s{server}");
        let report = report.to_orca();
        let fields = [("content-type", "text/plain"), (ORCA, &report)];
        if connection.respond(200, fields, body.as_bytes()).await.is_err() {
            return;
        }
    }
}
