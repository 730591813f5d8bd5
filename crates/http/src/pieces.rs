//! A body that arrives in pieces. Most bodies are one piece, which is not copied.

use bytes::{Bytes, BytesMut};

/// The pieces of a body so far.
#[derive(Debug, Default)]
pub struct Pieces {
    first: Bytes,
    /// All pieces, if there are several.
    rest: BytesMut,
}

impl Pieces {
    /// Returns the number of bytes so far.
    pub fn length(&self) -> usize {
        self.first.len().max(self.rest.len())
    }

    /// Adds a piece. Returns false, without adding it, if the body would become longer than `limit`
    /// bytes.
    pub fn push(&mut self, piece: Bytes, limit: usize) -> bool {
        let length = self.length();
        if piece.len() > limit.saturating_sub(length) {
            return false;
        }
        if length == 0 {
            self.first = piece;
            return true;
        }
        if self.rest.is_empty() {
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.rest.extend_from_slice(&piece);
        true
    }

    /// Returns the body.
    pub fn join(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}
