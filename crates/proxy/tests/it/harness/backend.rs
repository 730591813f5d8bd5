//! Test servers that respond correctly, incorrectly, partially, twice or not at all, and record the
//! requests that they receive.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::eventually;

/// A request, as a server received it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The number of the connection on which the request arrived, counted from 0.
    pub(crate) connection: usize,
    /// The whole head, as text.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// Returns the values of a header.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, v)| v).collect()
    }
}

/// An action of a server after it has read a request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends bytes.
    Say(Vec<u8>),
    /// Waits for [`TestServer::open`].
    Gate,
    /// Waits until the peer closes the connection.
    Hang,
    /// Sends this number of bytes, as fast as the peer accepts them.
    Flood(usize),
    /// Closes the connection.
    Close,
}

pub(crate) fn say(text: impl AsRef<[u8]>) -> Step {
    Step::Say(text.as_ref().to_vec())
}

/// Decides what a server does about a request.
pub(crate) trait Script<R, S>: Fn(&R) -> Vec<S> + Send + Sync + 'static {}

impl<R, S, T: Fn(&R) -> Vec<S> + Send + Sync + 'static> Script<R, S> for T {}

async fn free_port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a port")
}

/// What a server and the tasks of its connections share.
#[derive(Debug)]
pub(crate) struct Shared<R> {
    seen: Mutex<Vec<R>>,
    pub(super) gate: Semaphore,
    accepted: AtomicUsize,
    /// Connections that ended because of the peer.
    pub(super) closed: AtomicUsize,
    flooded: AtomicUsize,
}

impl<R> Shared<R> {
    /// Records a request.
    pub(crate) fn add(&self, request: R) {
        self.seen.lock().expect("no panic under it").push(request);
    }
}

/// A server in the test, which records the requests that it receives as `R`.
#[derive(Debug)]
pub(crate) struct TestServer<R> {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared<R>>,
    accepting: JoinHandle<()>,
}

