//! Protocols whose responses arrive in the order of the requests: HTTP/1.1 (`http1`), memcached, Redis
//! and raw TCP. They differ only in how a response ends. A [`Scan`] finds the end of a response, or
//! determines that it is an error.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::BytesMut;

use crate::plan::protocol::ResponseEnd;
use crate::session::fault::Fault;
use crate::session::{Body, Out, Session, Sessions, Status, Token, Whole, printable};

/// Finds the end of a response without buffering it. Its result depends only on the bytes, not on
/// how they are split into reads.
pub(crate) trait Scan: Send {
    fn begin(&mut self, request: &[u8]);

    /// Consumes the response's bytes from the start of `input`. Returns the response once it is
    /// complete.
    fn scan(&mut self, input: &mut BytesMut) -> Result<Option<Whole>, Fault>;

    /// Returns the response, if the end of the connection completes it.
    fn end(&mut self) -> Option<Whole> {
        None
    }

    fn reusable(&self) -> bool {
        true
    }
}

pub(crate) struct Pipelined<S> {
    sessions: Arc<Sessions>,
    scan: S,
    /// Outstanding requests with their queries, in order.
    waiting: VecDeque<(Token, usize)>,
    begun: bool,
}

impl<S: Scan> Pipelined<S> {
    pub(crate) fn new(sessions: Arc<Sessions>, scan: S) -> Pipelined<S> {
        Pipelined { sessions, scan, waiting: VecDeque::new(), begun: false }
    }
}

impl<S: Scan> Session for Pipelined<S> {
    fn capacity(&self) -> usize {
        let room = self.sessions.protocol.pipeline.saturating_sub(self.waiting.len());
        if self.scan.reusable() { room } else { 0 }
    }

    fn send(&mut self, query: usize, token: Token, out: &mut Out) {
        assert!(self.capacity() > 0, "no more requests than the plan allows");
        let request = self.sessions.rendered(query);
        out.bytes.extend_from_slice(request);
        if self.waiting.is_empty() {
            self.scan.begin(request);
            self.begun = false;
        }
        self.waiting.push_back((token, query));
    }

    fn receive(&mut self, input: &mut BytesMut, out: &mut Out) -> Result<(), Fault> {
        while let Some(&(token, _)) = self.waiting.front() {
            self.begun |= !input.is_empty();
            let Some(whole) = self.scan.scan(input)? else { return Ok(()) };
            out.reply(token, Ok(whole));
            self.waiting.pop_front();
            self.begun = false;
            if let Some(&(_, query)) = self.waiting.front() {
                self.scan.begin(self.sessions.rendered(query));
            }
        }
        // Extraneous data would be mistaken for the response to the next request.
        if input.is_empty() { Ok(()) } else { Err(Fault::Surplus) }
    }

    fn end(&mut self, out: &mut Out) -> Fault {
        if let Some(&(token, _)) = self.waiting.front()
            && let Some(whole) = self.scan.end()
        {
            out.reply(token, Ok(whole));
            self.waiting.pop_front();
        }
        self.cut(Fault::Closed)
    }

    fn cut(&self, fault: Fault) -> Fault {
        let incomplete = !self.waiting.is_empty() && self.begun && matches!(fault, Fault::Closed);
        if incomplete { Fault::IncompleteMessage } else { fault }
    }

    fn abandon(&mut self, _: Token, _: &mut Out) -> bool {
        // A late response would be mistaken for the response to another request.
        false
    }

    fn reusable(&self) -> bool {
        self.scan.reusable()
    }
}

pub(crate) fn unknown(line: &[u8], protocol: &str) -> Fault {
    let line = printable(&String::from_utf8_lossy(line));
    Fault::Malformed(format!("`{line}` is {protocol}; is it the right port?"))
}

