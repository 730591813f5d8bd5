//! A long answer on its way from its server to a client that may be slow, or gone.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::transport::Failure;

/// How the body ended. Said beside the channel, not in it: a slow client whose channel is full must
/// not hold the slot of a server that is done. And a copy that is dropped half-way says nothing, so
/// that its end is never taken for the end of the body.
type End = Arc<OnceLock<Result<(), Failure>>>;

/// The body of an answer, piece by piece, through a bounded channel.
#[derive(Debug)]
pub struct Pieces {
    pieces: mpsc::Receiver<Bytes>,
    end: End,
}

/// Where the pieces come from. Dropped before [`Feed::end`], it has broken off.
#[derive(Debug)]
pub(super) struct Feed {
    pieces: mpsc::Sender<Bytes>,
    end: End,
}

/// Of `room` pieces that may wait.
pub(super) fn pieces(room: usize) -> (Feed, Pieces) {
    let (sender, receiver) = mpsc::channel(room);
    let end = End::default();
    (Feed { pieces: sender, end: Arc::clone(&end) }, Pieces { pieces: receiver, end })
}

impl Pieces {
    /// The next piece; none after the last one of a whole body. Safe to cancel.
    ///
    /// # Errors
    /// The server broke off: what came is not the whole.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        match self.pieces.recv().await {
            Some(piece) => Ok(Some(piece)),
            None => self.end.get().copied().unwrap_or(Err(Failure::Reset)).map(|()| None),
        }
    }
}

impl Feed {
    /// Hands a piece over when there is room; false when nobody reads on.
    pub(super) async fn pass(&self, piece: Bytes) -> bool {
        self.pieces.send(piece).await.is_ok()
    }

    /// Resolves when nobody reads on.
    pub(super) async fn unread(&self) {
        self.pieces.closed().await;
    }

    /// That was all, or the server broke off.
    pub(super) fn end(self, how: Result<(), Failure>) {
        // It is ours alone to set.
        let _ = self.end.set(how);
    }
}
