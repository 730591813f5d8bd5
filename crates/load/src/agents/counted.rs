//! What an agent has measured since it told last, as a message has it.
//!
//! It becomes a [`Record`] as those of threads are, and is added up with others as theirs are: exactly.
//! What could not have been measured is refused, so that nothing that is added up overflows.

use serde::{Deserialize, Serialize};

use super::counts::{decode, encode};
use crate::results::blocks::{Blocks, SparseBlocks};
use crate::results::bucket;
use crate::results::record::{Errors, FirstError, Record};
use crate::results::sends::{KEPT_MAX, Sends};
use crate::results::split::Split;

/// Most of anything in a message. There is one twice per second, and a run is no longer than a century.
pub(crate) const COUNT_MAX: u64 = 1 << 32;
/// Most times of requests that an agent keeps.
pub(crate) const SENDS_MAX: usize = 2 * KEPT_MAX;
/// A text of an agent is shown so far.
const TEXT_CHARS: usize = 300;

/// A record.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Counted {
    latency: String,
    uncorrected: String,
    lag: String,
    ends_us: String,
    blocks: SparseBlocks,
    sends: Sends,
    split: Vec<(u32, u64, [u64; 4])>,
    errors: Errors,
    requests: u64,
    /// When, and what.
    first_error: Option<(u64, String)>,
    last_good_ns: Option<u64>,
    last_error_ns: Option<u64>,
    failed_since: u64,
    sent: u64,
    answered: u64,
    failed: u64,
    waited: u64,
    sent_again: u64,
    unasked: u64,
    connects: u64,
    left_stamps: u64,
    came_stamps: u64,
    clock_steps: u32,
}

impl Counted {
    pub(crate) fn of(record: Record) -> Counted {
        Counted {
            latency: encode(&record.latency),
            uncorrected: encode(&record.uncorrected),
            lag: encode(&record.lag),
            ends_us: encode(&record.ends_us),
            blocks: record.blocks.sparse(),
            split: record.split.sparse(),
            sends: record.sends,
            sent_again: record.sent_again,
            unasked: record.unasked,
            errors: record.errors,
            requests: record.requests,
            first_error: record.first_error.map(|first| (first.at_ns, first.text)),
            last_good_ns: record.last_good_ns,
            last_error_ns: record.last_error_ns,
            failed_since: record.failed_since,
            sent: record.sent,
            answered: record.answered,
            failed: record.failed,
            waited: record.waited,
            connects: record.connects,
            left_stamps: record.left_stamps,
            came_stamps: record.came_stamps,
            clock_steps: record.clock_steps,
        }
    }

    /// The record.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(crate) fn record(self) -> Result<Record, String> {
        self.check()?;
        let empty = Record::new();
        let of = |name: &str, text: &str, like| {
            decode(text, like).map_err(|why| format!("its {name} {why}"))
        };
        let record = Record {
            latency: of("latencies", &self.latency, &empty.latency)?,
            uncorrected: of("uncorrected latencies", &self.uncorrected, &empty.uncorrected)?,
            lag: of("lags", &self.lag, &empty.lag)?,
            ends_us: of("ends", &self.ends_us, &empty.ends_us)?,
            blocks: Blocks::from_sparse(&self.blocks).ok_or("its blocks are none")?,
            split: Split::from_sparse(&self.split).ok_or("its parts of latencies are none")?,
            sends: self.sends,
            sent_again: self.sent_again,
            unasked: self.unasked,
            errors: self.errors,
            requests: self.requests,
            first_error: self
                .first_error
                .map(|(at_ns, text)| FirstError { at_ns, text: shown(&text) }),
            last_good_ns: self.last_good_ns,
            last_error_ns: self.last_error_ns,
            failed_since: self.failed_since,
            sent: self.sent,
            answered: self.answered,
            failed: self.failed,
            waited: self.waited,
            connects: self.connects,
            left_stamps: self.left_stamps,
            came_stamps: self.came_stamps,
            clock_steps: self.clock_steps,
            unobserved: 0,
        };
        let (good, failed) = (record.latency.len(), record.errors.total());
        if record.requests != good + failed {
            return Err(format!(
                "of {} requests it has {good} latencies and {failed} failures",
                record.requests
            ));
        }
        Ok(record)
    }

    /// Looks for numbers that no run has.
    fn check(&self) -> Result<(), String> {
        let Counted { requests, failed_since, sent, answered, failed, .. } = *self;
        let Counted { waited, connects, left_stamps, came_stamps, sent_again, unasked, .. } = *self;
        let of_requests = [requests, failed_since, sent, answered, failed, waited, connects];
        let of_parts = self.split.iter().map(|(_, count, _)| *count);
        let others = [left_stamps, came_stamps, sent_again, unasked];
        let all = of_requests.into_iter().chain(others).chain(of_parts);
        let most = all.chain(self.errors.counts()).max().unwrap_or_default();
        if most > COUNT_MAX {
            return Err(format!("it counts {most} of something"));
        }
        if self.split.len() > bucket::COUNT || self.sends.len() > SENDS_MAX {
            return Err("it has too many numbers".to_owned());
        }
        Ok(())
    }
}

