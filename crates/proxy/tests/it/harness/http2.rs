//! HTTP/2: a client and a scripted server on the crate `h2`, and raw frames for messages that the
//! crate does not send.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::backend::{Script, Shared, TestServer};
use super::within;

/// A complete response.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Returns the values of a field.
pub(crate) fn values<'a>(fields: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    fields.get_all(name).iter().map(|value| value.to_str().expect("ASCII")).collect()
}

/// A stream whose response is awaited.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) response: ResponseFuture,
    pub(crate) sending: SendStream<Bytes>,
}

impl Stream {
    /// Reads the whole response.
    pub(crate) async fn reply(self) -> Result<Reply, h2::Error> {
        let Self { response, sending: _sending } = self;
        within("a reply", async {
            let (head, mut data) = response.await?.into_parts();
            let mut body = Vec::new();
            while let Some(piece) = data.data().await {
                let piece = piece?;
                data.flow_control().release_capacity(piece.len())?;
                body.extend_from_slice(&piece);
            }
            let trailers = data.trailers().await?;
            Ok(Reply { status: head.status.as_u16(), fields: head.headers, body, trailers })
        })
        .await
    }

    /// Resets the stream.
    pub(crate) fn reset(mut self, reason: Reason) {
        self.sending.send_reset(reason);
    }
}

/// Creates a request without a body.
pub(crate) fn request(method: &str, path: &str) -> Request<()> {
    let request = Request::builder().method(method).uri(format!("http://x{path}"));
    request.version(http::Version::HTTP_2).body(()).expect("a request")
}

/// A connection to the proxy.
#[derive(Debug)]
pub(crate) struct Http2Client {
    sender: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

impl Drop for Http2Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Http2Client {
    /// Connects with prior knowledge.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::with_window(address, 1 << 20).await
    }

    /// Connects. The proxy may send `window` bytes on each stream before they have been read.
    pub(crate) async fn with_window(address: SocketAddr, window: u32) -> Self {
        let stream = within("a connection", TcpStream::connect(address)).await;
        Self::over(stream.expect("a connection"), window).await
    }

    pub(crate) async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        window: u32,
    ) -> Self {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(1 << 24);
        builder.enable_push(false);
        let handshake = within("a handshake", builder.handshake(stream)).await;
        let (sender, connection) = handshake.expect("HTTP/2");
        Self { sender, connection: tokio::spawn(connection) }
    }

    /// Sends the head of a request.
    pub(crate) async fn start(&self, request: Request<()>, ends: bool) -> Stream {
        self.try_start(request, ends).await.expect("it can be sent")
    }

    pub(crate) async fn try_start(
        &self,
        request: Request<()>,
        ends: bool,
    ) -> Result<Stream, h2::Error> {
        let mut sender = within("a free stream", self.sender.clone().ready()).await?;
        let (response, sending) = sender.send_request(request, ends)?;
        Ok(Stream { response, sending })
    }

    /// Sends a request and reads the response.
    pub(crate) async fn send(&self, request: Request<()>, body: &[u8]) -> Result<Reply, h2::Error> {
        let mut stream = self.try_start(request, body.is_empty()).await?;
        if !body.is_empty() {
            stream.sending.send_data(Bytes::copy_from_slice(body), true)?;
        }
        stream.reply().await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(request("GET", path), b"").await.expect("a reply")
    }

    pub(crate) async fn post(&self, path: &str, body: &[u8]) -> Reply {
        self.send(request("POST", path), body).await.expect("a reply")
    }

    /// Waits until the proxy has closed the connection.
    pub(crate) async fn ended(&mut self) -> Result<(), h2::Error> {
        within("the end of the connection", &mut self.connection).await.expect("no panic")
    }
}

/// A request, as a server received it.
#[derive(Clone, Debug)]
pub(crate) struct Seen2 {
    /// The number of the connection, counted from 0.
    pub(crate) connection: usize,
    pub(crate) head: http::request::Parts,
    pub(crate) body: Vec<u8>,
    /// Is set when the stream ends early, to the reason if the peer sent RST_STREAM.
    reset: Arc<OnceLock<Option<Reason>>>,
}

impl Seen2 {
    pub(crate) fn path(&self) -> &str {
        self.head.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str)
    }

    pub(crate) fn authority(&self) -> &str {
        self.head.uri.authority().map_or("", http::uri::Authority::as_str)
    }

    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        values(&self.head.headers, name)
    }
}