impl<R> Drop for TestServer<R> {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl<R: Clone + Send + 'static> TestServer<R> {
    /// Starts a server that passes each connection to `serve`, with its number from 0.
    pub(crate) async fn serving<F: Future<Output = ()> + Send + 'static>(
        serve: impl Fn(TcpStream, usize, Arc<Shared<R>>) -> F + Send + 'static,
    ) -> Self {
        Self::on(free_port().await, serve)
    }

    fn on<F: Future<Output = ()> + Send + 'static>(
        listener: TcpListener,
        serve: impl Fn(TcpStream, usize, Arc<Shared<R>>) -> F + Send + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            gate: Semaphore::new(0),
            accepted: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
            flooded: AtomicUsize::new(0),
        });
        let state = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = state.accepted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, number, Arc::clone(&state)));
            }
        });
        Self { address, shared, accepting }
    }

    /// Lets this number of requests continue past the gate of the script.
    pub(crate) fn open(&self, requests: usize) {
        self.shared.gate.add_permits(requests);
    }

    /// Returns all requests received so far.
    pub(crate) fn seen(&self) -> Vec<R> {
        self.shared.seen.lock().expect("no panic under it").clone()
    }

    /// Waits until the server has received N requests.
    pub(crate) async fn has_seen(&self, requests: usize) {
        eventually("requests at a server", async || self.seen().len() >= requests).await;
        assert_eq!(self.seen().len(), requests);
    }

    pub(crate) fn closed(&self) -> usize {
        self.shared.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

/// A scripted server of HTTP/1.1.
pub(crate) type Backend = TestServer<Seen>;

impl Backend {
    /// Starts a server that plays `script` for each request.
    pub(crate) async fn new(script: impl Script<Seen, Step>) -> Self {
        Self::playing(free_port().await, script)
    }

    fn playing(listener: TcpListener, script: impl Script<Seen, Step>) -> Self {
        let script = Arc::new(script);
        Self::on(listener, move |stream, number, shared| {
            serve(stream, number, Arc::clone(&script), shared)
        })
    }

    /// Starts a server that always sends the same text and keeps its connections open.
    pub(crate) async fn responding(text: impl AsRef<[u8]>) -> Self {
        let step = say(text);
        Self::new(move |_| vec![step.clone()]).await
    }

    /// Starts a server that sends this text on demand.
    pub(crate) async fn gated(text: impl AsRef<[u8]>) -> Self {
        let step = say(text);
        Self::new(move |_| vec![Step::Gate, step.clone()]).await
    }

    /// Starts a server that never responds.
    pub(crate) async fn silent() -> Self {
        Self::new(|_| vec![Step::Hang]).await
    }

    pub(crate) fn flooded(&self) -> usize {
        self.shared.flooded.load(Ordering::SeqCst)
    }
}

/// An address where nothing listens until this is dropped or revived.
#[derive(Debug)]
pub(crate) struct Dead {
    pub(crate) address: SocketAddr,
    socket: TcpSocket,
}

pub(crate) fn dead() -> Dead {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    Dead { address: socket.local_addr().expect("an address"), socket }
}

impl Dead {
    /// Starts a server at the address.
    pub(crate) fn revive(self, script: impl Script<Seen, Step>) -> Backend {
        Backend::playing(self.socket.listen(16).expect("it is bound"), script)
    }
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    script: Arc<impl Script<Seen, Step>>,
    shared: Arc<Shared<Seen>>,
) {
    while let Some(request) = read(&mut stream, connection).await {
        let steps = script(&request);
        shared.add(request);
        for step in steps {
            if !play(&mut stream, step, &shared).await {
                return;
            }
        }
    }
    shared.closed.fetch_add(1, Ordering::SeqCst);
}

/// Reads a request. Returns `None` when the peer has closed.
async fn read(stream: &mut TcpStream, connection: usize) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut seen = Seen { connection, head, body: Vec::new() };
    if seen.header("transfer-encoding") == ["chunked"] {
        seen.body = read_chunks(stream).await?;
        return Some(seen);
    }
    let length = seen.header("content-length").first().and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    seen.body = body;
    Some(seen)
}

/// Reads a body in chunks, without trailers.
async fn read_chunks(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(stream.read_u8().await.ok()?);
        }
        let size = usize::from_str_radix(std::str::from_utf8(&line).ok()?.trim_end(), 16).ok()?;
        let mut chunk = vec![0; size + 2];
        stream.read_exact(&mut chunk).await.ok()?;
        body.extend_from_slice(&chunk[..size]);
        if size == 0 {
            return Some(body);
        }
    }
}

/// Plays a step. Returns false when the connection has ended.
async fn play(stream: &mut TcpStream, step: Step, shared: &Shared<Seen>) -> bool {
    let mut extraneous = [0];
    match step {
        Step::Say(bytes) => stream.write_all(&bytes).await.is_ok(),
        Step::Close => false,
        Step::Gate => tokio::select! {
            permit = shared.gate.acquire() => {
                permit.expect("never closed").forget();
                true
            }
            _ = stream.read(&mut extraneous) => {
                shared.closed.fetch_add(1, Ordering::SeqCst);
                false
            }
        },
        Step::Hang => {
            let _ = stream.read(&mut extraneous).await;
            shared.closed.fetch_add(1, Ordering::SeqCst);
            false
        }
        Step::Flood(bytes) => {
            let block = [b'x'; 16 << 10];
            let mut left = bytes;
            while left > 0 {
                match stream.write(&block[..left.min(block.len())]).await {
                    Ok(written) if written > 0 => {
                        left -= written;
                        shared.flooded.fetch_add(written, Ordering::SeqCst);
                    }
                    _ => {
                        shared.closed.fetch_add(1, Ordering::SeqCst);
                        return false;
                    }
                }
            }
            true
        }
    }
}
