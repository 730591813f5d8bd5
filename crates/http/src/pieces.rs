//! A body that arrives in pieces. Large pieces are never copied.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::iter;

use bytes::{Buf, BufMut as _, Bytes, BytesMut};

/// Shorter pieces are copied together, so that a body in many tiny pieces takes little more memory
/// than its bytes. The unit is bytes.
const COPY_BYTES: usize = 1 << 10;

/// Some consecutive pieces of a body. Read them as a [`Buf`].
#[derive(Debug, Default)]
pub struct Pieces {
    /// Not empty, unless there are only short pieces. The usual single piece allocates nothing.
    first: Bytes,
    /// No piece is empty.
    more: VecDeque<Bytes>,
    /// Short pieces, which come after all others.
    last: BytesMut,
    length: usize,
}

impl Pieces {
    /// Returns the number of bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Adds a piece. Returns false, without adding it, if there would be more than `limit` bytes.
    pub fn push(&mut self, piece: Bytes, limit: usize) -> bool {
        if piece.len() > limit.saturating_sub(self.length) {
            return false;
        }
        self.length += piece.len();
        if piece.is_empty() {
        } else if piece.len() < COPY_BYTES && self.length > piece.len() {
            self.last.extend_from_slice(&piece);
        } else {
            if !self.last.is_empty() {
                let last = self.last.split().freeze();
                self.add(last);
            }
            self.add(piece);
        }
        true
    }

    fn add(&mut self, piece: Bytes) {
        if self.first.is_empty() {
            self.first = piece;
        } else {
            self.more.push_back(piece);
        }
    }

    fn next(&mut self) {
        self.first = self.more.pop_front().unwrap_or_default();
    }

    /// Returns all bytes in one piece.
    pub fn join(mut self) -> Bytes {
        self.copy_to_bytes(self.length)
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.length
    }

    fn chunk(&self) -> &[u8] {
        if self.first.is_empty() { &self.last } else { &self.first }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let more = self.more.iter().map(|piece| &piece[..]);
        let all = iter::once(&self.first[..]).chain(more).chain([&self.last[..]]);
        let all = all.filter(|part| !part.is_empty());
        let filled = slices.iter_mut().zip(all).map(|(slice, part)| *slice = IoSlice::new(part));
        filled.count()
    }

    fn advance(&mut self, mut count: usize) {
        self.length = self.length.checked_sub(count).expect("at most the bytes that remain");
        while !self.first.is_empty() {
            if count < self.first.len() {
                return self.first.advance(count);
            }
            count -= self.first.len();
            self.next();
        }
        self.last.advance(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        if count <= self.first.len() {
            self.length -= count;
            let part = self.first.split_to(count);
            if self.first.is_empty() {
                self.next();
            }
            return part;
        }
        let mut copy = BytesMut::with_capacity(count);
        copy.put(self.take(count));
        copy.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_read_yield_the_same_bytes() {
        let lengths = [1, 3, 2_000, 5, 0, 7, COPY_BYTES, 1];
        let mut whole = Vec::new();
        let pieces = || {
            let (mut pieces, mut next) = (Pieces::default(), 0_u8);
            for length in lengths {
                let piece: Vec<u8> = (0..length)
                    .map(|_| {
                        next = next.wrapping_add(1);
                        next
                    })
                    .collect();
                assert!(pieces.push(piece.into(), usize::MAX));
            }
            pieces
        };
        whole.put(pieces());
        assert_eq!(whole.len(), lengths.iter().sum::<usize>());
        assert_eq!(pieces().join(), whole);
        for step in [1, 4, 1_500] {
            let (mut left, mut read) = (pieces(), Vec::new());
            while left.has_remaining() {
                read.extend_from_slice(&left.copy_to_bytes(step.min(left.remaining())));
            }
            assert_eq!(read, whole, "in steps of {step}");
        }
        let (left, mut slices) = (pieces(), [IoSlice::new(&[]); 16]);
        let count = left.chunks_vectored(&mut slices);
        let slices: Vec<&[u8]> = slices[..count].iter().map(|slice| &slice[..]).collect();
        assert_eq!(slices.concat(), whole);
    }

    #[test]
    fn tiny_pieces_are_copied_together() {
        let mut pieces = Pieces::default();
        for _ in 0..1_000 {
            assert!(pieces.push(Bytes::from_static(b"x"), 1_000));
        }
        assert!(!pieces.push(Bytes::from_static(b"x"), 1_000));
        assert_eq!((pieces.length(), pieces.first.len(), pieces.more.len()), (1_000, 1, 0));
    }

    #[test]
    fn a_single_piece_is_not_copied() {
        let (piece, mut pieces) = (Bytes::from(vec![7; 9]), Pieces::default());
        assert!(pieces.push(piece.clone(), 9));
        assert_eq!(pieces.join().as_ptr(), piece.as_ptr());
    }
}
