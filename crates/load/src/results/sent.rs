//! Serializes records that are sent between machines. Validation rejects impossible values, so that
//! no sum overflows.

use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

use crate::results::record::{Record, growing_histogram, histogram};
use crate::results::sends::KEPT_MAX;

/// Maximum value of any count in a message. Agents send two messages per second, and a run is
/// shorter than a century.
pub(crate) const COUNT_MAX: u64 = 1 << 32;
/// Maximum number of send times that an agent keeps.
const SENDS_MAX: usize = 2 * KEPT_MAX;
/// Text from another machine is truncated to this length.
const TEXT_CHARS: usize = 300;
/// The maximum value of a growing histogram: 35 years in microseconds. It limits the memory that
/// the histogram can use.
const GROWN_MAX: u64 = 1 << 50;

impl Record {
    /// Returns the record if a run could have produced it.
    pub(crate) fn validate(mut self) -> Result<Record, String> {
        let Record { requests, failed_since, sent, answered, failed, waited, unsent, .. } = self;
        let Record { connects, left_stamps, came_stamps, sent_again, unasked, .. } = self;
        let of_requests = [requests, failed_since, sent, answered, failed, waited, unsent];
        let others = [connects, left_stamps, came_stamps, sent_again, unasked];
        let errors = self.errors.kinds().map(|(count, _)| count);
        let all = of_requests.into_iter().chain(others).chain(errors);
        let most = all.max().unwrap_or_default();
        if most > COUNT_MAX {
            return Err(format!("a counter is {most}"));
        }
        if self.sends.len() > SENDS_MAX {
            return Err("it contains too many numbers".to_owned());
        }
        let (good, failed) = (self.latency.len(), self.errors.total());
        if requests != good + failed || self.at_least.len() != failed || unsent > failed {
            return Err(format!("{requests} requests have {good} latencies and {failed} failures"));
        }
        if let Some(first) = &mut self.first_error {
            first.text = shown(&first.text);
        }
        Ok(self)
    }
}

/// Makes text from another machine safe to print.
pub(crate) fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(TEXT_CHARS).map(plain).collect()
}

/// Serializes a histogram as values and their counts.
pub(super) fn serialize<S: Serializer>(counts: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(counts.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())))
}

/// Deserializes into a [`histogram`].
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
    filled(histogram(), from)
}

/// Deserializes into a [`growing_histogram`].
pub(super) fn growing<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
    filled(growing_histogram(), from)
}

