//! Reads into a bounded buffer.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Room made for one read, in bytes. An idle connection holds one such block.
const READ_BYTES: usize = 8 << 10;

/// Reads once into `buf`, never beyond `bound` bytes in all. `Ok(0)` is the end of the connection.
/// A full buffer is an error, so that it is never taken for the end.
pub(crate) fn poll_fill<S: AsyncRead + Unpin>(
    stream: &mut S,
    buf: &mut BytesMut,
    bound: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let room = bound.saturating_sub(buf.len()).min(READ_BYTES);
    if room == 0 {
        return Poll::Ready(Err(io::Error::other("the read buffer is full")));
    }
    // Small heads come one after the other out of one block; it is only replaced when it is nearly
    // used up.
    if buf.capacity() - buf.len() < room.div_ceil(4) {
        buf.reserve(room);
    }
    // The future keeps no state between polls, so it may be made anew for each.
    let mut limited = buf.limit(room);
    let read = pin!(stream.read_buf(&mut limited));
    read.poll(cx)
}

/// [`poll_fill`] as a future; safe to cancel.
pub(crate) async fn fill<S: AsyncRead + Unpin>(
    stream: &mut S,
    buf: &mut BytesMut,
    bound: usize,
) -> io::Result<usize> {
    poll_fn(|cx| poll_fill(stream, buf, bound, cx)).await
}

/// True if the peer cut the connection, which between requests is as good as closing it.
pub(crate) fn is_reset(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof)
}
