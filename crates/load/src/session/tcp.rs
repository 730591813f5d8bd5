//! Raw TCP: bytes there, bytes back, until there are enough or until a delimiter. No protocol beyond
//! that; every answer is a good one. Nothing is kept but what may be the start of the delimiter.

use bytes::BytesMut;

use crate::plan::protocol::AnswerEnd;
use crate::session::Status;
use crate::session::fault::Fault;
use crate::session::turns::{Scan, Scanned};

#[derive(Debug)]
pub(crate) struct Tcp {
    end: AnswerEnd,
    body_bytes_max: u64,
    body_bytes: u64,
}

impl Tcp {
    pub(crate) fn new(end: AnswerEnd, body_bytes_max: u64) -> Tcp {
        Tcp { end, body_bytes_max, body_bytes: 0 }
    }
}

impl Scan for Tcp {
    fn begin(&mut self, _: &[u8]) {
        self.body_bytes = 0;
    }

    fn scan(&mut self, input: &mut BytesMut) -> Result<Option<Scanned>, Fault> {
        let (take, whole) = match &self.end {
            AnswerEnd::Bytes(bytes) => {
                let left = bytes - self.body_bytes;
                (left.min(input.len() as u64), input.len() as u64 >= left)
            }
            AnswerEnd::Until(end) => match memchr::memmem::find(input, end) {
                Some(at) => ((at + end.len()) as u64, true),
                // The last bytes may be the start of the delimiter.
                None => (input.len().saturating_sub(end.len() - 1) as u64, false),
            },
        };
        let _ = input.split_to(take as usize);
        self.body_bytes += take;
        if self.body_bytes > self.body_bytes_max {
            return Err(Fault::TooLarge { limit: self.body_bytes_max });
        }
        let scanned = || Scanned { status: Status::Fine, body_bytes: self.body_bytes };
        Ok(whole.then(scanned))
    }
}
