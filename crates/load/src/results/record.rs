//! Records the outcomes of measured requests. Records from other machines are validated, so that no sum
//! overflows.

use std::fmt;
use std::hint::black_box;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::plan::schedule::Slot;
use crate::results::arrival_test::{KEPT_MAX, Sends};
use crate::results::blocks::Blocks;
use crate::results::counts::{self, COUNT_MAX, growing_histogram, histogram};
use crate::results::errors::Errors;
use crate::results::outcome::{Busy, Crowd, Outcome};
use crate::results::split::{Parts, Split};
use crate::session::printable;

/// Maximum number of send times that an agent keeps.
const SENDS_MAX: usize = 2 * KEPT_MAX;

/// A record that is handed to a thread has enough preallocated memory to measure for this long. The
/// value is twice the usual time between two swaps of records, because a thread may swap late.
const ROOM_NS: u64 = 1_000_000_000;

/// The measurements of a run or of a part of it. Values are in nanoseconds unless stated otherwise.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Latencies of good responses, measured from the intended times.
    #[serde(with = "counts")]
    pub(crate) latency: Histogram<u64>,
    /// A lower bound on the latency of every other request. For a request that failed, this is the
    /// timeout. For a request that was unfinished when the run ended, it is the request's age.
    #[serde(with = "counts")]
    pub(crate) at_least: Histogram<u64>,
    /// Latencies of good responses, measured from when a connection took the request.
    #[serde(with = "counts")]
    pub(crate) uncorrected: Histogram<u64>,
    /// Schedule lag of all requests except dropped requests and requests that were due on lost
    /// agents.
    #[serde(with = "counts")]
    pub(crate) lag: Histogram<u64>,
    /// The values of `latency` and `at_least`, divided into blocks of time.
    pub(crate) blocks: Blocks,
    /// Send times of a sample of the requests, in nanoseconds since the measured time began.
    pub(crate) sends: Sends,
    /// The times at which good responses ended, including the warm-up, in microseconds from the
    /// start of the schedule. The histogram has four significant digits, because it is used to
    /// count the responses in a time window.
    #[serde(serialize_with = "counts::serialize", deserialize_with = "counts::growing")]
    pub(crate) ends_us: Histogram<u64>,
    /// The parts of the latencies of good responses.
    pub(crate) split: Split,
    pub(crate) errors: Errors,
    /// Number of measured requests that were due.
    pub(crate) requests: u64,
    /// Number of measured requests that no connection took.
    pub(crate) unsent: u64,
    /// The greatest age of a request that was unfinished when the run ended.
    pub(crate) oldest_ns: u64,
    pub(crate) first_error: Option<FirstError>,
    /// When the last good response and the last failure occurred, in nanoseconds from the start of
    /// the schedule.
    pub(crate) last_good_ns: Option<u64>,
    pub(crate) last_error_ns: Option<u64>,
    /// Number of failures since the last good response.
    pub(crate) failed_since: u64,
    /// Number of requests that a connection took, or that failed while waiting, including the
    /// warm-up.
    pub(crate) sent: u64,
    /// The number of those requests that got a good response, and the number that did not.
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    /// Number of measured requests that found all connections busy and had to wait.
    pub(crate) waited: u64,
    /// Response times while at most half of a thread's connections were busy, and while all were,
    /// including the warm-up.
    pub(crate) few_busy: Busy,
    pub(crate) all_busy: Busy,
    /// Number of connections opened.
    pub(crate) connects: u64,
    /// Number of requests that were sent again because the server had not processed them.
    pub(crate) sent_again: u64,
    /// Number of connections closed because of extraneous data after a good response, including the
    /// warm-up.
    pub(crate) unasked: u64,
    /// The number of good responses with a kernel timestamp for the departure of the request, and
    /// the number with a kernel timestamp for the arrival of the response.
    pub(crate) left_stamps: u64,
    pub(crate) came_stamps: u64,
    /// Number of times that the timestamp clock was set.
    pub(crate) clock_steps: u32,
    /// Number of outcomes that a slow observer missed.
    #[serde(skip)]
    pub(crate) unobserved: u64,
}

/// The first failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct FirstError {
    pub(crate) at_ns: u64,
    pub(crate) text: String,
}

impl Record {
    pub(crate) fn new() -> Record {
        Record {
            latency: histogram(),
            at_least: histogram(),
            uncorrected: histogram(),
            lag: histogram(),
            blocks: Blocks::new(),
            sends: Sends::new(),
            ends_us: growing_histogram(),
            split: Split::new(),
            errors: Errors::default(),
            requests: 0,
            unsent: 0,
            oldest_ns: 0,
            first_error: None,
            last_good_ns: None,
            last_error_ns: None,
            failed_since: 0,
            sent: 0,
            answered: 0,
            failed: 0,
            waited: 0,
            few_busy: Busy::default(),
            all_busy: Busy::default(),
            connects: 0,
            sent_again: 0,
            unasked: 0,
            left_stamps: 0,
            came_stamps: 0,
            clock_steps: 0,
            unobserved: 0,
        }
    }

