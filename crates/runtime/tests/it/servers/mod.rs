//! Servers on raw sockets, and cells that use them.

use std::net::SocketAddr;

use curtail_kernel::{Limits, Policy, Scheduler, ServerId, Topology, rng};
use curtail_runtime::http::{Http, Request, Settings};
use curtail_runtime::{Cell, Query, Timers};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Starts a server that reads a request and passes the connection to a script, which may return it
/// for the next request.
pub(crate) async fn server<F, Fut>(script: F) -> (SocketAddr, mpsc::Receiver<usize>)
where
    F: Fn(TcpStream, usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<TcpStream>> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = mpsc::channel(64);
    tokio::spawn(async move {
        let script = std::sync::Arc::new(script);
        for connection in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let (seen, script) = (seen.clone(), script.clone());
            tokio::spawn(async move {
                while read_request(&mut stream).await {
                    let _ = seen.try_send(connection);
                    match script(stream, connection).await {
                        Some(same) => stream = same,
                        None => return,
                    }
                }
            });
        }
    });
    (address, requests)
}

pub(crate) async fn read_request(stream: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => return false,
        }
    }
    true
}

pub(crate) async fn say(mut stream: TcpStream, text: &str) -> Option<TcpStream> {
    stream.write_all(text.as_bytes()).await.ok()?;
    Some(stream)
}

/// Builds a kernel with one group.
pub(crate) fn kernel(policy: &str, servers: usize, limits: Limits) -> Box<dyn Scheduler> {
    let policy = Policy::parse(policy, None).unwrap();
    policy.build(&Topology::replicated(servers as u32, 1), limits, rng(1)).unwrap()
}

pub(crate) fn cell(address: SocketAddr, limits: Limits) -> Cell<Http> {
    cell_with(address, limits, Settings::default())
}

pub(crate) fn cell_with(address: SocketAddr, limits: Limits, settings: Settings) -> Cell<Http> {
    Cell::new(kernel("psq", 1, limits), Http::new([address], settings), Timers::precise())
}

pub(crate) fn get() -> Query<Request> {
    Query::new(Request::new("GET", "/", [("host", "x")], "", true).unwrap())
}

pub(crate) async fn idle(cell: &Cell<Http>) {
    while cell.look(|core| core.server(ServerId(0)).outstanding > 0) {
        tokio::task::yield_now().await;
    }
}

pub(crate) const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