/// An action of a server after it has received a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Sends the head of a response, also of an interim one. The flag ends the stream.
    Head(u16, Vec<(&'static str, String)>, bool),
    Data(Vec<u8>, bool),
    Trailers(Vec<(&'static str, &'static str)>),
    /// Waits for [`TestServer::open`].
    Gate,
    /// Waits until the peer resets the stream.
    Hang,
    Reset(Reason),
    /// Ends the TCP connection without a word.
    Close,
}

/// A response with a body and its length.
pub(crate) fn whole(body: &str) -> Vec<Act> {
    let length = ("content-length", body.len().to_string());
    vec![Act::Head(200, vec![length], false), Act::Data(body.into(), true)]
}

/// A scripted server of HTTP/2.
pub(crate) type Backend2 = TestServer<Seen2>;

impl Backend2 {
    /// Starts a server that plays `script` for each request.
    pub(crate) async fn new(script: impl Script<Seen2, Act>) -> Self {
        Self::limited(100, script).await
    }

    /// Starts a server that permits this number of concurrent streams on a connection.
    pub(crate) async fn limited(streams: u32, script: impl Script<Seen2, Act>) -> Self {
        let script = Arc::new(script);
        Self::serving(move |stream, number, shared| {
            let script = Arc::clone(&script);
            async move {
                serve(stream, number, streams, script, &shared).await;
                shared.closed.fetch_add(1, Ordering::SeqCst);
            }
        })
        .await
    }

    /// Starts a server that always sends the same body.
    pub(crate) async fn responding(body: &'static str) -> Self {
        Self::new(move |_| whole(body)).await
    }

    /// Returns the path of each stream that ended early, and the reason if the peer sent
    /// RST_STREAM.
    pub(crate) fn resets(&self) -> Vec<(String, Option<Reason>)> {
        let early = |seen: Seen2| seen.reset.get().map(|reason| (seen.path().to_owned(), *reason));
        self.seen().into_iter().filter_map(early).collect()
    }
}

async fn serve(
    stream: TcpStream,
    number: usize,
    streams: u32,
    script: Arc<impl Script<Seen2, Act>>,
    shared: &Arc<Shared<Seen2>>,
) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(streams).initial_window_size(1 << 20);
    let Ok(mut connection) = builder.handshake(stream).await else { return };
    let (close, mut closing) = mpsc::channel(1);
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            _ = closing.recv() => return,
        };
        let Some(Ok((request, respond))) = accepted else { return };
        let (script, shared, close) = (Arc::clone(&script), Arc::clone(shared), close.clone());
        tokio::spawn(async move {
            let (head, mut data) = request.into_parts();
            let mut body = Vec::new();
            while let Some(Ok(piece)) = data.data().await {
                let _ = data.flow_control().release_capacity(piece.len());
                body.extend_from_slice(&piece);
            }
            let seen = Seen2 { connection: number, head, body, reset: Arc::default() };
            shared.add(seen.clone());
            play(script(&seen), respond, &shared.gate, &seen.reset, close).await;
        });
    }
}

async fn play(
    steps: Vec<Act>,
    mut respond: SendResponse<Bytes>,
    gate: &Semaphore,
    reset: &OnceLock<Option<Reason>>,
    close: mpsc::Sender<()>,
) {
    let mut sending: Option<SendStream<Bytes>> = None;
    for step in steps {
        match step {
            Act::Head(status, fields, ends) => {
                let mut response = Response::builder().status(status);
                for (name, value) in fields {
                    response = response.header(name, value);
                }
                let response = response.body(()).expect("a response");
                if status < 200 {
                    respond.send_informational(response).expect("it can be sent");
                } else {
                    sending = respond.send_response(response, ends).ok();
                }
            }
            Act::Data(data, ends) => {
                let _ = sending.as_mut().expect("a head").send_data(data.into(), ends);
            }
            Act::Trailers(fields) => {
                let mut trailers = HeaderMap::new();
                for (name, value) in fields {
                    trailers.append(name, value.parse().expect("a value"));
                }
                let _ = sending.as_mut().expect("a head").send_trailers(trailers);
            }
            Act::Gate | Act::Hang => {
                let ended = poll_fn(|context| match &mut sending {
                    Some(sending) => sending.poll_reset(context),
                    None => respond.poll_reset(context),
                });
                let is_gate = matches!(step, Act::Gate);
                tokio::select! {
                    permit = gate.acquire(), if is_gate => permit.expect("never closed").forget(),
                    reason = ended => {
                        let _ = reset.set(reason.ok());
                        return;
                    }
                }
            }
            Act::Reset(reason) => match &mut sending {
                Some(sending) => sending.send_reset(reason),
                None => respond.send_reset(reason),
            },
            Act::Close => {
                // The connection sends what it has, and ends.
                tokio::task::yield_now().await;
                let _ = close.send(()).await;
            }
        }
    }
}

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A frame (RFC 9113 §4.1).
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// Encodes a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes a GOAWAY frame with NO_ERROR.
pub(crate) fn goaway(last: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

/// Encodes fields as literals without indexing (RFC 7541 §6.2.2).
pub(crate) fn hpack(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name.as_bytes(), value] {
            block.push(u8::try_from(text.len()).expect("a short text"));
            block.extend_from_slice(text);
        }
    }
    block
}

