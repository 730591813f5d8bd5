//! Sends a request while its response is being read.
//!
//! A server may respond before it has read the whole request, and may stop reading until its
//! response is read. If the client wrote everything before it read, both would wait forever. Every
//! read therefore also continues the write.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::h1::io::poll_fill;

/// A stream, and what of the current request it has not yet taken.
#[derive(Debug)]
pub(super) struct Transport<S> {
    stream: S,
    /// The rest of what was given to [`Transport::start`] or [`Transport::push`].
    unsent: Bytes,
    unflushed: bool,
    /// Writing failed. The response may be there all the same, so this is not an error yet.
    failed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Transport<S> {
    pub(super) fn new(stream: S) -> Transport<S> {
        Transport { stream, unsent: Bytes::new(), unflushed: false, failed: false }
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }

    pub(super) fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// True if all that was to be sent has been.
    pub(super) fn is_sent(&self) -> bool {
        self.unsent.is_empty() && !self.unflushed && !self.failed
    }

    /// Writes what the stream takes at once and keeps a copy of the rest, most often nothing. False if
    /// the stream took nothing and never will.
    pub(super) async fn start(&mut self, request: &[u8]) -> bool {
        poll_fn(|cx| {
            let mut rest = request;
            self.unflushed = true;
            while !rest.is_empty() && !self.failed {
                match Pin::new(&mut self.stream).poll_write(cx, rest) {
                    Poll::Ready(Ok(bytes)) if bytes > 0 => rest = &rest[bytes.min(rest.len())..],
                    Poll::Ready(_) => self.failed = true,
                    Poll::Pending => break,
                }
            }
            self.unsent = Bytes::copy_from_slice(if self.failed { &[] } else { rest });
            self.poll_write_on(cx);
            Poll::Ready(!self.failed || rest.len() < request.len())
        })
        .await
    }

    /// Returns whether the stream still takes data, as soon as it has taken all that it was given.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.poll_write_on(cx);
        if self.failed || self.unsent.is_empty() {
            return Poll::Ready(!self.failed);
        }
        Poll::Pending
    }

    /// Sets the next data to write. Call it after [`Transport::poll_room`] has returned true.
    pub(super) fn push(&mut self, data: Bytes) {
        self.unsent = data;
        self.unflushed = true;
    }

    /// Reads once, and writes meanwhile.
    pub(super) fn poll_fill(
        &mut self,
        buf: &mut BytesMut,
        bound: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_write_on(cx);
        poll_fill(&mut self.stream, buf, bound, cx)
    }

    fn poll_write_on(&mut self, cx: &mut Context<'_>) {
        while !self.unsent.is_empty() && !self.failed {
            match Pin::new(&mut self.stream).poll_write(cx, &self.unsent) {
                Poll::Ready(Ok(bytes)) if bytes > 0 => {
                    self.unsent.advance(bytes.min(self.unsent.len()));
                }
                Poll::Ready(_) => self.failed = true,
                Poll::Pending => return,
            }
        }
        if self.unflushed && !self.failed {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Ready(Err(_)) => self.failed = true,
                Poll::Pending => {}
            }
        }
    }
}
