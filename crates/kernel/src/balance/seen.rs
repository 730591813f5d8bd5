//! What a client has seen of each server: averages of response times, and of what the servers say of
//! themselves; the basis of every ranking.
//!
//! Source: document 002 §4.2.1, "Delayed and approximate feedback". Cost: O(1).
//!
//! Settled, where the source is silent:
//! - **A server never heard of**, or one that has returned, is taken for as good as the average of all: it is
//!   neither flooded nor left out.
//! - **A sample among many counts less** than one that comes alone: a client of hundreds hears of a server now and
//!   then, and goes by the last response; one that hears of it all the time goes by an average over
//!   [`Tuning::sample_window_ns`], and no single slow response makes it shun a server.
//! - **Old news fades** to that average: after [`Tuning::stale_ns`] half of it is left.
//! - **A server that says nothing** counts as one with an empty queue that works for as long as its
//!   responses take: then only a client's own copies and response times rank it. These hold all that goes wrong on
//!   the way, so they are averaged over [`SILENT_WINDOWS`] times as long, each counts as [`SILENT_BAND`] times
//!   that average at most, and where none speaks, C3 takes servers for equal that are below so many times the average of
//!   all. Else one slow response after the other makes a client shun servers in turn, and the load of each swings.
//! - **A failure or a refusal is no fast response.** It is no sample, and doubles the score for each in a row,
//!   up to [`MOST_DOUBLINGS`]; that fades, too. A response about the request is no sample, and ends the row.
//! - **A server is believed within reason.** It works no longer than the client waited
//!   ([`crate::Event::Feedback`]), and no less than a share of what its queue and its response times
//!   suggest; its queue is no longer than these allow. So a server that claims to be idle and fast is
//!   sent more only as far as its responses bear that out.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::event::Feedback;
use crate::id::ServerId;
use crate::outcome::Outcome;
use crate::time::Timestamp;
use crate::tuning::Tuning;

/// The weight of a sample in the average of all servers.
const ALL: f32 = 0.02;

const MOST_DOUBLINGS: u8 = 6;

/// A weight of 1.
const WHOLE: u16 = u16::MAX;

/// The least share of a sample's weight: many may come at once.
const LEAST_SHARE: f64 = 0.1;

/// A server that has said nothing of itself on so many responses in a row counts as one that does not.
const SILENT: u8 = 8;

/// For how many times [`Tuning::sample_window_ns`] responses of a server that says nothing are averaged.
const SILENT_WINDOWS: u64 = 5;

/// Response times of such servers that differ by less than this factor are alike.
const SILENT_BAND: f32 = 2.0;

/// By so much a server may do better than its queue and its response times suggest.
const DOUBT: f64 = 8.0;

#[derive(Clone, Copy, Debug, Default)]
struct Averages {
    response_ns: f32,
    queue: f32,
    service_ns: f32,
}

impl Averages {
    fn mix(&self, other: &Self, share: f32) -> Self {
        let mix = |a: f32, b: f32| b + (a - b) * share;
        Self {
            response_ns: mix(self.response_ns, other.response_ns),
            queue: mix(self.queue, other.queue),
            service_ns: mix(self.service_ns, other.service_ns),
        }
    }
}

/// In half a line of a cache: a client looks at all servers of a group at once.
#[derive(Clone, Copy, Debug)]
struct OfServer {
    averages: Averages,
    failures: u8,
    /// Responses since it said something of itself; at most [`SILENT`], and that before the first.
    silent: u8,
    /// Of the last sample, in parts of [`WHOLE`].
    weight: u16,
    /// [`Timestamp::NEVER`] before that.
    heard: Timestamp,
    failed: Timestamp,
}

const NOTHING: OfServer = OfServer {
    averages: Averages { response_ns: 0.0, queue: 0.0, service_ns: 0.0 },
    failures: 0,
    silent: SILENT,
    weight: 0,
    heard: Timestamp::NEVER,
    failed: Timestamp::NEVER,
};

