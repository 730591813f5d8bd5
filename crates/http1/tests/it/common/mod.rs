//! What the tests share: feeding a parser in pieces, and input that is nearly HTTP.

use bytes::BytesMut;
use proptest::prelude::*;

/// Gives `input` to `step` in pieces of the given sizes (repeated), and collects what it says. `step`
/// is called until it has nothing to say (`None`), and never again after it said `stop`.
pub(crate) fn feed<T>(
    input: &[u8],
    sizes: &[usize],
    mut step: impl FnMut(&mut BytesMut) -> Option<(T, bool)>,
) -> Vec<T> {
    let mut said = Vec::new();
    let mut buf = BytesMut::new();
    let mut rest = input;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().map_or(rest.len(), |size| (*size).clamp(1, rest.len()));
        let (piece, after) = rest.split_at(size);
        rest = after;
        buf.extend_from_slice(piece);
        while let Some((word, stop)) = step(&mut buf) {
            said.push(word);
            if stop {
                return said;
            }
        }
    }
    said
}

/// Bytes that begin with one of `starts`, then made of `pieces` and of noise, in any order.
pub(crate) fn nearly(
    starts: &'static [&'static str],
    pieces: &'static [&'static str],
) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        20 => prop::sample::select(pieces).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    (prop::sample::select(starts), prop::collection::vec(piece, 0..24))
        .prop_map(|(start, pieces)| [start.as_bytes(), &pieces.concat()].concat())
}

/// Sizes of reads.
pub(crate) fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), prop::collection::vec(1..40usize, 1..6)]
}
