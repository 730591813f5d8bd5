//! Round trips: how much of a run time is the way, and how many copies wait at a server so that it does not idle for it.
//!
//! Behind a gate of its slots a server idles for a round trip after each response. That costs little if the round trip is
//! short, and capacity if it is not: at a tenth of the service time, `psq` is overloaded from 91 % on. One more copy at the
//! server closes the gap, and is committed to it early, which costs a little where there is no gap.
//!
//! A copy that waited at its server begins there when the one before it ends, so the time between these two responses
//! is its service time. The run time of a copy that was sent to an idle slot includes the round trip. Both have the
//! same distribution otherwise, so the difference of their lower quartiles is the round trip; hiccups are above these.
//! Until this is known, a copy may wait after one copy in sixteen.
//!
//! Cost: O(1) per record.

use super::Rescue;
use super::book::Book;
use crate::cell::Core;
use crate::hedge::record::{Prefetch, Record};
use crate::id::{CopyId, ServerId};
use crate::math::root;
use crate::time::Timestamp;

/// The run time of one response in this number is recorded.
pub(super) const RECORDED: u32 = 8;

/// How many run times it takes to know a quartile, and for how many it is remembered.
const FEW: f32 = 25.0;
const MEMORY: f32 = 1_000.0;

/// Run times without a wait until those with one are forgotten, about; then it is asked again.
const STALE: f32 = 65_536.0;

/// The chance error of the difference of two quartiles: this times the mean run time, over the root of the number of run
/// times. That is two standard errors, if times are exponential.
const CHANCE: f32 = 1.2;

/// With less chance in it, it is known whether a round trip is long.
const CLEAR: f32 = 0.06;

/// The share of queries that end while others wait from which on copies wait at a server of one slot, if round trips are long.
/// With fewer, some server would soon be idle, and a copy that waits for a certain one often waits for longer than a round
/// trip (study, 255). Of N slots one is free N times as soon, so an Nth of this share is enough.
const OFTEN: f32 = 0.5;

/// The same, to find out how long round trips are.
const ASKED: f32 = 0.4;

/// With more, copies that wait at servers cost nothing.
const NEARLY_ALL: f32 = 0.8;

/// Copies that waited for a smaller part of the round trip do not count: the server was idle before they came.
const ENOUGH: f32 = 0.75;

/// Until the round trip is known, a copy may wait at its server after one copy in this number.
const EXPLORED: u32 = 16;

/// A round trip that is a smaller part of the service time is not worth a copy that waits.
const SHORT: f32 = 0.05;

/// The number of round trips for which copies wait at a server. Above 1, because some queries take less time than most.
const AHEAD: f32 = 2.0;

/// The longest round trip that counts, in service times: otherwise all queries would wait at servers if they took no time.
const MOST: f32 = 4.0;

/// The lower quartile of run times, found by steps up and down.
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

/// What run times tell of round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trips {
    sent: Quartile,
    waited: Quartile,
    /// The mean run time, in ns.
    mean_ns: f32,
}

impl Trips {
    /// A copy ran for `ran_ns` after it had waited for `waited_ns` at its server.
    pub(super) fn add(&mut self, ran_ns: u64, waited_ns: u64, mean_ns: f32) {
        self.mean_ns = mean_ns;
        if waited_ns == 0 {
            self.sent.add(ran_ns as f32, mean_ns);
            self.waited.seen *= 1.0 - 1.0 / STALE;
        } else if self.waited.seen < FEW || waited_ns as f32 >= ENOUGH * self.trip_ns() {
            // Where it came late, the round trip seems shorter than it is, but not shorter than the wait. More copies wait
            // then, and for longer, so it is found in the end.
            self.waited.add(ran_ns as f32, mean_ns);
        }
    }

    fn trip_ns(&self) -> f32 {
        (self.sent.ns - self.waited.ns).max(0.0)
    }

    /// The round trip where it is worth a copy that waits, in ns; none where it is not, or not known to be.
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

    /// The round trip, in ns; 0 as long as it is unknown, or if it is short.
    pub(super) fn round_trip_ns(&self) -> u64 {
        self.long().unwrap_or(0.0) as u64
    }

    /// Which copies may wait at servers until the next epoch, if a share `crowded` of the queries ends while others wait.
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
        Prefetch { per_64: 1, least_slots: least_slots(ASKED), one_in }
    }
}

impl Rescue {
    /// How many copies may wait at a server from the end of this copy of its on, per 64 slots.
    #[inline(always)]
    pub(super) fn prefetch_after(&self, core: &Core, server: ServerId, copy: CopyId) -> u32 {
        let Prefetch { per_64, least_slots, one_in } = self.learned.prefetch;
        let may = per_64 > 0
            && copy.serial.is_multiple_of(u64::from(one_in))
            && core.slots(server) >= least_slots;
        if may { per_64 } else { 0 }
    }

    /// From when on a copy has an age that begins at its server now.
    pub(super) fn since(&self, core: &Core, sent: Timestamp) -> Timestamp {
        Timestamp(core.now().0.saturating_sub(self.learned.round_trip_ns)).max(sent)
    }

    /// A query that had no other copy was answered at this age.
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

    /// Service times of 50 to 150, and a wait for a quarter of the copies.
    fn learned(trip_ns: u64, rounds: u64) -> Trips {
        let mut trips = Trips::default();
        for i in 0..rounds {
            let service_ns = 50 + i * 37 % 101;
            let waited_ns = if i % 4 == 0 { 1 + i * 7 % 150 } else { 0 };
            // One that came while the server was on the way to idle begins when it gets there.
            let late_ns = if waited_ns == 0 { trip_ns } else { trip_ns.saturating_sub(waited_ns) };
            trips.add(service_ns + late_ns, waited_ns, 100.0 + trip_ns as f32);
        }
        trips
    }

    #[test]
    fn the_round_trip_is_what_run_times_without_a_wait_have_more() {
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

    /// One copy waits at a server of four slots, which has room for it a quarter of a service time later.
    #[test]
    fn waits_that_are_shorter_than_the_round_trip_do_for_a_start() {
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
    fn until_it_is_known_a_copy_may_wait_now_and_then() {
        let trips = learned(20, 60);
        let asks = |least_slots, one_in| Prefetch { per_64: 1, least_slots, one_in };
        assert_eq!(
            (trips.round_trip_ns(), trips.prefetch(0.5)),
            (0, asks(1, EXPLORED)),
            "15 waited"
        );
        assert_eq!(trips.prefetch(0.3), asks(2, EXPLORED), "few wait anywhere");
        assert_eq!(trips.prefetch(0.9), asks(1, 1), "all wait somewhere");
        let mut trips = learned(0, 20_000);
        assert_eq!(trips.prefetch(0.5), Prefetch::NONE);
        (0..240_000).for_each(|i| trips.add(50 + i % 100, 0, 100.0));
        assert_eq!(trips.prefetch(0.5), asks(1, EXPLORED), "that was long ago");
    }
}