/// What a server is taken for now.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// R̄: what a response takes, in ns.
    pub response_ns: f64,
    /// q̄: how many requests are there.
    pub queue: f64,
    /// 1/μ̄: how long it works on a request, in ns; more for one that has failed.
    pub service_ns: f64,
    /// Times below this are taken for as long, in ns; 0 where servers speak of themselves.
    pub floor_ns: f64,
}

/// Of all servers of a cell.
#[derive(Clone, Debug)]
pub struct Seen {
    servers: Vec<OfServer>,
    all: Averages,
    /// How many servers speak of themselves.
    speak: u32,
    /// Shared by all clones.
    pub tuning: Arc<Tuning>,
}

impl Seen {
    /// Nothing yet, of so many servers.
    #[must_use]
    pub fn new(servers: usize, tuning: Tuning) -> Self {
        let tuning = Arc::new(tuning);
        Self { servers: vec![NOTHING; servers], all: Averages::default(), speak: 0, tuning }
    }

    /// A server has said something of itself.
    pub fn heard(&mut self, server: ServerId, now: Timestamp, feedback: Feedback) {
        let Feedback { queue, service_ns } = feedback;
        self.weigh(server, now, self.tuning.sample_window_ns);
        let state = &mut self.servers[server.index()];
        self.speak += u32::from(state.silent == SILENT);
        state.silent = 0;
        self.sample(
            server,
            now,
            |a| [&mut a.queue, &mut a.service_ns],
            [queue as f32, service_ns as f32],
        );
    }

    /// A copy has ended; none: it was stopped or lost.
    pub fn ended(
        &mut self,
        server: ServerId,
        now: Timestamp,
        took_ns: u64,
        outcome: Option<Outcome>,
    ) {
        let state = &mut self.servers[server.index()];
        match outcome {
            Some(Outcome::Good) => state.failures = 0,
            Some(Outcome::Request) => {
                state.failures = 0;
                return;
            }
            Some(Outcome::Local | Outcome::OverLimit) | None => return,
            Some(Outcome::Refused | Outcome::Failed(_)) => {
                state.failures = (state.failures + 1).min(MOST_DOUBLINGS);
                state.failed = now;
                return;
            }
        }
        let is_silent = state.silent == SILENT;
        // What the server said on this response has been heard.
        let is_new = state.silent > 0;
        state.silent = (state.silent + 1).min(SILENT);
        self.speak -= u32::from(state.silent == SILENT && !is_silent);
        let (mut took, mut window_ns) = (took_ns as f32, self.tuning.sample_window_ns);
        if is_silent {
            window_ns = window_ns.saturating_mul(SILENT_WINDOWS);
            let known = state.averages.response_ns;
            took = if known > 0.0 { took.min(SILENT_BAND * known) } else { took };
        }
        if is_new {
            self.weigh(server, now, window_ns);
        }
        self.sample(server, now, |a| [&mut a.response_ns], [took]);
        if is_silent {
            self.sample(server, now, |a| [&mut a.queue, &mut a.service_ns], [0.0, took]);
        }
    }

    /// A server is back, and may be another than before.
    pub fn restored(&mut self, server: ServerId) {
        let state = &mut self.servers[server.index()];
        self.speak -= u32::from(state.silent < SILENT);
        *state = NOTHING;
    }

    /// How much the next sample counts.
    fn weigh(&mut self, server: ServerId, now: Timestamp, window_ns: u64) {
        let state = &mut self.servers[server.index()];
        let share = match state.heard {
            heard if heard != Timestamp::NEVER && window_ns > 0 => {
                now.since(heard) as f64 / window_ns as f64
            }
            _ => 1.0,
        };
        let weight = self.tuning.sample_weight * share.clamp(LEAST_SHARE, 1.0);
        state.weight = (weight * f64::from(WHOLE)) as u16;
    }