fn filled<'de, D: Deserializer<'de>>(
    mut counts: Histogram<u64>,
    from: D,
) -> Result<Histogram<u64>, D::Error> {
    for (value, count) in Vec::<(u64, u64)>::deserialize(from)? {
        if value > GROWN_MAX || count > COUNT_MAX || counts.record_n(value, count).is_err() {
            return Err(D::Error::custom("a histogram contains impossible counts"));
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::plan::schedule::Slot;
    use crate::results::conclude::conclude;
    use crate::results::facts::{End, Facts};
    use crate::results::outcome::Outcome;
    use crate::session::fault::Fault;
    use crate::session::{Status, Whole};
    use proptest::prelude::*;
    use serde_json::{Value, json, to_value};

    #[test]
    fn a_histogram_is_transferred_count_by_count() {
        let mut record = Record::new();
        for (value, count) in [(5_000, 3), (1_234_567, 1), (60_000_000_000, 1 << 31)] {
            record.latency.record_n(value, count).unwrap();
            record.ends_us.record_n(value, count).unwrap();
        }
        let arrived: Record = serde_json::from_value(to_value(&record).unwrap()).unwrap();
        assert_eq!((&arrived.latency, &arrived.ends_us), (&record.latency, &record.ends_us));
        let mut ends_us = arrived.ends_us;
        ends_us.record(1 << 45).expect("a growing histogram");
        assert!(arrived.lag.is_empty());
    }

    /// Records requests every 2 ms, starting at index `from`. Every tenth fails.
    fn measured(from: u64, requests: u64) -> Record {
        let mut record = Record::new();
        for index in from..from + requests {
            let slot = Slot { index, at_ns: index * 2_000_000, query: 0, warmup: false };
            let whole = Whole { status: Status::Http(200), head: None, body_bytes: 0 };
            let taken_ns = slot.at_ns + 1_000 * index;
            let done_ns = taken_ns + 3_000_000 + index % 7 * 500_000;
            let result = if index % 10 == 3 { Err(Fault::Closed) } else { Ok(whole) };
            let sent_ns = Some(taken_ns + 5_000);
            record.sends.push(index, slot.at_ns);
            record.add(
                &Outcome { taken_ns, sent_ns, done_ns, result, ..Outcome::never_sent(slot, 0) },
                0,
                0,
            );
        }
        record
    }

    fn sent(record: Record) -> Record {
        received(to_value(record).unwrap()).unwrap()
    }

    fn received(value: Value) -> Result<Record, String> {
        serde_json::from_value::<Record>(value).map_err(|error| error.to_string())?.validate()
    }

    fn concluded(record: Record) -> Value {
        let plan = Plan::new("http://127.0.0.1:1/".parse().unwrap(), 500.0);
        let end = End { last_ns: 0, cut_ns: None, enough_ns: None };
        to_value(conclude(record, &Facts::of(&plan, end, None))).unwrap()
    }

    #[test]
    fn records_sent_in_parts_add_up_to_one_record() {
        let mut together = Record::new();
        for (from, requests) in [(0, 1_000), (2_500, 2_500), (1_000, 1_500)] {
            together.merge(&sent(measured(from, requests)));
        }
        let one = measured(0, 5_000);
        assert_eq!(together.latency, one.latency);
        assert_eq!(concluded(together), concluded(one));
    }

    #[test]
    fn inconsistent_records_are_rejected() {
        let good = to_value(measured(0, 100)).unwrap();
        for (path, value, why) in [
            ("/requests", json!(101), "101 requests have 90 latencies and 10 failures"),
            ("/sent", json!(COUNT_MAX + 1), "a counter is 4294967297"),
            ("/errors/dropped", json!(u64::MAX), "a counter is"),
            ("/split", json!([[5_000, 1, [0, 0, 0, 0]]]), "its parts"),
            ("/blocks/length_ns", json!(30_000_000), "its blocks"),
            ("/blocks/counts", json!([[[5_000, 1]]]), "its blocks"),
            ("/lag", json!([[u64::MAX, 1]]), "a histogram"),
            ("/ends_us", json!([[GROWN_MAX + 1, 1]]), "a histogram"),
            ("/uncorrected", json!([[5_000, COUNT_MAX + 1]]), "a histogram"),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(path).expect(path) = value;
            let refused = received(bad).unwrap_err();
            assert!(refused.contains(why), "{path}: {refused}");
        }
    }

    #[test]
    fn text_from_an_agent_is_safe_to_print() {
        assert_eq!(shown("a\u{1b}[2Jb\n"), "a [2Jb ");
        assert_eq!(shown(&"x".repeat(1_000)).len(), TEXT_CHARS);
    }

    proptest! {
        #[test]
        fn any_numbers_are_added_up_or_rejected(
            numbers in prop::collection::vec(any::<u64>(), 8),
            small in prop::collection::vec(0..5_000_u32, 8),
            doubled in 0..40_u32,
            sends: Vec<u64>,
        ) {
            let mut record = to_value(measured(0, 100)).unwrap();
            let kept: Vec<(u64, u64)> = sends.chunks(2).map(|of| (of[0], of[of.len() - 1])).collect();
            record["ends_us"] = json!([[numbers[0] >> (numbers[1] % 64), numbers[2] >> 40]]);
            record["sends"] = json!({ "every": numbers[0], "kept": kept });
            record["last_good_ns"] = numbers[1].into();
            record["last_error_ns"] = numbers[2].into();
            record["first_error"] = json!({ "at_ns": numbers[3], "text": "x" });
            record["sent"] = (numbers[4] >> (numbers[5] % 64)).into();
            let sums = [numbers[5], numbers[6], numbers[7], u64::MAX];
            let parts = json!([small[0], numbers[4] >> (numbers[6] % 64), sums]);
            record["split"].as_array_mut().unwrap().push(parts);
            record["blocks"] = json!({
                "length_ns": 20_000_000_u64.checked_shl(doubled).unwrap_or(1),
                "counts": [[[small[1], u32::MAX], [small[2], 1]], [], [[small[3], small[4]]]],
            });
            if let Ok(record) = received(record) {
                let mut total = measured(50, 10);
                total.merge(&record);
                total.merge(&record);
                concluded(total);
            }
        }
    }
}
