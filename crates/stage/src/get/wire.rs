//! The protocol on the wire: heads of fixed size, numbers in network order.
//!
//! ```text
//! request   kind:1  flags:1  name:2  0:4  job:8  offset:8  length:8  then the name       kind 1: get, 2: purge
//! response  status:1  more:1  0:6  job:8  length:8  then the data
//! ```
//!
//! A response comes in pieces, between which those of other jobs may come; all but the last say that more follow.
//! Flags: 1, low priority; 2, say when the job starts.
//!
//! A job is named by its client, with a number that no other client uses: half of it is drawn at random. It is the same
//! wherever copies of the job are, so that one message purges any of them.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use curtail_kernel::stage::Priority;

/// The longest name.
pub const NAME_BYTES_MAX: usize = 1024;
/// The longest response.
pub const DATA_BYTES_MAX: u64 = 1 << 30;
/// The longest piece of one.
pub const PIECE_BYTES_MAX: u64 = 1 << 20;
const REQUEST_BYTES: usize = 32;
pub(crate) const RESPONSE_BYTES: usize = 24;

const GET: u8 = 1;
const PURGE: u8 = 2;
const LOW: u8 = 1;
const ANNOUNCE: u8 = 2;

/// What a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// For data.
    Get(Get),
    /// What is needed no more: the job leaves the queue, or goes on if it has left that.
    Purge(u64),
}

/// A request for data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// Which job this is a copy of.
    pub job: u64,
    /// That of the copy.
    pub priority: Priority,
    /// Of a file; empty for data from memory, which is made up.
    pub name: Bytes,
    /// Where the data begins in the file, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// The server says [`Status::Started`] when the job has its turn.
    pub announce: bool,
}

/// What a server says before the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Of the job.
    pub status: Status,
    /// More is said of it.
    pub more: bool,
    /// Which.
    pub job: u64,
    /// Bytes of data that follow.
    pub length: u64,
}

/// How a job went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Here is data.
    Data,
    /// It has its turn.
    Started,
    /// As many jobs wait as may.
    Refused,
    /// No such file, or none that long.
    NotFound,
    /// A job of that name is there already.
    Reused,
    /// It was purged while it ran.
    Purged,
}

/// What cannot be read: the connection is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Neither get nor purge, or flags that there are not.
    #[error("kind {0}, flags {1}: no such request")]
    Kind(u8, u8),
    /// A name that is too long.
    #[error("a name of {0} bytes: at most {NAME_BYTES_MAX}")]
    Name(usize),
    /// More data than a response, or a piece of one, may have.
    #[error("{0} bytes of data: at most {1}")]
    Length(u64, u64),
    /// No such status.
    #[error("status {0}: no such response")]
    Status(u8),
}

impl Status {
    const ALL: [Self; 6] =
        [Self::Data, Self::Started, Self::Refused, Self::NotFound, Self::Reused, Self::Purged];
}

impl Request {
    /// Appends it.
    ///
    /// # Panics
    /// The name is longer than [`NAME_BYTES_MAX`].
    pub fn write(&self, into: &mut BytesMut) {
        let (kind, flags, name, job, offset, length) = match self {
            Self::Get(get) => {
                let low = if get.priority == Priority::Low { LOW } else { 0 };
                let announce = if get.announce { ANNOUNCE } else { 0 };
                (GET, low | announce, &get.name[..], get.job, get.offset, get.length)
            }
            Self::Purge(job) => (PURGE, 0, &[][..], *job, 0, 0),
        };
        assert!(name.len() <= NAME_BYTES_MAX, "a name of {} bytes", name.len());
        into.put_u8(kind);
        into.put_u8(flags);
        into.put_u16(name.len() as u16);
        into.put_u32(0);
        into.put_u64(job);
        into.put_u64(offset);
        into.put_u64(length);
        into.put_slice(name);
    }

