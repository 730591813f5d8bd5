//! Servers on loopback that speak HTTP, and respond to each request on demand.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curtail_http1::server::Connection;
use curtail_http1::{Limits, Timeouts};
use curtail_runtime::http::{LoadReport, ORCA};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Longer than every scenario: that idle connections end is not what is looked at here.
const LONG: Duration = Duration::from_secs(365 * 86_400);

/// A request that has reached a server.
pub struct Call {
    /// Of the server.
    pub server: u32,
    /// What was asked for.
    pub query: u32,
    response: Option<oneshot::Sender<LoadReport>>,
    gone: Arc<AtomicBool>,
}

impl Call {
    /// The server writes the response, and says how it is.
    pub fn response(&mut self, report: LoadReport) {
        if let Some(response) = self.response.take() {
            // Who has gone in the meantime is recognized by its connection.
            let _ = response.send(report);
        }
    }

    /// The server has seen that its client closed or reset the connection.
    pub fn has_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

/// Requests that have reached servers, in the order in which they did.
#[derive(Clone, Default)]
pub struct Door(Arc<Mutex<Vec<Call>>>);

impl Door {
    /// Takes the first request for a query that has reached a server.
    pub fn take(&self, server: u32, query: u32) -> Option<Call> {
        let mut calls = self.0.lock().unwrap();
        let at = calls.iter().position(|call| (call.server, call.query) == (server, query))?;
        Some(calls.remove(at))
    }

    /// A request that nobody took.
    pub fn left_over(&self) -> Option<(u32, u32)> {
        self.0.lock().unwrap().first().map(|call| (call.server, call.query))
    }

    /// Opens a server, which lives as long as its runtime.
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
