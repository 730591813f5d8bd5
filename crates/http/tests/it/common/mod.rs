//! Helpers for the tests, which split input into pieces for a parser and generate input that
//! resembles HTTP.

use std::fmt::Debug;

use bytes::BytesMut;
use curtail_http::h1::Limits;
use proptest::prelude::*;

/// Passes `input` to `step` in pieces of the given sizes (repeated), and collects the results of
/// `step`. After each piece, `step` is called until it returns `None`. If it returns `true`, it is
/// never called again.
pub(crate) fn feed<T>(
    input: &[u8],
    sizes: &[usize],
    mut step: impl FnMut(&mut BytesMut) -> Option<(T, bool)>,
) -> Vec<T> {
    let mut results = Vec::new();
    let mut buf = BytesMut::new();
    let mut rest = input;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().map_or(rest.len(), |size| (*size).clamp(1, rest.len()));
        let (piece, after) = rest.split_at(size);
        rest = after;
        buf.extend_from_slice(piece);
        while let Some((result, stop)) = step(&mut buf) {
            results.push(result);
            if stop {
                return results;
            }
        }
    }
    results
}

/// Returns all results of a head parser whose input arrives in pieces.
pub(crate) fn all_verdicts<H: Debug, E: Debug>(
    input: &[u8],
    sizes: &[usize],
    parse: impl Fn(&mut BytesMut) -> Result<Option<H>, E>,
) -> Vec<String> {
    feed(input, sizes, |buf| match parse(buf) {
        Ok(None) => None,
        Ok(Some(head)) => Some((format!("{head:?}"), false)),
        Err(fault) => Some((format!("{fault:?}"), true)),
    })
}

/// Generates limits. Some limits are so low that a head may exceed them.
pub(crate) fn head_limits() -> impl Strategy<Value = Limits> {
    let head_bytes = prop_oneof![Just(16384usize), 0..80usize];
    head_bytes.prop_map(|head_bytes| Limits { head_bytes, headers: 4, ..Limits::default() })
}

/// Generates bytes that begin with one of `starts`. The rest is either only noise, or `pieces` and
/// noise in any order.
pub(crate) fn nearly(
    starts: &'static [&'static str],
    pieces: &'static [&'static str],
) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        20 => prop::sample::select(pieces).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    let noise = prop::collection::vec(any::<u8>(), 0..300).prop_map(|noise| vec![noise]);
    let rest = prop_oneof![4 => prop::collection::vec(piece, 0..24), 1 => noise];
    (prop::sample::select(starts), rest)
        .prop_map(|(start, pieces)| [start.as_bytes(), &pieces.concat()].concat())
}

/// Generates read sizes.
pub(crate) fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), prop::collection::vec(1..40usize, 1..6)]
}