/// Reads a frame. Returns `None` when the connection has ended.
pub(crate) async fn read_frame(stream: &mut TcpStream) -> Option<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload).await.ok()?;
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some(Frame { kind: head[3], flags: head[4], stream: id, payload })
}

/// What became of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Status(u16),
    Reset(u32),
    /// The connection has ended.
    Ended,
}

/// A client that sends frames.
#[derive(Debug)]
pub(crate) struct RawClient {
    pub(crate) stream: TcpStream,
}

impl RawClient {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = within("a connection", TcpStream::connect(address)).await;
        let mut client = Self { stream: stream.expect("a connection") };
        client.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await;
        client
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = within("a write", self.stream.write_all(bytes)).await;
    }

    /// Reads until a stream has a response, or has been reset.
    pub(crate) async fn fate(&mut self, stream: u32) -> Fate {
        loop {
            let frame = within("a frame", read_frame(&mut self.stream)).await;
            let Some(frame) = frame else { return Fate::Ended };
            match frame.kind {
                HEADERS if frame.stream == stream => return Fate::Status(status(&frame.payload)),
                RST_STREAM if frame.stream == stream => {
                    let code = frame.payload.try_into().expect("four bytes");
                    return Fate::Reset(u32::from_be_bytes(code));
                }
                _ => {}
            }
        }
    }
}

/// Decodes the status at the beginning of a block of fields.
fn status(block: &[u8]) -> u16 {
    const INDEXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    // An encoder may begin with an update of the size of its table.
    let block = &block[block.iter().take_while(|&&byte| byte >> 5 == 1).count()..];
    if block[0] >> 7 == 1 {
        return INDEXED[usize::from(block[0] & 0x7f) - 8];
    }
    let text = &block[2..2 + usize::from(block[1] & 0x7f)];
    if block[1] >> 7 == 0 {
        return std::str::from_utf8(text).expect("digits").parse().expect("a status");
    }
    // The codes of digits (RFC 7541, Appendix B): 0 to 2 have five bits, 3 to 9 have six.
    let bits = text.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
    let mut left = 8 * text.len();
    let mut status = 0;
    for _ in 0..3 {
        let short = bits >> (left - 5) & 0x1f;
        let (digit, length) =
            if short <= 2 { (short, 5) } else { ((bits >> (left - 6) & 0x3f) - 0x19 + 3, 6) };
        left -= length;
        status = status * 10 + u16::try_from(digit).expect("a digit");
    }
    status
}

/// Starts a server that passes the frames of each connection to `script`, with the number of the
/// connection. The script returns the bytes that are sent. The connection ends when it returns
/// `None`.
pub(crate) async fn raw_backend(
    script: impl Fn(usize, &Frame) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> TestServer<Frame> {
    let script = Arc::new(script);
    TestServer::serving(move |mut stream, number, _| {
        let script = Arc::clone(&script);
        async move {
            let mut preface = [0; 24];
            stream.read_exact(&mut preface).await.expect("a preface");
            assert_eq!(preface, PREFACE);
            let _ = stream.write_all(&frame(SETTINGS, 0, 0, &[])).await;
            while let Some(received) = read_frame(&mut stream).await {
                if matches!(received.kind, SETTINGS | PING) && received.flags == 0 {
                    let same = if received.kind == PING { &received.payload[..] } else { &[] };
                    let _ = stream.write_all(&frame(received.kind, 1, 0, same)).await;
                }
                let Some(bytes) = script(number, &received) else { return };
                let _ = stream.write_all(&bytes).await;
            }
        }
    })
    .await
}

pub(crate) const H2: &str = "protocol = \"h2\"";
pub(crate) const SLOTS: &str = "protocol = \"h2\"\nslots = 99\ncancel = \"reset\"";

/// A GET as fields.
pub(crate) const GET: [(&str, &[u8]); 4] =
    [(":method", b"GET"), (":scheme", b"http"), (":authority", b"x"), (":path", b"/")];
