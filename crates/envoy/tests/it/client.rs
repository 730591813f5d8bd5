//! A client that sends one request per connection.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a GET request and waits for its response. The status is 0 if there is none.
pub(crate) fn get(to: SocketAddr, target: &str) -> Response {
    send(to, "GET", target, b"")
}

/// Sends a request with a body of a declared length.
pub(crate) fn send(to: SocketAddr, method: &str, target: &str, body: &[u8]) -> Response {
    send_with(to, method, target, "accept: */*", body)
}

/// Sends a request with a header field.
pub(crate) fn send_with(
    to: SocketAddr,
    method: &str,
    target: &str,
    field: &str,
    body: &[u8],
) -> Response {
    let none = Response { status: 0, body: Vec::new() };
    let Ok(mut stream) = TcpStream::connect(to) else { return none };
    let length = match body.len() {
        0 => String::new(),
        length => format!("content-length: {length}\r\n"),
    };
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{field}\r\n{length}\r\n"
    );
    let mut received = Vec::new();
    // The other side may respond and close before it has read everything.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let _ = stream.read_to_end(&mut received);
    parse(&received).unwrap_or(none)
}

fn parse(received: &[u8]) -> Option<Response> {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&received[..end]);
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut body = received[end + 4..].to_vec();
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        body = unchunked(&body)?;
    }
    Some(Response { status, body })
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(end + 2..end + 2 + size)?);
        rest = rest.get(end + 4 + size..)?;
    }
}
