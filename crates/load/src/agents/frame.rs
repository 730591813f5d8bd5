//! Messages on a connection between a coordinator and an agent: JSON behind its length.
//!
//! A message is its length in four bytes, most significant first, and so many bytes of JSON. Whoever reads
//! says how long one may be; the length of a longer one is all that is read of it. Memory grows with the
//! bytes that came, not with what a length promises.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use curtail_kernel::duration::format;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

/// Of the first messages, before either side knows the other: nobody may make us keep more.
pub(crate) const GREETING_BYTES_MAX: usize = 4 << 10;
/// Of orders: room for the longest file of queries, with escapes.
pub(crate) const ORDER_BYTES_MAX: usize = 160 << 20;
/// Of what agents tell: room for the times of the first requests of many threads.
pub(crate) const TOLD_BYTES_MAX: usize = 32 << 20;

/// So much is read at a time.
const READ_BYTES: usize = 64 << 10;
const LENGTH_BYTES: usize = 4;

/// Why there is no next message. A clause about the other side.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("it closed the connection")]
    Closed,
    #[error("it said nothing for {}", format(.0.as_nanos() as u64))]
    Silent(Duration),
    #[error("it took nothing for {}", format(.0.as_nanos() as u64))]
    Stuck(Duration),
    #[error(
        "it sent what is no message of an agent or its coordinator: {0}; is it a curtail agent?"
    )]
    Garbage(String),
    #[error("a message to it would have {bytes} bytes, and at most {most} are sent")]
    TooLong { bytes: usize, most: usize },
}

/// What the other side sends, message by message.
#[derive(Debug)]
pub(crate) struct Frames {
    stream: OwnedReadHalf,
    buffer: BytesMut,
    most: usize,
}

impl Frames {
    pub(crate) fn new(stream: OwnedReadHalf) -> Frames {
        Frames { stream, buffer: BytesMut::new(), most: GREETING_BYTES_MAX }
    }

    /// Messages may be so long from now on. Memory of longer ones before is given back.
    pub(crate) fn allow(&mut self, most: usize) {
        self.most = most;
        self.buffer = BytesMut::from(&self.buffer[..]);
    }

    /// The next message. Can be dropped and called again: nothing is lost.
    ///
    /// # Errors
    ///
    /// [`FrameError`] if there is none.
    pub(crate) async fn next<M: DeserializeOwned>(&mut self) -> Result<M, FrameError> {
        loop {
            if let Some(message) = take(&mut self.buffer, self.most)? {
                return Ok(message);
            }
            self.buffer.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(FrameError::Closed);
            }
        }
    }

    /// The same, if it comes within some time.
    ///
    /// # Errors
    ///
    /// [`FrameError`] if there is none.
    pub(crate) async fn next_within<M: DeserializeOwned>(
        &mut self,
        patience: Duration,
    ) -> Result<M, FrameError> {
        timeout(patience, self.next()).await.map_err(|_| FrameError::Silent(patience))?
    }
}

/// Takes the first message off the buffer; none as long as it is not whole.
fn take<M: DeserializeOwned>(buffer: &mut BytesMut, most: usize) -> Result<Option<M>, FrameError> {
    let Some(length) = buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > most {
        let why = format!("one of {length} bytes, and it may have {most}");
        return Err(FrameError::Garbage(why));
    }
    if buffer.len() - LENGTH_BYTES < length {
        return Ok(None);
    }
    let message = buffer.split_to(LENGTH_BYTES + length);
    let read = serde_json::from_slice(&message[LENGTH_BYTES..]);
    read.map(Some).map_err(|error| FrameError::Garbage(error.to_string()))
}

/// A message as it is sent.
fn encode(message: &impl Serialize, most: usize) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut bytes, message).map_err(io::Error::from)?;
    let length = bytes.len() - LENGTH_BYTES;
    match u32::try_from(length) {
        Ok(short) if length <= most => bytes[..LENGTH_BYTES].copy_from_slice(&short.to_be_bytes()),
        _ => return Err(FrameError::TooLong { bytes: length, most }),
    }
    Ok(bytes)
}

/// Sends a message. The other side must take some of it within `patience`, again and again.
///
/// # Errors
///
/// [`FrameError`] if it was not sent, or not wholly.
pub(crate) async fn send(
    stream: &mut OwnedWriteHalf,
    message: &impl Serialize,
    most: usize,
    patience: Duration,
) -> Result<(), FrameError> {
    let bytes = encode(message, most)?;
    let mut left = &bytes[..];
    while !left.is_empty() {
        let written = timeout(patience, stream.write(left)).await;
        match written.map_err(|_| FrameError::Stuck(patience))?? {
            0 => return Err(FrameError::Closed),
            written => left = &left[written..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::message::{Hello, Order, Told};
    use proptest::prelude::*;

    fn framed(json: &str) -> BytesMut {
        let mut bytes = BytesMut::from(&(json.len() as u32).to_be_bytes()[..]);
        bytes.extend_from_slice(json.as_bytes());
        bytes
    }

    #[test]
    fn messages_are_taken_one_by_one_however_they_come() {
        let mut all = encode(&Order::Start { at_ns: u64::MAX }, 100).unwrap();
        all.extend(encode(&Order::Stop, 100).unwrap());
        let (mut buffer, mut taken) = (BytesMut::new(), Vec::new());
        for byte in all {
            buffer.extend_from_slice(&[byte]);
            taken.extend(take::<Order>(&mut buffer, 100).unwrap());
        }
        assert!(matches!(taken[..], [Order::Start { at_ns: u64::MAX }, Order::Stop]));
        assert!(buffer.is_empty());
    }

    #[test]
    fn what_is_too_long_is_neither_kept_nor_sent() {
        let mut http = BytesMut::from(&b"HTTP/1.1 400 Bad Request\r\n"[..]);
        let said = take::<Told>(&mut http, GREETING_BYTES_MAX).unwrap_err().to_string();
        assert!(said.contains("1213486160 bytes") && said.contains("curtail agent?"), "{said}");
        let said = encode(&Order::Stop, 3).unwrap_err().to_string();
        assert!(said.contains("6 bytes, and at most 3"), "{said}");
    }

    #[test]
    fn other_json_is_no_message() {
        for json in ["", "{", "{\"plan\":{}}", "\"begin\"", "{\"start\":{\"at_ns\":-1}}", "[[[["] {
            let taken = take::<Order>(&mut framed(json), 1_000);
            let said = taken.err().expect("it is none").to_string();
            assert!(said.contains("no message"), "{json}: {said}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(mut bytes: Vec<u8>, json: String) {
            let _ = take::<Told>(&mut BytesMut::from(&bytes[..]), 1_000);
            let _ = take::<Order>(&mut framed(&json), 1_000);
            bytes.splice(0..0, (bytes.len() as u32).to_be_bytes());
            let _ = take::<Hello>(&mut BytesMut::from(&bytes[..]), 1_000);
        }
    }
}
