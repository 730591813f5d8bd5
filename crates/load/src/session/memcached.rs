//! The text protocol of memcached (doc/protocol.txt in its repository). Only the part that finds
//! the end of a response is implemented. Values are discarded, so memory use is constant.

use bytes::BytesMut;

use crate::session::fault::Fault;
use crate::session::pipelined::{Block, Scan, take_line, unknown};
use crate::session::{Body, Status, Whole};

/// Maximum length of a line: a key of 250 bytes with some numbers, or an error message.
const LINE_BYTES_MAX: usize = 2 << 10;

const PROTOCOL: &str = "not a response of memcached";

#[derive(Debug)]
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
            return if known { Ok(Some(Status::Fine)) } else { Err(unknown(line, PROTOCOL)) };
        }
        if line == b"END" {
            return Ok(Some(Status::Fine));
        }
        // VALUE <key> <flags> <bytes> [<cas unique>]
        let length = line.strip_prefix(b"VALUE ").and_then(|rest| {
            let length = rest.split(|byte| *byte == b' ').nth(2)?;
            std::str::from_utf8(length).ok()?.parse::<u64>().ok()
        });
        let length = length.ok_or_else(|| unknown(line, PROTOCOL))?;
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
            let Some(line) = take_line(input, LINE_BYTES_MAX)? else { return Ok(None) };
            if let Some(status) = self.line(&line)? {
                return Ok(Some(Whole::new(status, self.body.bytes)));
            }
        }
    }
}