    fn sample<const N: usize>(
        &mut self,
        server: ServerId,
        now: Timestamp,
        of: impl Fn(&mut Averages) -> [&mut f32; N],
        samples: [f32; N],
    ) {
        let state = &mut self.servers[server.index()];
        let add = |averages: &mut Averages, weight: f32| {
            // The first samples are all that there is. A queue may be empty; no time is zero.
            let is_first = of(averages).iter().all(|average| **average == 0.0);
            let weight = if is_first { 1.0 } else { weight };
            for (average, sample) in of(averages).into_iter().zip(samples) {
                *average += weight * (sample - *average);
            }
        };
        add(&mut self.all, ALL);
        if state.heard == Timestamp::NEVER {
            state.averages = self.all;
        }
        add(&mut state.averages, f32::from(state.weight) / f32::from(WHOLE));
        state.heard = now;
    }

    /// The better of what is known of a server and what is known of all, by how old it is.
    #[must_use]
    pub fn estimate(&self, server: ServerId, now: Timestamp) -> Estimate {
        let OfServer { averages, heard, failed, failures, .. } = self.servers[server.index()];
        let stale = self.tuning.stale_ns as f64;
        let left = |since: Timestamp| match since {
            Timestamp::NEVER => 0.0,
            since => stale / (stale + now.since(since) as f64),
        };
        let mixed = averages.mix(&self.all, left(heard) as f32);
        let Averages { response_ns, queue, service_ns } = mixed;
        let [response_ns, queue, service_ns] = [response_ns, queue, service_ns].map(f64::from);
        let service_ns = service_ns.max(response_ns / (DOUBT * (1.0 + queue))).max(1.0);
        let queue = queue.min(DOUBT * (1.0 + response_ns / service_ns));
        let worse = match failures {
            0 => 1.0,
            failures => 1.0 + f64::from((1_u32 << failures) - 1) * left(failed),
        };
        let floor_ns = match self.speak {
            0 => f64::from(SILENT_BAND * self.all.response_ns),
            _ => 0.0,
        };
        let [response_ns, service_ns, floor_ns] =
            [response_ns, service_ns, floor_ns].map(|ns| ns * worse);
        Estimate { response_ns, queue, service_ns, floor_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Fault;

    const A: ServerId = ServerId(0);
    const B: ServerId = ServerId(1);
    const MS: u64 = 1_000_000;

    fn seen() -> Seen {
        let mut seen =
            Seen::new(2, Tuning { sample_weight: 0.5, sample_window_ns: 0, ..Tuning::default() });
        for ms in 1..50 {
            let now = Timestamp(ms * MS);
            seen.heard(A, now, Feedback { queue: 4, service_ns: 2 * MS });
            seen.ended(A, now, 10 * MS, Some(Outcome::Good));
        }
        seen
    }

    #[test]
    fn a_server_never_heard_of_is_as_good_as_the_average_and_old_news_fades() {
        let mut seen = seen();
        let now = Timestamp(50 * MS);
        assert!((seen.estimate(B, now).service_ns - 2e6).abs() < 1.0);
        seen.heard(B, now, Feedback { queue: 0, service_ns: 20 * MS });
        let fresh = seen.estimate(B, now).service_ns;
        let late = seen.estimate(B, now.after(seen.tuning.stale_ns)).service_ns;
        let average = f64::from(seen.all.service_ns);
        assert!(((fresh - average) / (late - average) - 2.0).abs() < 1e-4, "half is left");
        seen.restored(B);
        assert!((seen.estimate(B, now).service_ns - average).abs() < 1.0);
    }

    #[test]
    fn failures_double_the_score_and_lower_no_average() {
        let mut seen = seen();
        let now = Timestamp(50 * MS);
        let before = seen.estimate(A, now);
        for _ in 0..2 {
            seen.ended(A, now, 1, Some(Outcome::Refused));
        }
        let after = seen.estimate(A, now);
        assert_eq!(after.service_ns, 4.0 * before.service_ns);
        for _ in 0..100 {
            seen.ended(A, now, 1, Some(Outcome::Failed(Fault::ConnectFailed)));
        }
        assert_eq!(seen.estimate(A, now).service_ns, 64.0 * before.service_ns);
        let later = now.after(100 * seen.tuning.stale_ns);
        assert!(seen.estimate(A, later).service_ns < 2.0 * before.service_ns, "tried again");
        seen.ended(A, now, 10 * MS, Some(Outcome::Good));
        assert!(seen.estimate(A, now).service_ns < 1.5 * before.service_ns);
        seen.ended(A, now, 1, Some(Outcome::Local));
        seen.ended(A, now, 1, None);
        assert!((seen.estimate(A, now).response_ns - 10e6).abs() < 1.0);
    }

    #[test]
    fn a_liar_is_believed_within_reason() {
        let mut seen = seen();
        let now = Timestamp(50 * MS);
        for _ in 0..100 {
            seen.heard(B, now, Feedback { queue: 0, service_ns: 0 });
            seen.ended(B, now, 40 * MS, Some(Outcome::Good));
        }
        assert!(seen.estimate(B, now).service_ns >= 4e6, "its responses take 40 ms");
        for _ in 0..100 {
            seen.heard(B, now, Feedback { queue: u32::MAX, service_ns: MS });
            seen.ended(B, now, 4 * MS, Some(Outcome::Good));
        }
        assert!(seen.estimate(B, now).queue <= 100.0, "its responses take 4 ms");
    }

    #[test]
    fn one_long_queue_after_many_empty_ones_is_one_sample() {
        let mut seen =
            Seen::new(1, Tuning { sample_weight: 0.5, sample_window_ns: 0, ..Tuning::default() });
        for queue in [0, 0, 0, 8] {
            seen.heard(A, Timestamp(0), Feedback { queue, service_ns: MS });
        }
        assert!((seen.estimate(A, Timestamp(0)).queue - 4.0).abs() < 1e-3);
    }

    #[test]
    fn of_many_samples_each_counts_less_than_one_that_comes_alone() {
        let after_one_slow = |gap_ms: u64| {
            let mut seen = Seen::new(1, Tuning::default());
            for at in 0..20 {
                let took = if at == 19 { 11 * MS } else { MS };
                seen.heard(A, Timestamp(at * gap_ms * MS), Feedback { queue: 0, service_ns: took });
                seen.ended(A, Timestamp(at * gap_ms * MS), took, Some(Outcome::Good));
            }
            seen.estimate(A, Timestamp(19 * gap_ms * MS)).response_ns / 1e6
        };
        assert!((after_one_slow(200) - 10.0).abs() < 0.05, "0.9 of the last");
        assert!((after_one_slow(20) - 5.5).abs() < 0.05, "half of that");
        assert!((after_one_slow(1) - 1.9).abs() < 0.05, "and no less than a tenth");
    }

    #[test]
    fn one_that_says_nothing_is_ranked_by_its_responses() {
        let mut seen = Seen::new(2, Tuning::default());
        seen.ended(A, Timestamp(0), 3 * MS, Some(Outcome::Good));
        let Estimate { response_ns, queue, service_ns, .. } = seen.estimate(A, Timestamp(0));
        assert_eq!((response_ns, queue, service_ns), (3e6, 0.0, 3e6));
    }

    #[test]
    fn one_that_says_nothing_is_not_shunned_for_one_slow_response_but_for_many() {
        let mut seen = Seen::new(1, Tuning::default());
        let mut after = |at: u64, took: u64| {
            seen.ended(A, Timestamp(at * 20 * MS), took * MS, Some(Outcome::Good));
            seen.estimate(A, Timestamp(at * 20 * MS)).response_ns / 1e6
        };
        assert!((0..20).all(|at| after(at, 1) == 1.0));
        let one = after(20, 100);
        assert!(one > 1.05 && one < 1.2, "{one}");
        let last = (21..60).map(|at| after(at, 100)).last();
        assert!(last > Some(20.0), "{last:?}");
        let Estimate { response_ns, floor_ns, .. } = seen.estimate(A, Timestamp(60 * 20 * MS));
        assert!(floor_ns > 0.0 && response_ns > floor_ns, "it is worse than others");
    }
}
