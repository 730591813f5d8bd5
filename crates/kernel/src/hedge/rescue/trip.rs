//! Learns round trips: how much of a run time is spent on the network, and how many copies must
//! wait at a server so that it does not idle for that time.
//!
//! Behind a gate that is equal to its slots, a server idles for a round trip after each response.
//! That costs little if the round trip is short, but it costs capacity if the round trip is long.
//! If it takes a tenth of the service time, `psq` is overloaded at a utilization of 91 % or more.
//! One more copy at the server closes the gap. But such a copy is committed to its server early.
//! This has a small cost if there is no gap.
//!
//! A copy that waited at its server begins there when the one before it ends, so the time between
//! these two responses is its service time. The run time of a copy that was sent to an idle slot
//! includes the round trip. Apart from that, both have the same distribution, so the difference
//! between their lower quartiles is the round trip. Hiccups affect only times above the lower
//! quartile. When a copy ends, another copy may be sent to wait at the same server. Until the round
//! trip is known, this happens after only one copy in sixteen.
//!
//! Cost: O(1) per record.

use super::Rescue;
use super::book::Book;
use super::learned::{Prefetch, Record};
use crate::cell::Core;
use crate::id::{CopyId, ServerId};
use crate::math::root;
use crate::time::Timestamp;

/// The run time of every n-th response is recorded, where n is this number.
pub(super) const RECORDED: u32 = 8;

/// The number of run times before a quartile is known, and the number for which it is remembered.
const FEW: f32 = 25.0;
const MEMORY: f32 = 1_000.0;

/// After about this number of run times of copies that did not wait, the run times of copies that
/// waited are forgotten and measured again.
const STALE: f32 = 65_536.0;

/// The random error of the difference between two quartiles is this factor times the mean run time,
/// divided by the square root of the number of run times. That is two standard errors if times are
/// exponentially distributed.
const CHANCE: f32 = 1.2;

/// If the random error is below this part of the mean run time, it is known whether a round trip is
/// long.
const CLEAR: f32 = 0.06;

/// If round trips are long and at least this share of queries ends while others wait, copies wait
/// at a server with one slot. With a smaller share, some other server would soon be idle, and a
/// copy that is committed to one server often waits for longer than a round trip (study, 255). With
/// N slots, the wait for a free slot is 1/N as long, so 1/N of this share is enough.
const OFTEN: f32 = 0.5;

/// The same share while the round trip is being measured.
const MEASURING: f32 = 0.4;

/// If more than this share of queries ends while others wait, copies that wait at servers cost
/// nothing.
const NEARLY_ALL: f32 = 0.8;

/// Copies that waited for less than this part of the round trip do not count, because the server
/// was idle before they arrived.
const ENOUGH: f32 = 0.75;

/// Until the round trip is known, another copy is sent to wait at a server only after every n-th
/// copy that ends, where n is this number.
const EXPLORED: u32 = 16;

/// A round trip below this part of the service time is not worth a waiting copy.
const SHORT: f32 = 0.05;

/// Enough copies wait at a server to keep it busy for this number of round trips. The number is
/// above 1 because some queries take less time than most.
const AHEAD: f32 = 2.0;

/// The longest round trip that counts, in service times. Without a limit, all queries would wait at
/// servers if their service took no time.
const MOST: f32 = 4.0;

/// The lower quartile of run times, estimated by steps up and down.
#[derive(Clone, Copy, Debug, Default)]
struct Quartile {
    ns: f32,
    seen: f32,
}

impl Quartile {
    fn add(&mut self, ns: f32, mean_ns: f32) {
        self.seen = (self.seen + 1.0).min(MEMORY);
        let below = if ns < self.ns { 1.0 } else { 0.0 };
        self.ns =
            if self.seen == 1.0 { ns } else { self.ns + mean_ns / self.seen * (0.25 - below) };
    }
}

/// Estimates the round trip from run times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trips {
    sent: Quartile,
    waited: Quartile,
    /// The mean run time, in ns.
    mean_ns: f32,
}

impl Trips {
    /// Adds a copy that ran for `ran_ns` after it had waited for `waited_ns` at its server.
    pub(super) fn add(&mut self, ran_ns: u64, waited_ns: u64, mean_ns: f32) {
        self.mean_ns = mean_ns;
        if waited_ns == 0 {
            self.sent.add(ran_ns as f32, mean_ns);
            self.waited.seen *= 1.0 - 1.0 / STALE;
        } else if self.waited.seen < FEW || waited_ns as f32 >= ENOUGH * self.trip_ns() {
            // If the copy arrived late, the round trip appears shorter than it is, but not shorter
            // than the wait. Then more copies wait, and for longer, so the estimate eventually
            // converges.
            self.waited.add(ran_ns as f32, mean_ns);
        }
    }

    fn trip_ns(&self) -> f32 {
        (self.sent.ns - self.waited.ns).max(0.0)
    }

    /// The round trip in ns, if it is known to be worth a waiting copy.
    fn long(&self) -> Option<f32> {
        let enough = self.sent.seen.min(self.waited.seen) >= FEW;
        let long = self.trip_ns() - self.short_ns() > self.chance_ns();
        (enough && long).then_some(self.trip_ns())
    }

    fn short_ns(&self) -> f32 {
        SHORT * (self.mean_ns - self.trip_ns())
    }

    fn chance_ns(&self) -> f32 {
        CHANCE * self.mean_ns / root(self.sent.seen.min(self.waited.seen).max(1.0))
    }