/// A text of an agent, as it can be shown anywhere.
pub(crate) fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(TEXT_CHARS).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::plan::schedule::Slot;
    use crate::results::conclude::{End, Facts, conclude};
    use crate::results::outcome::Outcome;
    use crate::session::fault::Fault;
    use crate::session::{Status, Whole};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// Requests every 2 ms, from one on; every tenth fails.
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
            );
        }
        record
    }

    fn sent(record: Record) -> Record {
        let text = serde_json::to_string(&Counted::of(record)).unwrap();
        serde_json::from_str::<Counted>(&text).unwrap().record().unwrap()
    }

    fn concluded(record: Record) -> Value {
        let plan = Plan::new("http://127.0.0.1:1/".parse().unwrap(), 500.0);
        let end = End { last_ns: 0, cut_ns: None, enough_ns: None };
        serde_json::to_value(conclude(record, &Facts::of(&plan, end, None))).unwrap()
    }

    #[test]
    fn records_that_were_sent_in_parts_add_up_to_what_one_would_have() {
        let mut together = Record::new();
        for (from, requests) in [(0, 1_000), (2_500, 2_500), (1_000, 1_500)] {
            together.merge(&sent(measured(from, requests)));
        }
        let one = measured(0, 5_000);
        assert_eq!(together.latency, one.latency);
        assert_eq!(concluded(together), concluded(one));
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        let good = serde_json::to_value(Counted::of(measured(0, 100))).unwrap();
        for (path, value, why) in [
            ("/requests", json!(101), "of 101 requests it has 90 latencies and 10 failures"),
            ("/sent", json!(COUNT_MAX + 1), "counts 4294967297 of something"),
            ("/errors/dropped", json!(u64::MAX), "of something"),
            ("/split", json!([[5_000, 1, [0, 0, 0, 0]]]), "its parts"),
            ("/blocks/length_ns", json!(30_000_000), "its blocks"),
            ("/blocks/counts", json!([[[5_000, 1]]]), "its blocks"),
            ("/lag", json!("AAAA"), "its lags is cut off"),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(path).expect(path) = value;
            let refused = serde_json::from_value::<Counted>(bad).unwrap().record().unwrap_err();
            assert!(refused.contains(why), "{path}: {refused}");
        }
    }

    #[test]
    fn a_text_of_an_agent_says_nothing_to_a_terminal() {
        assert_eq!(shown("a\u{1b}[2Jb\n"), "a [2Jb ");
        assert_eq!(shown(&"x".repeat(1_000)).len(), TEXT_CHARS);
    }

    proptest! {
        #[test]
        fn any_numbers_are_added_up_or_refused(
            numbers in prop::collection::vec(any::<u64>(), 8),
            small in prop::collection::vec(0..5_000_u32, 8),
            doubled in 0..40_u32,
            sends: Vec<u64>,
        ) {
            let mut counted = Counted::of(measured(0, 100));
            let kept: Vec<(u64, u64)> = sends.chunks(2).map(|of| (of[0], of[of.len() - 1])).collect();
            counted.sends = serde_json::from_value(json!({ "every": numbers[0], "kept": kept })).unwrap();
            (counted.last_good_ns, counted.last_error_ns) = (Some(numbers[1]), Some(numbers[2]));
            counted.first_error = Some((numbers[3], "x".to_owned()));
            counted.sent = numbers[4] >> (numbers[5] % 64);
            let sums = [numbers[5], numbers[6], numbers[7], u64::MAX];
            counted.split.push((small[0], numbers[4] >> (numbers[6] % 64), sums));
            counted.blocks = serde_json::from_value(json!({
                "length_ns": 20_000_000_u64.checked_shl(doubled).unwrap_or(1),
                "counts": [[[small[1], u32::MAX], [small[2], 1]], [], [[small[3], small[4]]]],
            })).unwrap();
            if let Ok(record) = counted.record() {
                let mut total = measured(50, 10);
                total.merge(&record);
                total.merge(&record);
                concluded(total);
            }
        }
    }
}
