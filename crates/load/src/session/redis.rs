//! RESP2, the protocol of Redis (redis.io/docs/latest/develop/reference/protocol-spec), of which only
//! the end of an answer matters, and whether it is an error.
//!
//! A parser that makes values of answers would begin anew with every read of a long one, and would
//! follow a server into arrays of arrays of arrays until its stack ends. Here bytes are counted and let
//! go: constant memory, every byte is looked at once.

use bytes::BytesMut;

use crate::session::Status;
use crate::session::fault::Fault;
use crate::session::turns::{Block, Scan, Scanned, take_line};

/// The longest line: simple strings and errors.
const LINE_BYTES_MAX: usize = 64 << 10;
const DEPTH_MAX: usize = 64;
/// What the shortest element of an array counts: its kind.
const ELEMENT_BYTES_MIN: u64 = 1;

#[derive(Debug)]
pub(crate) struct Redis {
    body_bytes_max: u64,
    /// Of each array that is open, the elements to come.
    open: Vec<u64>,
    bulk: Option<Block>,
    body_bytes: u64,
    /// Of the whole answer: decided by its first line.
    status: Option<Status>,
}

impl Redis {
    pub(crate) fn new(body_bytes_max: u64) -> Redis {
        Redis { body_bytes_max, open: Vec::new(), bulk: None, body_bytes: 0, status: None }
    }

    /// Takes note of a line. True if it is a whole element.
    fn line(&mut self, line: &[u8]) -> Result<bool, Fault> {
        let (kind, rest) = line.split_first().ok_or_else(|| unknown(line))?;
        let whole = match kind {
            b'+' | b'-' => true,
            b':' => number(rest).is_some(),
            b'$' | b'*' => match (kind, number(rest).ok_or_else(|| unknown(line))?) {
                (_, -1) | (b'*', 0) => true,
                (b'$', length @ 0..) => {
                    self.count(length.unsigned_abs())?;
                    self.bulk = Some(Block::new(length.unsigned_abs()));
                    false
                }
                (b'*', elements @ 1..) if self.open.len() < DEPTH_MAX => {
                    // What is announced is not waited for where it is too much.
                    let least = elements.unsigned_abs().saturating_mul(ELEMENT_BYTES_MIN);
                    if least > self.body_bytes_max.saturating_sub(self.body_bytes) {
                        return Err(Fault::TooLarge { limit: self.body_bytes_max });
                    }
                    self.open.push(elements.unsigned_abs());
                    false
                }
                _ => return Err(unknown(line)),
            },
            _ => return Err(unknown(line)),
        };
        if *kind == b':' && !whole {
            return Err(unknown(line));
        }
        self.count(line.len() as u64)?;
        let status = if *kind == b'-' { Status::refused(rest) } else { Status::Fine };
        self.status.get_or_insert(status);
        Ok(whole)
    }

    fn count(&mut self, bytes: u64) -> Result<(), Fault> {
        self.body_bytes = self.body_bytes.saturating_add(bytes);
        if self.body_bytes > self.body_bytes_max {
            return Err(Fault::TooLarge { limit: self.body_bytes_max });
        }
        Ok(())
    }

    /// An element is whole. True if the answer is.
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

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn unknown(line: &[u8]) -> Fault {
    let Status::Refused(line) = Status::refused(line) else { return Fault::Surplus };
    Fault::Malformed(format!("`{line}` is not RESP2, which Redis speaks; is it the right port?"))
}

impl Scan for Redis {
    fn begin(&mut self, _: &[u8]) {
        self.open.clear();
        (self.bulk, self.body_bytes, self.status) = (None, 0, None);
    }

    fn scan(&mut self, input: &mut BytesMut) -> Result<Option<Scanned>, Fault> {
        loop {
            let whole = if let Some(bulk) = &mut self.bulk {
                if !bulk.skip(input)? {
                    return Ok(None);
                }
                self.bulk = None;
                true
            } else {
                let Some(line) = take_line(input, LINE_BYTES_MAX)? else { return Ok(None) };
                self.line(&line)?
            };
            if whole && self.element() {
                let status = self.status.take().unwrap_or(Status::Fine);
                return Ok(Some(Scanned { status, body_bytes: self.body_bytes }));
            }
        }
    }
}
