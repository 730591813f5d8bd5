//! Whether counts can be those of a histogram.
//!
//! The decoder of hdrhistogram believes what it reads: it negates the number of a run of empty buckets, also
//! the one number that has no negative. So all of them are looked at before it does.
//!
//! Source: HdrHistogram, encoding version 2 (`ZigZagEncoding`). Cost: O(bytes).

/// True if the counts of an encoded histogram, what follows its header, are of at most so many buckets,
/// and none is larger than `most`.
pub fn plausible_counts(mut payload: &[u8], buckets_max: u64, most: u64) -> bool {
    let mut buckets = 0;
    while !payload.is_empty() {
        let Some((number, used)) = varint(payload) else { return false };
        payload = &payload[used..];
        // Zigzag: even ones are counts, odd ones -1, -2, … empty buckets.
        let (half, empty) = (number >> 1, number & 1 == 1);
        if half > if empty { buckets_max } else { most } {
            return false;
        }
        buckets += if empty { half + 1 } else { 1 };
        if buckets > buckets_max {
            return false;
        }
    }
    true
}

/// A number in base 128, lowest first, the ninth byte whole (LEB128-64b9B), and its length.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        let last = at == 8 || *byte < 0x80;
        let bits = if at == 8 { *byte } else { *byte & 0x7f };
        number |= u64::from(bits) << (7 * at);
        if last {
            return Some((number, at + 1));
        }
    }
    None
}