    /// Takes the first request out of what has arrived; none while it is not whole.
    ///
    /// # Errors
    /// It is none.
    pub fn read(from: &mut BytesMut) -> Result<Option<Self>, WireError> {
        let Some((mut head, rest)) = from.split_at_checked(REQUEST_BYTES) else { return Ok(None) };
        let (kind, flags, name) = (head.get_u8(), head.get_u8(), usize::from(head.get_u16()));
        if !matches!((kind, flags), (GET, 0..=3) | (PURGE, 0)) {
            return Err(WireError::Kind(kind, flags));
        }
        if name > NAME_BYTES_MAX {
            return Err(WireError::Name(name));
        }
        head.advance(4);
        let (job, offset, length) = (head.get_u64(), head.get_u64(), head.get_u64());
        if length > DATA_BYTES_MAX {
            return Err(WireError::Length(length, DATA_BYTES_MAX));
        }
        if rest.len() < name {
            return Ok(None);
        }
        from.advance(REQUEST_BYTES);
        let name = from.split_to(name).freeze();
        let priority = if flags & LOW == 0 { Priority::High } else { Priority::Low };
        let announce = flags & ANNOUNCE != 0;
        Ok(Some(match kind {
            GET => Self::Get(Get { job, priority, name, offset, length, announce }),
            _ => Self::Purge(job),
        }))
    }
}

impl Response {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; RESPONSE_BYTES] {
        let mut bytes = [0; RESPONSE_BYTES];
        bytes[..2].copy_from_slice(&[self.status as u8, self.more.into()]);
        bytes[8..16].copy_from_slice(&self.job.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is none.
    pub fn read(from: &[u8; RESPONSE_BYTES]) -> Result<Self, WireError> {
        let mut from = &from[..];
        let (status, more) = (from.get_u8(), from.get_u8() != 0);
        from.advance(6);
        let (job, length) = (from.get_u64(), from.get_u64());
        let status = *Status::ALL.get(usize::from(status)).ok_or(WireError::Status(status))?;
        if length > PIECE_BYTES_MAX {
            return Err(WireError::Length(length, PIECE_BYTES_MAX));
        }
        Ok(Self { status, more, job, length })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_request() -> impl Strategy<Value = Request> {
        let name = prop::collection::vec(any::<u8>(), 0..=NAME_BYTES_MAX);
        let get = (any::<u64>(), any::<[bool; 2]>(), name, any::<u64>(), 0..=DATA_BYTES_MAX);
        let get = get.prop_map(|(job, [low, announce], name, offset, length)| {
            let priority = if low { Priority::Low } else { Priority::High };
            Request::Get(Get { job, priority, name: name.into(), offset, length, announce })
        });
        prop_oneof![get, any::<u64>().prop_map(Request::Purge)]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_however_it_arrives(
            requests in prop::collection::vec(any_request(), 1..4),
            piece in 1_usize..100,
        ) {
            let mut wire = BytesMut::new();
            requests.iter().for_each(|request| request.write(&mut wire));
            let (mut arrived, mut read) = (BytesMut::new(), Vec::new());
            for piece in wire.chunks(piece) {
                arrived.put_slice(piece);
                while let Some(request) = Request::read(&mut arrived).unwrap() {
                    read.push(request);
                }
            }
            prop_assert_eq!(read, requests);
            prop_assert!(arrived.is_empty());
        }

        #[test]
        fn any_bytes_are_requests_or_an_error(bytes: Vec<u8>, head: [u8; RESPONSE_BYTES]) {
            let mut arrived = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = Request::read(&mut arrived) {}
            if let Ok(response) = Response::read(&head) {
                prop_assert_eq!(Response::read(&response.to_bytes()), Ok(response));
            }
        }
    }

    #[test]
    fn what_is_too_much_is_refused_before_it_arrives() {
        let mut wire = BytesMut::new();
        let get = |length| {
            let (name, priority) = (Bytes::from_static(b"a"), Priority::Low);
            Request::Get(Get { job: 7, priority, name, offset: 0, length, announce: false })
        };
        get(DATA_BYTES_MAX + 1).write(&mut wire);
        assert_eq!(
            Request::read(&mut wire),
            Err(WireError::Length(DATA_BYTES_MAX + 1, DATA_BYTES_MAX))
        );
        let mut wire = BytesMut::new();
        get(0).write(&mut wire);
        wire[2] = 0xff;
        assert_eq!(Request::read(&mut wire), Err(WireError::Name(0xff01)));
        let mut bytes =
            Response { status: Status::Purged, more: false, job: 1, length: 0 }.to_bytes();
        bytes[0] += 1;
        assert_eq!(Response::read(&bytes), Err(WireError::Status(6)));
    }
}