/// Removes a line from the start of `input` and strips its CR LF. `None` if the line is incomplete.
/// A line has at most `limit` bytes, including its ending.
pub(crate) fn take_line(input: &mut BytesMut, limit: usize) -> Result<Option<BytesMut>, Fault> {
    let within = input.len().min(limit);
    let Some(end) = memchr::memchr(b'\n', &input[..within]) else {
        let long =
            || Fault::Malformed(format!("a response contains a line of more than {limit} bytes"));
        return if within == limit { Err(long()) } else { Ok(None) };
    };
    let mut line = input.split_to(end + 1);
    line.truncate(end);
    match line.strip_suffix(b"\r") {
        Some(_) => line.truncate(end - 1),
        None => {
            return Err(Fault::Malformed("a response contains a line without CR LF".to_owned()));
        }
    }
    Ok(Some(line))
}

/// A data block of known length, followed by CR LF.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Block {
    left: u64,
}

impl Block {
    pub(crate) fn new(length: u64) -> Block {
        Block { left: length.saturating_add(2) }
    }

    /// Discards the block's bytes. Returns true once the block is complete.
    pub(crate) fn skip(&mut self, input: &mut BytesMut) -> Result<bool, Fault> {
        let data = self.left.saturating_sub(2).min(input.len() as u64);
        let _ = input.split_to(data as usize);
        self.left -= data;
        for (left, expected) in [(2, b'\r'), (1, b'\n')] {
            if self.left == left && !input.is_empty() {
                if input.split_to(1)[0] != expected {
                    return Err(Fault::Malformed(
                        "a response contains data that does not end with CR LF".to_owned(),
                    ));
                }
                self.left -= 1;
            }
        }
        Ok(self.left == 0)
    }
}

/// Raw TCP, in which a response ends after a fixed length or with a delimiter.
pub(crate) struct Tcp {
    end: ResponseEnd,
    body: Body,
}

impl Tcp {
    pub(crate) fn new(end: ResponseEnd, body: Body) -> Tcp {
        Tcp { end, body }
    }
}

impl Scan for Tcp {
    fn begin(&mut self, _: &[u8]) {
        self.body.bytes = 0;
    }

    fn scan(&mut self, input: &mut BytesMut) -> Result<Option<Whole>, Fault> {
        let (take, whole) = match &self.end {
            ResponseEnd::Bytes(bytes) => {
                let left = bytes - self.body.bytes;
                (left.min(input.len() as u64), input.len() as u64 >= left)
            }
            ResponseEnd::Until(end) => match memchr::memmem::find(input, end) {
                Some(at) => ((at + end.len()) as u64, true),
                // The last bytes may be the start of the delimiter.
                None => (input.len().saturating_sub(end.len() - 1) as u64, false),
            },
        };
        let _ = input.split_to(take as usize);
        self.body.add(take)?;
        Ok(whole.then(|| Whole::new(Status::Fine, self.body.bytes)))
    }
}

/// Maximum length of a line: a key of 250 bytes with some numbers, or an error message.
const MEMCACHED_LINE_MAX: usize = 2 << 10;

const MEMCACHED: &str = "not a response of memcached";

/// The text protocol of memcached (doc/protocol.txt in its repository). Only the part that finds the
/// end of a response is implemented. Values are discarded, so memory use is constant.
pub(crate) struct Memcached {
    /// Whether the response consists of values rather than a single line.
    values: bool,
    value: Option<Block>,
    body: Body,
}

impl Memcached {
    pub(crate) fn new(body: Body) -> Memcached {
        Memcached { values: false, value: None, body }
    }

    /// Handles a line. Returns the status if the line ends the response.
    fn line(&mut self, line: &[u8]) -> Result<Option<Status>, Fault> {
        let first = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        if matches!(first, b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR") {
            return Ok(Some(Status::refused(line)));
        }
        if !self.values {
            const KNOWN: [&[u8]; 7] = [
                b"STORED",
                b"NOT_STORED",
                b"EXISTS",
                b"NOT_FOUND",
                b"DELETED",
                b"TOUCHED",
                b"VERSION",
            ];
            let number = !first.is_empty() && first.iter().all(u8::is_ascii_digit);
            let known = KNOWN.contains(&first) || number;
            return if known { Ok(Some(Status::Fine)) } else { Err(unknown(line, MEMCACHED)) };
        }
        if line == b"END" {
            return Ok(Some(Status::Fine));
        }
        // VALUE <key> <flags> <bytes> [<cas unique>]
        let length = line.strip_prefix(b"VALUE ").and_then(|rest| {
            let length = rest.split(|byte| *byte == b' ').nth(2)?;
            std::str::from_utf8(length).ok()?.parse::<u64>().ok()
        });
        let length = length.ok_or_else(|| unknown(line, MEMCACHED))?;
        self.body.add(length)?;
        self.value = Some(Block::new(length));
        Ok(None)
    }
}

