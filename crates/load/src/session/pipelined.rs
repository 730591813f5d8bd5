//! Protocols whose responses arrive in the order of the requests: HTTP/1.1, memcached, Redis and
//! raw TCP. They differ only in how a response ends. A [`Scan`] finds the end of a response.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::BytesMut;

use crate::plan::protocol::ResponseEnd;
use crate::session::fault::Fault;
use crate::session::{Body, Out, Session, Sessions, Status, Token, Whole, printable};

/// Finds the end of a response without buffering it. Its result depends only on the bytes, not on
/// how they are split into reads.
pub(crate) trait Scan: Debug + Send {
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

#[derive(Debug)]
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
        let room = self.sessions.pipeline.saturating_sub(self.waiting.len());
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
    let line = printable(line);
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
#[derive(Debug)]
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
