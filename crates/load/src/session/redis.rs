//! RESP2, the protocol of Redis (redis.io/docs/latest/develop/reference/protocol-spec). This module
//! determines only where a response ends and whether it is an error.
//!
//! A parser that builds values would restart with every read of a long response, and nested arrays
//! could overflow its stack. This scanner only counts and discards bytes, so it needs constant
//! memory and a single pass over the bytes.

use bytes::BytesMut;

use crate::session::fault::Fault;
use crate::session::pipelined::{Block, Scan, take_line, unknown};
use crate::session::{Body, Status, Whole};

/// Maximum length of a line, which is a simple string or an error.
const LINE_BYTES_MAX: usize = 64 << 10;
const DEPTH_MAX: usize = 64;
/// Minimum size of an array element, which has at least a type byte.
const ELEMENT_BYTES_MIN: u64 = 1;

const PROTOCOL: &str = "not RESP2, the protocol of Redis";

#[derive(Debug)]
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
        let (kind, rest) = line.split_first().ok_or_else(|| unknown(line, PROTOCOL))?;
        let whole = match (kind, number(rest)) {
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
            _ => return Err(unknown(line, PROTOCOL)),
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

fn number(digits: &[u8]) -> Option<i64> {
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
                let Some(line) = take_line(input, LINE_BYTES_MAX)? else { return Ok(None) };
                self.line(&line)?
            };
            if whole && self.element() {
                let status = self.status.take().unwrap_or(Status::Fine);
                return Ok(Some(Whole::new(status, self.body.bytes)));
            }
        }
    }
}
