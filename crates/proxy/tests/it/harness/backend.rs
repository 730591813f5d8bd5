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
    /// Waits for [`Backend::open`].
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

#[derive(Debug)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    gate: Semaphore,
    /// Connections that the peer closed or reset, or on which it sent unexpected bytes.
    closed: AtomicUsize,
    accepted: AtomicUsize,
    flooded: AtomicUsize,
}

/// A scripted server.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

type Script = dyn Fn(&Seen) -> Vec<Step> + Send + Sync;

impl Backend {
    /// Starts a server that plays `script` for each request.
    pub(crate) async fn new(script: impl Fn(&Seen) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.expect("a port"), script)
    }

    fn on(
        listener: TcpListener,
        script: impl Fn(&Seen) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            gate: Semaphore::new(0),
            closed: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            flooded: AtomicUsize::new(0),
        });
        let (script, state) = (Arc::new(script), Arc::clone(&shared));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = state.accepted.fetch_add(1, Ordering::SeqCst);
                let (script, state) = (Arc::clone(&script), Arc::clone(&state));
                tokio::spawn(async move { serve(stream, number, &*script, &state).await });
            }
        });
        Self { address, shared, accepting }
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

    /// Lets this number of requests continue past [`Step::Gate`].
    pub(crate) fn open(&self, requests: usize) {
        self.shared.gate.add_permits(requests);
    }

    /// Returns all requests received so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("no panic under it").clone()
    }

    pub(crate) fn closed(&self) -> usize {
        self.shared.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn flooded(&self) -> usize {
        self.shared.flooded.load(Ordering::SeqCst)
    }

    /// Waits until the server has received N requests.
    pub(crate) async fn has_seen(&self, requests: usize) {
        eventually("requests at a server", async || self.seen().len() >= requests).await;
        assert_eq!(self.seen().len(), requests);
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
    pub(crate) fn revive(
        self,
        script: impl Fn(&Seen) -> Vec<Step> + Send + Sync + 'static,
    ) -> Backend {
        Backend::on(self.socket.listen(16).expect("it is bound"), script)
    }
}

async fn serve(mut stream: TcpStream, connection: usize, script: &Script, shared: &Shared) {
    while let Some(request) = read(&mut stream, connection).await {
        let steps = script(&request);
        shared.seen.lock().expect("no panic under it").push(request);
        for step in steps {
            if !play(&mut stream, step, shared).await {
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
async fn play(stream: &mut TcpStream, step: Step, shared: &Shared) -> bool {
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