impl Scan for Memcached {
    fn begin(&mut self, request: &[u8]) {
        self.values = request.starts_with(b"get") || request.starts_with(b"gat");
        (self.value, self.body.bytes) = (None, 0);
    }

    fn scan(&mut self, input: &mut BytesMut) -> Result<Option<Whole>, Fault> {
        loop {
            if let Some(value) = &mut self.value {
                if !value.skip(input)? {
                    return Ok(None);
                }
                self.value = None;
            }
            let Some(line) = take_line(input, MEMCACHED_LINE_MAX)? else { return Ok(None) };
            if let Some(status) = self.line(&line)? {
                return Ok(Some(Whole::new(status, self.body.bytes)));
            }
        }
    }
}

/// Maximum length of a line, which is a simple string or an error.
const REDIS_LINE_MAX: usize = 64 << 10;
const DEPTH_MAX: usize = 64;
/// Minimum size of an array element, which has at least a type byte.
const ELEMENT_BYTES_MIN: u64 = 1;

const RESP2: &str = "not RESP2, the protocol of Redis";

/// RESP2, the protocol of Redis (redis.io/docs/latest/develop/reference/protocol-spec).
///
/// A parser that builds values would restart with every read of a long response, and nested arrays
/// could overflow its stack. This scanner only counts and discards bytes, so it needs constant
/// memory and a single pass over the bytes.
pub(crate) struct Redis {
    open: Vec<u64>,
    bulk: Option<Block>,
    body: Body,
    /// The status of the response, from its first line.
    status: Option<Status>,
}

impl Redis {
    pub(crate) fn new(body: Body) -> Redis {
        Redis { open: Vec::new(), bulk: None, body, status: None }
    }

    /// Handles a line. Returns true if the line completes an element.
    fn line(&mut self, line: &[u8]) -> Result<bool, Fault> {
        let (kind, rest) = line.split_first().ok_or_else(|| unknown(line, RESP2))?;
        let whole = match (kind, integer(rest)) {
            (b'+' | b'-', _) | (b':', Some(_)) | (b'$' | b'*', Some(-1)) | (b'*', Some(0)) => true,
            (b'$', Some(length @ 0..)) => {
                self.body.add(length.unsigned_abs())?;
                self.bulk = Some(Block::new(length.unsigned_abs()));
                false
            }
            (b'*', Some(elements @ 1..)) if self.open.len() < DEPTH_MAX => {
                let elements = elements.unsigned_abs();
                self.body.expect(elements.saturating_mul(ELEMENT_BYTES_MIN))?;
                self.open.push(elements);
                false
            }
            _ => return Err(unknown(line, RESP2)),
        };
        self.body.add(line.len() as u64)?;
        let status = if *kind == b'-' { Status::refused(rest) } else { Status::Fine };
        self.status.get_or_insert(status);
        Ok(whole)
    }

    fn element(&mut self) -> bool {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}

fn integer(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl Scan for Redis {
    fn begin(&mut self, _: &[u8]) {
        self.open.clear();
        (self.bulk, self.body.bytes, self.status) = (None, 0, None);
    }

    fn scan(&mut self, input: &mut BytesMut) -> Result<Option<Whole>, Fault> {
        loop {
            let whole = if let Some(bulk) = &mut self.bulk {
                if !bulk.skip(input)? {
                    return Ok(None);
                }
                self.bulk = None;
                true
            } else {
                let Some(line) = take_line(input, REDIS_LINE_MAX)? else { return Ok(None) };
                self.line(&line)?
            };
            if whole && self.element() {
                let status = self.status.take().unwrap_or(Status::Fine);
                return Ok(Some(Whole::new(status, self.body.bytes)));
            }
        }
    }
}
