//! Independent streams of random numbers from one seed.
//!
//! A simulation and a live leaf must draw the same time for the same query, regardless of earlier
//! draws. Draws therefore do not come from one long stream. Each one comes from a stream that is
//! identified by the seed and the purpose of the draw: `stream(42, &[b"P", query])`.
//!
//! These functions must never change, because recorded experiments depend on them. They are
//! portable (independent of word size and byte order). They must not be used for secrets.

use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

/// The increment of SplitMix64: 2^64 divided by the golden ratio, made odd.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
/// The offset basis and the prime of 64-bit FNV-1a.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Returns the seed of the stream that `seed` and `parts` identify.
///
/// The FNV-1a hash (64 bits) covers the seed and then, for each part, its length and its bytes. The
/// seed and the lengths are encoded as 8 little-endian bytes. The SplitMix64 finalizer then spreads
/// every input bit over the result. Because lengths are hashed, `["ab", "c"]` and `["a", "bc"]`
/// differ.
///
/// The cost is one multiplication per byte.
pub fn stream(seed: u64, parts: &[&[u8]]) -> u64 {
    let mut hash = fnv1a(FNV_OFFSET, &seed.to_le_bytes());
    for part in parts {
        hash = fnv1a(hash, &(part.len() as u64).to_le_bytes());
        hash = fnv1a(hash, part);
    }
    mix(hash)
}

/// Returns the generator of the stream with this seed, usually a result of [`stream`].
///
/// Its 128-bit state consists of the first two outputs of SplitMix64 for `seed`, high half first,
/// so that neighboring seeds produce unrelated generators.
pub fn rng(seed: u64) -> Pcg64Mcg {
    let high = mix(seed.wrapping_add(GOLDEN_GAMMA));
    let low = mix(seed.wrapping_add(GOLDEN_GAMMA.wrapping_mul(2)));
    Pcg64Mcg::new(u128::from(high) << 64 | u128::from(low))
}

/// Draws a number from the interval [0, 1).
pub fn unit(rng: &mut Pcg64Mcg) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014; constants of Stafford's variant 13).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
