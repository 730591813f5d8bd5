//! What the tests share: servers on loopback.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use curtail_load::{Extent, Pace, Plan};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) const MS: u64 = 1_000_000;

/// A server that ends with its value.
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

    /// Connections accepted so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// This many requests in equal gaps.
    pub(crate) fn plan(&self, rate: f64, requests: u64) -> Plan {
        plan_for(self.address, rate, requests)
    }
}

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

/// The head of the next request, as text; `None` at the end of the connection.
pub(crate) async fn next_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        // One byte at a time, so that nothing of the next request is taken.
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

pub(crate) async fn say(stream: &mut TcpStream, text: &str) {
    // A client that is gone is the client's affair.
    let _ = stream.write_all(text.as_bytes()).await;
}

pub(crate) async fn answer(stream: &mut TcpStream, status: u16, body: &str) {
    let length = body.len();
    say(stream, &format!("HTTP/1.1 {status} \r\ncontent-length: {length}\r\n\r\n{body}")).await;
}

/// Answers every request with 200 and its own target.
pub(crate) async fn echo(mut stream: TcpStream) {
    while let Some(head) = next_head(&mut stream).await {
        answer(&mut stream, 200, target(&head)).await;
    }
}

/// The request target in the head of a request.
pub(crate) fn target(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}
