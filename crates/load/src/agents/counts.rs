//! A histogram as a message has it: in the V2 format of HdrHistogram, as base64.
//!
//! The decoder of that format believes what it reads: it reserves what the header asks for, and negates
//! numbers that have no negative. So all of it is looked at first.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use curtail_dist::plausible_counts;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};

use super::counted::COUNT_MAX;

/// Cookie, length, offset, digits, lowest and highest value, ratio.
const HEADER_BYTES: usize = 40;
/// Most buckets: those of four digits up to the highest value of all.
const BUCKETS_MAX: u64 = 1 << 20;
/// The highest range of a histogram that grows: years of microseconds.
const GROWN_MAX: u64 = 1 << 50;

/// As base64.
pub(crate) fn encode(counts: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Fails for counts that no run reaches; whoever reads it sees that they are missing.
    let _ = V2Serializer::new().serialize(counts, &mut bytes);
    STANDARD.encode(bytes)
}

/// A histogram with the digits and the range of `like`; that of one that grows may be another.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn decode(text: &str, like: &Histogram<u64>) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| format!("is not base64: {error}"))?;
    let (header, payload) =
        bytes.split_at_checked(HEADER_BYTES).ok_or_else(|| "is cut off".to_owned())?;
    let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| header[at + i]));
    let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
    let (length, digits, low, high) = (word(4), word(12), long(16), long(24));
    let fits = if like.is_auto_resize() { high <= GROWN_MAX } else { high == like.high() };
    if digits != u32::from(like.sigfig()) || low != like.low() || !fits {
        return Err(format!("has {digits} digits from {low} to {high}"));
    }
    if length as usize != payload.len() || !plausible_counts(payload, BUCKETS_MAX, COUNT_MAX) {
        return Err("has no counts".to_owned());
    }
    let decoded = Deserializer::new().deserialize(&mut &bytes[..]);
    let mut counts: Histogram<u64> = decoded.map_err(|error| error.to_string())?;
    counts.auto(like.is_auto_resize());
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::Record;
    use proptest::prelude::*;

    fn filled(values: &[(u64, u64)]) -> Record {
        let mut record = Record::new();
        for (value, count) in values {
            record.latency.saturating_record_n(*value, *count);
            record.ends_us.record_n(*value, *count).unwrap();
        }
        record
    }

    #[test]
    fn a_histogram_arrives_count_by_count() {
        let record = filled(&[(5_000, 3), (1_234_567, 1), (60_000_000_000, 1 << 31)]);
        let like = Record::new();
        assert_eq!(decode(&encode(&record.latency), &like.latency).unwrap(), record.latency);
        let mut ends = decode(&encode(&record.ends_us), &like.ends_us).unwrap();
        assert_eq!(ends, record.ends_us);
        ends.record(1 << 45).expect("it grows");
        assert!(decode(&encode(&like.lag), &like.lag).unwrap().is_empty());
    }

    #[test]
    fn others_are_refused() {
        let record = filled(&[(5_000, 3), (60_000_000, 300)]);
        let text = encode(&record.latency);
        let refused = |text: &str| decode(text, &record.latency).unwrap_err();
        assert!(refused("?").contains("base64"));
        assert!(refused("AAAA").contains("cut off"));
        assert!(refused(&text[..text.len() - 4]).contains("counts"));
        assert!(refused(&encode(&record.ends_us)).contains("4 digits"));
        let coarse = Histogram::new_with_bounds(1_000, 61_000_000_000, 2).unwrap();
        assert!(refused(&encode(&coarse)).contains("2 digits"));
        let wide = Histogram::new_with_bounds(1, u64::MAX, 4).unwrap();
        assert!(decode(&encode(&wide), &record.ends_us).unwrap_err().contains("4 digits"));
        let many = filled(&[(5_000, COUNT_MAX + 1)]);
        assert!(refused(&encode(&many.latency)).contains("counts"));
    }

    #[test]
    fn the_number_that_has_no_negative_is_refused() {
        let record = Record::new();
        let mut bytes = STANDARD.decode(encode(&record.lag)).unwrap();
        bytes.truncate(HEADER_BYTES);
        bytes.extend([0xff; 9]);
        bytes[7] = 9;
        assert!(decode(&STANDARD.encode(&bytes), &record.lag).is_err());
    }

    proptest! {
        #[test]
        fn any_counts_are_taken_or_refused(payload: Vec<u8>, header: [u8; 8], at in 0..40_usize) {
            let record = Record::new();
            for like in [&record.latency, &record.ends_us] {
                let mut bytes = STANDARD.decode(encode(like)).unwrap();
                bytes.truncate(HEADER_BYTES);
                bytes[4..8].copy_from_slice(&(payload.len() as u32).to_be_bytes());
                bytes.extend(&payload);
                if let Ok(counts) = decode(&STANDARD.encode(&bytes), like) {
                    let mut sum = like.clone();
                    sum.add(&counts).expect("they are alike");
                }
                bytes.splice(at..bytes.len().min(at + 8), header);
                let _ = decode(&STANDARD.encode(&bytes), like);
            }
        }
    }
}
