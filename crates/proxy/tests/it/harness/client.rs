//! A client that writes bytes and reads responses.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::within;

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The whole head.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Did the body end as its framing says? False: the connection was cut inside.
    pub(crate) whole: bool,
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of a header that is there at most once.
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
    input: Vec<u8>,
    end: Option<End>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = within("a connection", TcpStream::connect(address)).await;
        Self { stream: stream.expect("a connection"), input: Vec::new(), end: None }
    }

    /// A client whose system buffers little for it.
    pub(crate) async fn narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        let stream = within("a connection", socket.connect(address)).await.expect("a connection");
        Self { stream, input: Vec::new(), end: None }
    }

    /// Sends bytes. The peer may have closed: then what it said is what counts.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = within("a write", self.stream.write_all(bytes.as_ref())).await;
    }

    /// Sends a GET for `target`.
    pub(crate) async fn ask(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    }

    /// Asks and reads the response.
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

    /// Ends the sending half, where there still is one.
    pub(crate) async fn finish(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().expect("still connected");
    }

    /// The next response, interim ones included.
    pub(crate) async fn response(&mut self) -> Response {
        within("a response", self.read_response(false)).await.expect("a response, not the end")
    }

    /// The response to a HEAD.
    pub(crate) async fn response_to_head(&mut self) -> Response {
        within("a response", self.read_response(true)).await.expect("a response, not the end")
    }

    /// Reads to the end of the connection: what still came, and how it ended.
    pub(crate) async fn rest(&mut self) -> (String, End) {
        within("the end of the connection", async {
            while self.end.is_none() && self.fill().await {}
        })
        .await;
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.input)).into_owned();
        (rest, self.end.expect("it ended"))
    }

    /// Checks that the connection ends without another byte.
    pub(crate) async fn is_closed(&mut self) {
        let (rest, _) = self.rest().await;
        assert_eq!(rest, "", "nothing more was to come");
    }

    /// Reads until the text has come.
    pub(crate) async fn hears(&mut self, text: &str) {
        within(text, async {
            while !String::from_utf8_lossy(&self.input).contains(text) {
                assert!(self.fill().await, "the end came before {text}");
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

    /// Bytes up to and with the first `mark`; none if the end came first.
    async fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        loop {
            let found = self.input.windows(mark.len()).position(|window| window == mark);
            if let Some(at) = found {
                return Some(self.input.drain(..at + mark.len()).collect());
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// So many bytes, or what came before the end.
    async fn take(&mut self, bytes: usize) -> (Vec<u8>, bool) {
        while self.input.len() < bytes && self.fill().await {}
        let whole = self.input.len() >= bytes;
        (self.input.drain(..bytes.min(self.input.len())).collect(), whole)
    }

    async fn read_response(&mut self, to_head: bool) -> Option<Response> {
        let head = self.until(b"\r\n\r\n").await?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {head}"));
        let mut response = Response { status, head, body: Vec::new(), whole: true };
        if to_head || status < 200 || status == 204 || status == 304 {
            return Some(response);
        }
        let length =
            response.header("content-length").map(|length| length.parse().expect("a number"));
        if response.header("transfer-encoding") == Some("chunked") {
            assert_eq!(length, None, "two lengths: {}", response.head);
            response.whole = self.chunks(&mut response.body).await;
        } else if let Some(length) = length {
            (response.body, response.whole) = self.take(length).await;
        } else {
            while self.fill().await {}
            response.body = std::mem::take(&mut self.input);
            response.whole = self.end == Some(End::Closed);
        }
        Some(response)
    }

    /// Reads a chunked body; false if it breaks off.
    async fn chunks(&mut self, body: &mut Vec<u8>) -> bool {
        while let Some(line) = self.until(b"\r\n").await {
            let size = String::from_utf8_lossy(&line[..line.len() - 2]).into_owned();
            let size = usize::from_str_radix(&size, 16).expect("a chunk size");
            let (chunk, whole) = self.take(size + 2).await;
            body.extend_from_slice(&chunk[..chunk.len().min(size)]);
            if !whole {
                return false;
            }
            assert_eq!(&chunk[size..], b"\r\n");
            if size == 0 {
                return true;
            }
        }
        false
    }
}
