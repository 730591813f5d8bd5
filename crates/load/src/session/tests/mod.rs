//! Tests sessions with server output in pieces of any size, and with malformed bytes.

mod http;
mod pipelined;
mod tls;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::{Out, Requests, Session, Sessions, Token};
use crate::plan::protocol::{Batch, ResponseEnd};

pub(super) const LIMIT: u64 = 1_000;

pub(super) fn sessions(requests: Requests) -> Arc<Sessions> {
    let response_end = ResponseEnd::default();
    Arc::new(Sessions {
        requests,
        heads: false,
        body_bytes_max: LIMIT,
        streams: 100,
        pipeline: 3,
        batch: Batch::Off,
        datagrams_max: 1 << 16,
        begun: AtomicU64::new(0),
        response_end,
        tls: None,
    })
}

pub(super) fn one(request: &'static str) -> Vec<Bytes> {
    vec![Bytes::from_static(request.as_bytes())]
}

/// Returns the replies and the fault of a session that has these outstanding requests. The session
/// receives `input` in pieces of the given sizes, which are repeated, and then the end of the
/// connection.
pub(super) fn drive(
    mut session: Box<dyn Session>,
    tokens: &[Token],
    input: &[u8],
    sizes: &[usize],
) -> Vec<String> {
    for token in tokens {
        session.send(0, *token, &mut Out::default());
    }
    feed(&mut *session, input, sizes)
}

pub(super) fn feed(session: &mut dyn Session, mut input: &[u8], sizes: &[usize]) -> Vec<String> {
    let (mut buffer, mut out) = (BytesMut::new(), Out::default());
    let (mut sizes, mut fault) = (sizes.iter().cycle(), None);
    while !input.is_empty() && fault.is_none() {
        let size = sizes.next().map_or(input.len(), |size| (*size).clamp(1, input.len()));
        buffer.extend_from_slice(&input[..size]);
        input = &input[size..];
        fault = session.receive(&mut buffer, &mut out).err();
        assert!(buffer.len() <= size + (64 << 10), "the buffer is bounded");
    }
    let fault = fault.unwrap_or_else(|| session.end(&mut out));
    let mut results: Vec<String> = out.replies.iter().map(|reply| format!("{reply:?}")).collect();
    results.push(format!("{fault:?}"));
    results
}

/// Generates a sequence of `pieces` in any order, mixed with random bytes.
pub(super) fn nearly(pieces: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        20 => prop::sample::select(pieces).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

pub(super) fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), prop::collection::vec(1..40usize, 1..6)]
}
