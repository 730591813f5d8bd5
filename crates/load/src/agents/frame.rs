//! Length-prefixed JSON messages between a coordinator and an agent.
//!
//! The reader limits the length of a message. If a message is too long, the reader rejects it as
//! soon as it has read the length.

use std::io;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use curtail_kernel::duration::format;
use futures_util::StreamExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use tokio_util::codec::{Encoder as _, FramedRead, LengthDelimitedCodec};

/// Length limit for the first messages, so that an unknown peer cannot make this program buffer
/// more.
pub(crate) const GREETING_BYTES_MAX: usize = 4 << 10;
/// Length limit for orders, which leaves room for the longest query file after escaping.
pub(crate) const ORDER_BYTES_MAX: usize = 160 << 20;
/// Length limit for an agent's updates, which leaves room for the times of the first requests of
/// many threads.
pub(crate) const UPDATE_BYTES_MAX: usize = 32 << 20;

/// The reason why the next message could not be received. Each error text is a clause about the
/// peer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("it closed the connection")]
    Closed,
    #[error("it sent nothing for {}", format(.0.as_nanos() as u64))]
    Silent(Duration),
    #[error("it read nothing for {}", format(.0.as_nanos() as u64))]
    Stuck(Duration),
    #[error("it sent an invalid message: {0}; is it a curtail agent?")]
    Malformed(String),
    #[error("a message to it would have {bytes} bytes; at most {most} are allowed")]
    TooLong { bytes: usize, most: usize },
}

/// The peer's messages.
#[derive(Debug)]
pub(crate) struct Frames(FramedRead<OwnedReadHalf, LengthDelimitedCodec>);

impl Frames {
    pub(crate) fn new(stream: OwnedReadHalf) -> Frames {
        Frames(FramedRead::new(stream, codec(GREETING_BYTES_MAX)))
    }

    /// Sets the length limit for the messages that follow.
    pub(crate) fn allow(&mut self, most: usize) {
        self.0.decoder_mut().set_max_frame_length(most);
    }

    /// Returns the next message. Cancel safe.
    pub(crate) async fn next<M: DeserializeOwned>(&mut self) -> Result<M, FrameError> {
        match self.0.next().await {
            Some(frame) => parse(frame),
            None => Err(FrameError::Closed),
        }
    }

    /// Returns the next message, or an error if none arrives within `time`.
    pub(crate) async fn next_within<M: DeserializeOwned>(
        &mut self,
        time: Duration,
    ) -> Result<M, FrameError> {
        timeout(time, self.next()).await.map_err(|_| FrameError::Silent(time))?
    }
}

fn codec(most: usize) -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(most).new_codec()
}

fn parse<M: DeserializeOwned>(frame: io::Result<BytesMut>) -> Result<M, FrameError> {
    match frame {
        Ok(frame) => {
            serde_json::from_slice(&frame).map_err(|e| FrameError::Malformed(e.to_string()))
        }
        // The length exceeds the limit.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(FrameError::Malformed("its length is out of range".to_owned()))
        }
        Err(error) => Err(FrameError::Io(error)),
    }
}

/// Encodes a message with its length prefix.
fn encode(message: &impl Serialize, most: usize) -> Result<BytesMut, FrameError> {
    let json = serde_json::to_vec(message).map_err(io::Error::from)?;
    let (bytes, mut frame) = (json.len(), BytesMut::new());
    let encoded = codec(most).encode(Bytes::from(json), &mut frame);
    encoded.map_err(|_| FrameError::TooLong { bytes, most }).map(|()| frame)
}

/// Sends a message. Each write must make progress within `time`.
pub(crate) async fn send(
    stream: &mut OwnedWriteHalf,
    message: &impl Serialize,
    most: usize,
    time: Duration,
) -> Result<(), FrameError> {
    let mut left = encode(message, most)?;
    while left.has_remaining() {
        let written = timeout(time, stream.write_buf(&mut left)).await;
        if written.map_err(|_| FrameError::Stuck(time))?? == 0 {
            return Err(FrameError::Closed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::message::{Hello, Order, Update};
    use proptest::prelude::*;
    use tokio_util::codec::Decoder as _;

    /// Takes the first message from the buffer. Returns `None` while the message is incomplete.
    fn take<M: DeserializeOwned>(
        bytes: &mut BytesMut,
        most: usize,
    ) -> Result<Option<M>, FrameError> {
        codec(most).decode(bytes).transpose().map(parse).transpose()
    }

    fn framed(json: &str) -> BytesMut {
        let mut bytes = BytesMut::from(&(json.len() as u32).to_be_bytes()[..]);
        bytes.extend_from_slice(json.as_bytes());
        bytes
    }

    #[test]
    fn messages_that_are_too_long_are_neither_read_nor_sent() {
        let mut http = BytesMut::from(&b"HTTP/1.1 400 Bad Request\r\n"[..]);
        let error = take::<Update>(&mut http, GREETING_BYTES_MAX).unwrap_err().to_string();
        assert!(error.contains("curtail agent?"), "{error}");
        let error = encode(&Order::Stop, 3).unwrap_err().to_string();
        assert!(error.contains("6 bytes; at most 3"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_rejected(mut bytes: Vec<u8>, json: String) {
            let _ = take::<Update>(&mut BytesMut::from(&bytes[..]), 1_000);
            let _ = take::<Order>(&mut framed(&json), 1_000);
            bytes.splice(0..0, (bytes.len() as u32).to_be_bytes());
            let _ = take::<Hello>(&mut BytesMut::from(&bytes[..]), 1_000);
        }
    }
}
