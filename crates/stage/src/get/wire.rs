//! The wire protocol. Heads have a fixed size, and numbers are in network byte order.
//!
//! ```text
//! request   kind:1  flags:1  name:2  0:4  job:8  offset:8  length:8  then the name       kind 1: get, 2: purge
//! response  status:1  more:1  0:6  job:8  length:8  then the data
//! ```
//!
//! A response consists of pieces, which may be interleaved with pieces of other jobs. `more` is 1
//! in all pieces except the last. The flag 1 stands for low priority. The flag 2 requests a report
//! of the job's start.
//!
//! The client chooses the id of a job. No other client uses the same id, because half of it is
//! random. All copies of the job have the same id, so the same purge message can be sent to every
//! server.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use curtail_kernel::stage::Priority;

/// The maximum length of a name, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;
/// The maximum length of a response, in bytes.
pub const DATA_BYTES_MAX: u64 = 1 << 30;
/// The maximum length of a piece, in bytes.
pub const PIECE_BYTES_MAX: u64 = 1 << 20;
const REQUEST_BYTES: usize = 32;
pub(crate) const RESPONSE_BYTES: usize = 24;

const GET: u8 = 1;
const PURGE: u8 = 2;
const LOW: u8 = 1;
const ANNOUNCE: u8 = 2;

/// A message from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A request for data.
    Get(Get),
    /// A purge of a job that is no longer needed. The job is removed from the queue, or stopped if
    /// it is running.
    Purge(u64),
}

/// A request for data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// The id of the job. All copies of a job have the same id.
    pub job: u64,
    /// The priority of this copy.
    pub priority: Priority,
    /// The name of a file, which is empty for made-up data in memory.
    pub name: Bytes,
    /// The start of the data in the file, in bytes.
    pub offset: u64,
    /// The length of the data, in bytes.
    pub length: u64,
    /// Whether the server sends [`Status::Started`] when the job's turn comes.
    pub announce: bool,
}

/// The head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status of the job.
    pub status: Status,
    /// Whether more pieces follow.
    pub more: bool,
    /// The id of the job.
    pub job: u64,
    /// The number of data bytes that follow.
    pub length: u64,
}

/// The status of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Data follows.
    Data,
    /// The server has started to serve the job.
    Started,
    /// The queue is full, or the server is draining.
    Refused,
    /// There is no such file, or the file is too short.
    NotFound,
    /// The server already has a job with this id.
    Reused,
    /// The job was purged before it arrived, or while it ran.
    Purged,
}

/// The reason why a message cannot be decoded. The connection can no longer be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The message is neither a get nor a purge, or its flags are unknown.
    #[error("unknown request: kind {0}, flags {1}")]
    Kind(u8, u8),
    /// The name is too long.
    #[error("a name of {0} bytes is too long: at most {NAME_BYTES_MAX}")]
    Name(usize),
    /// The data is too long for a response, or for a piece of one.
    #[error("{0} bytes of data are too many: at most {1}")]
    Length(u64, u64),
    /// The status is unknown.
    #[error("unknown response: status {0}")]
    Status(u8),
}

impl Status {
    const ALL: [Self; 6] =
        [Self::Data, Self::Started, Self::Refused, Self::NotFound, Self::Reused, Self::Purged];
}

impl Request {
    /// Appends the request to a buffer.
    ///
    /// # Panics
    /// If the name is longer than [`NAME_BYTES_MAX`].
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

    /// Removes the first request from a buffer and returns it. `None` if the request is not
    /// complete.
    ///
    /// # Errors
    /// The bytes do not encode a request.
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
    /// Returns the encoded head.
    #[must_use]
    pub fn to_bytes(self) -> [u8; RESPONSE_BYTES] {
        let mut bytes = [0; RESPONSE_BYTES];
        bytes[..2].copy_from_slice(&[self.status as u8, self.more.into()]);
        bytes[8..16].copy_from_slice(&self.job.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Reads a head.
    ///
    /// # Errors
    /// The bytes do not encode a response.
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
        fn requests_round_trip_however_they_arrive(
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
    fn oversized_messages_are_refused_before_they_arrive() {
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