    /// Records an outcome. The measured time starts `start_ns` after the start of the schedule.
    pub(crate) fn add(&mut self, outcome: &Outcome, start_ns: u64, timeout_ns: u64) {
        if outcome.left().is_none() {
            self.count_ended(outcome);
        }
        if outcome.slot.warmup {
            return;
        }
        self.requests += 1;
        self.lag.saturating_record(outcome.lag_ns());
        if outcome.good() {
            self.latency.saturating_record(outcome.latency_ns());
            self.uncorrected.saturating_record(outcome.uncorrected_ns());
            self.left_stamps += u64::from(outcome.left_ns.is_some());
            self.came_stamps += u64::from(outcome.came_ns.is_some());
            self.split.add(outcome.latency_ns(), &Parts::of(outcome));
            self.blocks.add(outcome.slot.at_ns - start_ns, outcome.latency_ns());
            return;
        }
        self.unsent += u64::from(outcome.unsent());
        self.count_bad(outcome);
        let age_ns = outcome.latency_ns();
        if outcome.left().is_some() {
            self.oldest_ns = self.oldest_ns.max(age_ns);
            self.add_at_least(&outcome.slot, start_ns, age_ns);
        } else {
            self.add_at_least(&outcome.slot, start_ns, age_ns.max(timeout_ns));
        }
    }

    fn add_at_least(&mut self, slot: &Slot, start_ns: u64, ns: u64) {
        self.at_least.saturating_record(ns);
        self.blocks.add(slot.at_ns - start_ns, ns);
    }

    /// Counts a request that has ended, even if it belongs to the warm-up.
    fn count_ended(&mut self, outcome: &Outcome) {
        let good = outcome.good();
        let last = if good { &mut self.last_good_ns } else { &mut self.last_error_ns };
        *last = (*last).max(Some(outcome.done_ns));
        self.failed_since = if good { 0 } else { self.failed_since + 1 };
        *if good { &mut self.answered } else { &mut self.failed } += 1;
        if good {
            // This fails only if the range would exceed the address space.
            let _ = self.ends_us.record(outcome.done_ns / 1_000);
            match outcome.crowd {
                Crowd::Few => self.few_busy.add(1, outcome.uncorrected_ns()),
                Crowd::Some => {}
                Crowd::All => self.all_busy.add(1, outcome.uncorrected_ns()),
            }
        }
    }

    fn count_bad(&mut self, outcome: &Outcome) {
        let (count, text): (_, &dyn fmt::Display) = match &outcome.result {
            Ok(whole) => (self.errors.of_status(&whole.status), &whole.status),
            Err(fault) => (self.errors.of_fault(fault).1, fault),
        };
        *count += 1;
        if outcome.left().is_some() {
            return;
        }
        let first = || FirstError { at_ns: outcome.done_ns, text: text.to_string() };
        self.first_error.get_or_insert_with(first);
    }

    /// Records a request that was dropped because the backlog was full.
    pub(crate) fn add_dropped(&mut self, slot: Slot, start_ns: u64, timeout_ns: u64) {
        self.failed += 1;
        if !slot.warmup {
            self.errors.dropped += 1;
            self.requests += 1;
            self.unsent += 1;
            self.add_at_least(&slot, start_ns, timeout_ns);
        }
    }

    /// Records a measured request that was due on a lost agent. It is unknown whether it was sent.
    pub(crate) fn add_unreported(&mut self, slot: &Slot, start_ns: u64, age_ns: u64) {
        self.errors.unreported += 1;
        self.requests += 1;
        self.unsent += 1;
        self.oldest_ns = self.oldest_ns.max(age_ns);
        self.add_at_least(slot, start_ns, age_ns);
    }

