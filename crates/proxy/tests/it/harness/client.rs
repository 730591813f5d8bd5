//! A client that sends raw bytes and parses responses.

use std::net::SocketAddr;

use bytes::BytesMut;
use curtail_http::h1::{BodyDecoder, Decoded, Limits, parse_response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::within;

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The whole head, as text.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body ended as its framing requires. False if the connection ended in the middle
    /// of it.
    pub(crate) whole: bool,
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the value of a header that must not be repeated.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value);
        assert!(found.next().is_none(), "{name} is there twice: {}", self.head);
        value
    }

    pub(crate) fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Reset,
}

/// A connection to the proxy.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    input: BytesMut,
    end: Option<End>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = within("a connection", TcpStream::connect(address)).await;
        Self { stream: stream.expect("a connection"), input: BytesMut::new(), end: None }
    }

    /// Connects with a small receive buffer.
    pub(crate) async fn narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        Self::with(socket, address).await
    }

    /// Connects a socket.
    pub(crate) async fn with(socket: TcpSocket, address: SocketAddr) -> Self {
        let stream = within("a connection", socket.connect(address)).await.expect("a connection");
        Self { stream, input: BytesMut::new(), end: None }
    }

    /// Sends bytes. Ignores errors, because the peer may have closed after it responded.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = within("a write", self.stream.write_all(bytes.as_ref())).await;
    }

    /// Sends a GET for `target`.
    pub(crate) async fn ask(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    }

    /// Sends a GET and reads the response.
    pub(crate) async fn get(&mut self, target: &str) -> Response {
        self.ask(target).await;
        self.response().await
    }

    /// Posts a body and reads the response.
    pub(crate) async fn post(&mut self, target: &str, body: &str) -> Response {
        let length = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        self.send(head + body).await;
        self.response().await
    }

    /// Closes the sending half, if it is still open.
    pub(crate) async fn finish(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().expect("still connected");
    }

    /// Reads the next response, which may be an interim one.
    pub(crate) async fn response(&mut self) -> Response {
        within("a response", self.read_response(false)).await.expect("a response, not the end")
    }

    /// Reads the response to a HEAD.
    pub(crate) async fn response_to_head(&mut self) -> Response {
        within("a response", self.read_response(true)).await.expect("a response, not the end")
    }

    /// Reads to the end of the connection. Returns the remaining text, and how the connection
    /// ended.
    pub(crate) async fn rest(&mut self) -> (String, End) {
        within("the end of the connection", async {
            while self.end.is_none() && self.fill().await {}
        })
        .await;
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.input)).into_owned();
        (rest, self.end.expect("it ended"))
    }

    /// Checks that no more bytes arrive before the connection ends.
    pub(crate) async fn is_closed(&mut self) {
        let (rest, _) = self.rest().await;
        assert_eq!(rest, "", "no more bytes were expected");
    }

    /// Reads until the text has arrived.
    pub(crate) async fn receives(&mut self, text: &str) {
        within(text, async {
            while !String::from_utf8_lossy(&self.input).contains(text) {
                assert!(self.fill().await, "the connection ended before {text}");
            }
        })
        .await;
    }

    async fn fill(&mut self) -> bool {
        let mut block = [0; 64 << 10];
        match self.stream.read(&mut block).await {
            Ok(0) => self.end = Some(End::Closed),
            Ok(bytes) => self.input.extend_from_slice(&block[..bytes]),
            Err(_) => self.end = Some(End::Reset),
        }
        self.end.is_none()
    }

    async fn read_response(&mut self, to_head: bool) -> Option<Response> {
        let limits = Limits::default();
        let head = loop {
            match parse_response(&mut self.input, &limits, to_head).expect("a response") {
                Some(head) => break head,
                None if self.fill().await => {}
                None => return None,
            }
        };
        let mut decoder = BodyDecoder::new(head.framing(), &limits);
        let mut body = Vec::new();
        let whole = loop {
            match decoder.decode(&mut self.input) {
                Ok(Decoded::Data(data)) => body.extend_from_slice(&data),
                Ok(Decoded::End) => break true,
                Ok(Decoded::NeedMore) if self.fill().await => {}
                Ok(Decoded::NeedMore) => {
                    break self.end == Some(End::Closed) && decoder.eof().is_ok();
                }
                Err(_) => break false,
            }
        };
        let text = String::from_utf8_lossy;
        let mut lines = format!("{} {}\r\n", head.status(), text(head.reason()));
        for (name, value) in head.headers() {
            lines += &format!("{name}: {}\r\n", text(value));
        }
        Some(Response { status: head.status(), head: lines, body, whole })
    }
}
