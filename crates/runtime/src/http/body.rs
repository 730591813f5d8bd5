//! A long response on its way from its server to a client that may be slow, or gone.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::transport::Failure;

/// How the body ended. Said beside the channel, not in it: a slow client whose channel is full must
/// not hold the slot of a server that is done. And a copy that is dropped half-way says nothing, so
/// that its end is never taken for the end of the body.
type BodyEnd = Arc<OnceLock<Result<(), Failure>>>;

/// The body of a response, piece by piece, through a bounded channel.
#[derive(Debug)]
pub struct BodyReceiver {
    data: mpsc::Receiver<Bytes>,
    end: BodyEnd,
}

/// The other end of a [`BodyReceiver`]. Dropped before [`BodySender::end`], it has broken off.
#[derive(Debug)]
pub(super) struct BodySender {
    data: mpsc::Sender<Bytes>,
    end: BodyEnd,
}

/// A channel in which `room` pieces may wait.
pub(super) fn channel(room: usize) -> (BodySender, BodyReceiver) {
    let (sender, receiver) = mpsc::channel(room);
    let end = BodyEnd::default();
    (BodySender { data: sender, end: Arc::clone(&end) }, BodyReceiver { data: receiver, end })
}

impl BodyReceiver {
    /// The next piece; none after the last one of a whole body. Safe to cancel.
    ///
    /// # Errors
    /// The server broke off: what came is not the whole.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        match self.data.recv().await {
            Some(piece) => Ok(Some(piece)),
            None => self.end.get().copied().unwrap_or(Err(Failure::Reset)).map(|()| None),
        }
    }
}

impl BodySender {
    /// Hands a piece over when there is room; false when the receiver is gone.
    pub(super) async fn send(&self, piece: Bytes) -> bool {
        self.data.send(piece).await.is_ok()
    }

    /// Resolves when the receiver is gone.
    pub(super) async fn closed(&self) {
        self.data.closed().await;
    }

    /// That was all, or the server broke off.
    pub(super) fn end(self, how: Result<(), Failure>) {
        // It is ours alone to set.
        let _ = self.end.set(how);
    }
}