    /// The round trip, in ns. It is 0 if the round trip is unknown or short.
    pub(super) fn round_trip_ns(&self) -> u64 {
        self.long().unwrap_or(0.0) as u64
    }

    /// How many copies may wait at servers until the next epoch, if a share `crowded` of the
    /// queries ends while others wait.
    pub(super) fn prefetch(&self, crowded: f32) -> Prefetch {
        let least_slots = |share: f32| ((share / crowded) as u32).saturating_add(1);
        if let Some(trip_ns) = self.long() {
            let service_ns = (self.mean_ns - trip_ns).max(trip_ns / MOST);
            let per_64 = ((AHEAD * 64.0 * trip_ns / service_ns) as u32).max(1);
            return Prefetch { per_64, least_slots: least_slots(OFTEN), one_in: 1 };
        }
        if self.chance_ns() <= CLEAR * self.mean_ns {
            return Prefetch::NONE;
        }
        let one_in = if crowded > NEARLY_ALL { 1 } else { EXPLORED };
        Prefetch { per_64: 1, least_slots: least_slots(MEASURING), one_in }
    }
}

impl Rescue {
    /// How many copies may wait at a server after the end of this copy, per 64 slots.
    #[inline(always)]
    pub(super) fn prefetch_after(&self, core: &Core, server: ServerId, copy: CopyId) -> u32 {
        let Prefetch { per_64, least_slots, one_in } = self.learned.prefetch;
        let may = per_64 > 0
            && copy.serial.is_multiple_of(u64::from(one_in))
            && core.slots(server) >= least_slots;
        if may { per_64 } else { 0 }
    }

    /// The time from which the age of a copy counts if the copy begins at its server now.
    pub(super) fn since(&self, core: &Core, sent: Timestamp) -> Timestamp {
        Timestamp(core.now().0.saturating_sub(self.learned.round_trip_ns)).max(sent)
    }

    /// Records the run time of a query that had no other copy and was answered at this age.
    pub(super) fn record_run(&mut self, book: &Book, age_ns: u64) {
        let records = book.waited_ns > 0 || self.responses.is_multiple_of(RECORDED);
        if book.second.is_none() && records {
            let ran_ns = age_ns.saturating_sub(book.lead_ns);
            self.records.push(Record::Run { ran_ns, waited_ns: book.waited_ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Service times range from 50 to 150, and a quarter of the copies wait.
    fn learned(trip_ns: u64, rounds: u64) -> Trips {
        let mut trips = Trips::default();
        for i in 0..rounds {
            let service_ns = 50 + i * 37 % 101;
            let waited_ns = if i % 4 == 0 { 1 + i * 7 % 150 } else { 0 };
            // If the copy waited for less than a round trip, the server was idle before it arrived,
            // so it begins on arrival.
            let late_ns = if waited_ns == 0 { trip_ns } else { trip_ns.saturating_sub(waited_ns) };
            trips.add(service_ns + late_ns, waited_ns, 100.0 + trip_ns as f32);
        }
        trips
    }

    #[test]
    fn the_round_trip_is_the_excess_of_run_times_without_a_wait() {
        for trip_ns in [20, 40, 100] {
            let trips = learned(trip_ns, 20_000);
            let found = trips.round_trip_ns();
            assert!(found.abs_diff(trip_ns) <= 8, "{found} for {trip_ns}");
            let Prefetch { per_64, least_slots, one_in } = trips.prefetch(0.3);
            assert!(
                u64::from(per_64).abs_diff(128 * trip_ns / 100) <= 20,
                "{per_64} for {trip_ns}"
            );
            assert_eq!((least_slots, one_in), (2, 1), "of one slot, others are idle soon");
            assert_eq!(trips.prefetch(0.6).least_slots, 1);
            assert_eq!(trips.prefetch(0.0).least_slots, u32::MAX, "none waits");
        }
        let none = learned(0, 20_000);
        assert!(none.round_trip_ns() <= 4, "{}", none.round_trip_ns());
        assert_eq!(none.prefetch(0.9), Prefetch::NONE, "none may wait where it is not worth it");
    }

    /// A copy waits at a server with four slots, where a slot becomes free a quarter of a service
    /// time later.
    #[test]
    fn waits_shorter_than_the_round_trip_start_the_estimate() {
        let mut trips = Trips::default();
        for i in 0..8_000 {
            let waited_ns = if i % 4 == 0 { 20 + i % 11 } else { 0 };
            trips.add(100 + 80 - waited_ns, waited_ns, 180.0);
        }
        assert!((20..=40).contains(&trips.round_trip_ns()), "{}", trips.round_trip_ns());
        let per_64 = trips.prefetch(0.9).per_64;
        assert!(per_64 > 16, "more than one of four slots: {per_64}");
    }

    #[test]
    fn until_the_round_trip_is_known_a_copy_may_wait_now_and_then() {
        let trips = learned(20, 60);
        let explores = |least_slots, one_in| Prefetch { per_64: 1, least_slots, one_in };
        assert_eq!(
            (trips.round_trip_ns(), trips.prefetch(0.5)),
            (0, explores(1, EXPLORED)),
            "15 waited"
        );
        assert_eq!(trips.prefetch(0.3), explores(2, EXPLORED), "few wait anywhere");
        assert_eq!(trips.prefetch(0.9), explores(1, 1), "all wait somewhere");
        let mut trips = learned(0, 20_000);
        assert_eq!(trips.prefetch(0.5), Prefetch::NONE);
        (0..240_000).for_each(|i| trips.add(50 + i % 100, 0, 100.0));
        assert_eq!(trips.prefetch(0.5), explores(1, EXPLORED), "the observation is old");
    }
}