    /// Returns all measured latencies: those of good responses, and the lower bounds of the others.
    pub(crate) fn all(&self) -> Histogram<u64> {
        let mut all = self.latency.clone();
        all.add(&self.at_least).expect("they have the same bounds");
        all
    }

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
            first.text = printable(&first.text);
        }
        Ok(self)
    }

    /// Creates an empty record for one second of the schedule, starting at `now_ns`. Requests
    /// before `warmup_ns` are not measured. Its memory is preallocated, because growing it while
    /// requests are due could delay them by up to half a millisecond.
    pub(crate) fn with_room(now_ns: u64, warmup_ns: u64) -> Record {
        let mut record = Record::new();
        let until_ns = now_ns.saturating_add(ROOM_NS);
        let [so_far_ns, measured_ns] = [now_ns, until_ns].map(|ns| ns.saturating_sub(warmup_ns));
        record.blocks = Blocks::with_room(so_far_ns, measured_ns - so_far_ns);
        record.sends = Sends::with_room();
        // This can fail only as in `add`.
        let _ = record.ends_us.record(until_ns / 1_000);
        let Record { latency, at_least, uncorrected, lag, ends_us, .. } = &mut record;
        for counts in [latency, at_least, uncorrected, lag, ends_us] {
            // Resetting the histogram writes to every page.
            black_box(counts).reset();
        }
        record
    }

    /// Adds the measurements of another thread. The sum is exact, because histograms with the same
    /// buckets add up count by count.
    pub(crate) fn merge(&mut self, other: &Record) {
        for (mine, theirs) in [
            (&mut self.latency, &other.latency),
            (&mut self.at_least, &other.at_least),
            (&mut self.uncorrected, &other.uncorrected),
            (&mut self.lag, &other.lag),
            (&mut self.ends_us, &other.ends_us),
        ] {
            mine.add(theirs).expect("they have the same bounds, or grow");
        }
        self.split.merge(&other.split);
        self.errors.merge(&other.errors);
        self.requests += other.requests;
        self.unsent += other.unsent;
        self.oldest_ns = self.oldest_ns.max(other.oldest_ns);
        self.blocks.merge(&other.blocks);
        self.sends.merge(&other.sends);
        let answered_later =
            other.last_good_ns.is_some() && other.last_good_ns >= self.last_good_ns;
        let before = if answered_later { 0 } else { self.failed_since };
        self.failed_since = before + other.failed_since;
        self.last_good_ns = self.last_good_ns.max(other.last_good_ns);
        self.last_error_ns = self.last_error_ns.max(other.last_error_ns);
        // Do not call `min` on the options, because it would return `None` if one of them is
        // `None`.
        let both = self.first_error.take().into_iter().chain(other.first_error.clone());
        self.first_error = both.min();
        self.sent += other.sent;
        self.answered += other.answered;
        self.failed += other.failed;
        self.waited += other.waited;
        self.few_busy.add(other.few_busy.count, other.few_busy.sum_ns);
        self.all_busy.add(other.all_busy.count, other.all_busy.sum_ns);
        self.connects += other.connects;
        self.sent_again += other.sent_again;
        self.unasked += other.unasked;
        self.left_stamps += other.left_stamps;
        self.came_stamps += other.came_stamps;
        // All threads see the same steps of the clock.
        self.clock_steps = self.clock_steps.max(other.clock_steps);
        self.unobserved += other.unobserved;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json, to_value};

    use super::*;
    use crate::plan::Plan;
    use crate::plan::schedule::Slot;
    use crate::results::conclude::conclude;
    use crate::results::facts::{End, Facts};
    use crate::results::outcome::Outcome;
    use crate::session::fault::Fault;

    /// Adds one request with a response every 2 ms, starting at `from`.
    fn add(record: &mut Record, from: u64, requests: u64, warmup_ns: u64) {
        for index in from..from + requests {
            let slot = Slot { index, at_ns: index * 2_000_000, query: 0, warmup: false };
            let done_ns = slot.at_ns + 3_000_000 + index % 7 * 500_000;
            record.add(&Outcome::ended(slot, slot.at_ns, done_ns, Ok(200)), warmup_ns, 0);
        }
    }

    fn room(record: &Record) -> (usize, usize) {
        (record.ends_us.distinct_values(), record.blocks.len())
    }

    #[test]
    fn nanoseconds_are_counted() {
        let mut record = Record::new();
        for lag_ns in [22, 49, 1_045] {
            let slot = Slot { index: 0, at_ns: 5, query: 0, warmup: false };
            record.add(&Outcome::never_sent(slot, 5 + lag_ns), 0, 0);
        }
        let counted: Vec<u64> =
            record.lag.iter_recorded().map(|at| at.value_iterated_to()).collect();
        assert_eq!(counted, [22, 49, 1_045]);
    }

    #[test]
    fn nothing_grows_within_the_preallocated_time() {
        for (from, warmup_ns) in [(0, 0), (500, 0), (5_000, 0), (5_000, 9_900_000_000)] {
            let mut record = Record::with_room(from * 2_000_000, warmup_ns);
            let before = room(&record);
            assert_eq!((record.requests, record.ends_us.len(), record.latency.len()), (0, 0, 0));
            // The last request ends a second later.
            add(&mut record, from, 497, warmup_ns);
            assert_eq!(room(&record), before, "{from}");
            add(&mut record, from + 497, 100_000, warmup_ns);
            assert_eq!(record.ends_us.len(), 100_497, "it grows when needed");
        }
    }

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
            let taken_ns = slot.at_ns + 1_000 * index;
            let done_ns = taken_ns + 3_000_000 + index % 7 * 500_000;
            let result = if index % 10 == 3 { Err(Fault::Closed) } else { Ok(200) };
            record.sends.push(index, slot.at_ns);
            let sent_ns = Some(taken_ns + 5_000);
            let ended = Outcome::ended(slot, taken_ns, done_ns, result);
            record.add(&Outcome { sent_ns, ..ended }, 0, 0);
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
        let end = End::default();
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
            ("/blocks/counts", json!([[[u64::MAX, 1]]]), "a histogram"),
            ("/lag", json!([[u64::MAX, 1]]), "a histogram"),
            ("/ends_us", json!([[counts::GROWN_MAX + 1, 1]]), "a histogram"),
            ("/uncorrected", json!([[5_000, COUNT_MAX + 1]]), "a histogram"),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(path).expect(path) = value;
            let refused = received(bad).unwrap_err();
            assert!(refused.contains(why), "{path}: {refused}");
        }
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
