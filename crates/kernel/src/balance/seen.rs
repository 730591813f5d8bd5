//! Averages a client's response times and the feedback of each server. Every ranking is based on
//! these averages.
//!
//! Source: document 002 §4.2.1, "Delayed and approximate feedback". Cost: O(1).
//!
//! Choices where the source is silent:
//! - **A server without samples**, or one that has just returned, counts as average: it is neither
//!   flooded nor left out.
//! - **Frequent samples count less** than rare ones. If there are hundreds of clients, each of them
//!   rarely gets a sample, and relies on the last response. A client that gets many samples relies
//!   on an average over [`Tuning::sample_window_ns`], so that a single slow response does not make
//!   it avoid a server.
//! - **Old samples fade** to the average of all servers: after [`Tuning::stale_ns`] half of their
//!   weight is left.
//! - **A server without feedback** counts as one with an empty queue whose service time is its
//!   response time. So it is ranked only by the client's own copies and response times. Response
//!   times include all delays on the network. They are therefore averaged over a window that is
//!   [`SILENT_WINDOWS`] times as long, and each counts as at most [`SILENT_BAND`] times that
//!   average. Without feedback from any server, C3 treats all servers below [`SILENT_BAND`] times
//!   the overall average as equal. Otherwise a client would avoid a different server after each
//!   slow response, and the load of each server would oscillate.
//! - **A failure or a refusal is not a fast response.** It is not a sample. Each consecutive
//!   failure doubles the score, up to [`MOST_DOUBLINGS`] times. This effect also fades with time. A
//!   response that concerns only the request is not a sample, but it ends the run of failures.
//! - **Feedback is limited to plausible values.** The service time is limited to the time that the
//!   client waited ([`crate::Event::Feedback`]). It is also at least a certain fraction of the time
//!   that the queue and the response times suggest. The queue is at most as long as these times
//!   allow. So a server that claims to be idle and fast is sent more copies only to the extent that
//!   its response times confirm the claim.

use alloc::vec;
use alloc::vec::Vec;

use crate::config::Site;
use crate::event::Feedback;
use crate::id::ServerId;
use crate::outcome::Outcome;
use crate::time::Timestamp;
use crate::tuning::Tuning;

/// The weight of a sample in the average of all servers.
const ALL: f32 = 0.02;

const MOST_DOUBLINGS: u8 = 6;

/// The integer that represents the weight 1.
const WHOLE: u16 = u16::MAX;

/// The minimum fraction of its full weight that a sample keeps, even if many samples arrive at the
/// same time.
const LEAST_SHARE: f64 = 0.1;

/// After this number of consecutive responses without feedback, a server counts as one without
/// feedback.
const SILENT: u8 = 8;

/// The window over which response times of a server without feedback are averaged, as a multiple of
/// [`Tuning::sample_window_ns`].
const SILENT_WINDOWS: u64 = 5;

/// Response times of servers without feedback count as equal if they differ by less than this
/// factor.
const SILENT_BAND: f32 = 2.0;

/// The factor by which feedback may be better than the queue and the response times suggest.
const PLAUSIBLE: f64 = 8.0;

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

/// The state that is kept for a server. It fills half a cache line, because a client reads all
/// servers of a group at once.
#[derive(Clone, Copy, Debug)]
struct SeenServer {
    averages: Averages,
    failures: u8,
    /// The number of responses since the last feedback, at most [`SILENT`]. It is [`SILENT`] before
    /// the first feedback.
    silent: u8,
    /// The weight of the last sample, in parts of [`WHOLE`].
    weight: u16,
    /// When the last sample arrived. [`Timestamp::NEVER`] before the first one.
    sampled: Timestamp,
    failed: Timestamp,
}

const NOTHING: SeenServer = SeenServer {
    averages: Averages { response_ns: 0.0, queue: 0.0, service_ns: 0.0 },
    failures: 0,
    silent: SILENT,
    weight: 0,
    sampled: Timestamp::NEVER,
    failed: Timestamp::NEVER,
};

/// The current estimates for a server.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// R̄: the response time, in ns.
    pub response_ns: f64,
    /// q̄: the number of requests at the server.
    pub queue: f64,
    /// 1/μ̄: the service time of a request, in ns. It is longer if the server has failed.
    pub service_ns: f64,
    /// The minimum time, in ns: a shorter time counts as this one. It is 0 if servers send
    /// feedback.
    pub floor_ns: f64,
}

/// The averages of all servers of a cell.
#[derive(Clone, Debug)]
pub struct Seen {
    servers: Vec<SeenServer>,
    all: Averages,
    /// The number of servers that send feedback.
    reporting: u32,
    /// The parameters of the averages and of the scores.
    pub tuning: Tuning,
}

impl Seen {
    /// Creates averages without samples, for this number of servers.
    #[must_use]
    pub fn new(servers: usize, tuning: Tuning) -> Self {
        Self { servers: vec![NOTHING; servers], all: Averages::default(), reporting: 0, tuning }
    }

    /// Creates the averages of a cell's servers.
    #[must_use]
    pub fn of(site: Site<'_>) -> Self {
        Self::new(site.topology.servers.len(), site.limits.tuning)
    }

    /// Adds the feedback of a server.
    pub fn add_feedback(&mut self, server: ServerId, now: Timestamp, feedback: Feedback) {
        let Feedback { queue, service_ns } = feedback;
        self.weigh(server, now, self.tuning.sample_window_ns);
        let state = &mut self.servers[server.index()];
        self.reporting += u32::from(state.silent == SILENT);
        state.silent = 0;
        self.sample(
            server,
            now,
            |a| [&mut a.queue, &mut a.service_ns],
            [queue as f32, service_ns as f32],
        );
    }

    /// Handles the end of a copy. The outcome is `None` if the copy was stopped or lost.
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
        // The feedback of this response has already been added.
        let is_new = state.silent > 0;
        state.silent = (state.silent + 1).min(SILENT);
        self.reporting -= u32::from(state.silent == SILENT && !is_silent);
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

    /// Forgets a server that has returned, because it may be a different one.
    pub fn restored(&mut self, server: ServerId) {
        let state = &mut self.servers[server.index()];
        self.reporting -= u32::from(state.silent < SILENT);
        *state = NOTHING;
    }

    /// Sets the weight of the next sample.
    fn weigh(&mut self, server: ServerId, now: Timestamp, window_ns: u64) {
        let state = &mut self.servers[server.index()];
        let share = match state.sampled {
            sampled if sampled != Timestamp::NEVER && window_ns > 0 => {
                now.since(sampled) as f64 / window_ns as f64
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
            // The first sample sets the average. A queue may be empty, but a time is never 0.
            let is_first = of(averages).iter().all(|average| **average == 0.0);
            let weight = if is_first { 1.0 } else { weight };
            for (average, sample) in of(averages).into_iter().zip(samples) {
                *average += weight * (sample - *average);
            }
        };
        add(&mut self.all, ALL);
        if state.sampled == Timestamp::NEVER {
            state.averages = self.all;
        }
        add(&mut state.averages, f32::from(state.weight) / f32::from(WHOLE));
        state.sampled = now;
    }

    /// The estimates for a server: a blend of its own averages and the averages of all servers,
    /// weighted by the age of its last sample.
    #[must_use]
    pub fn estimate(&self, server: ServerId, now: Timestamp) -> Estimate {
        let SeenServer { averages, sampled, failed, failures, .. } = self.servers[server.index()];
        let stale = self.tuning.stale_ns as f64;
        let left = |since: Timestamp| match since {
            Timestamp::NEVER => 0.0,
            since => stale / (stale + now.since(since) as f64),
        };
        let mixed = averages.mix(&self.all, left(sampled) as f32);
        let Averages { response_ns, queue, service_ns } = mixed;
        let [response_ns, queue, service_ns] = [response_ns, queue, service_ns].map(f64::from);
        let service_ns = service_ns.max(response_ns / (PLAUSIBLE * (1.0 + queue))).max(1.0);
        let queue = queue.min(PLAUSIBLE * (1.0 + response_ns / service_ns));
        let worse = match failures {
            0 => 1.0,
            failures => 1.0 + f64::from((1_u32 << failures) - 1) * left(failed),
        };
        let floor_ns = match self.reporting {
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
            seen.add_feedback(A, now, Feedback { queue: 4, service_ns: 2 * MS });
            seen.ended(A, now, 10 * MS, Some(Outcome::Good));
        }
        seen
    }

    #[test]
    fn a_server_without_samples_is_average_and_old_samples_fade() {
        let mut seen = seen();
        let now = Timestamp(50 * MS);
        assert!((seen.estimate(B, now).service_ns - 2e6).abs() < 1.0);
        seen.add_feedback(B, now, Feedback { queue: 0, service_ns: 20 * MS });
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
    fn implausible_feedback_is_limited() {
        let mut seen = seen();
        let now = Timestamp(50 * MS);
        for _ in 0..100 {
            seen.add_feedback(B, now, Feedback { queue: 0, service_ns: 0 });
            seen.ended(B, now, 40 * MS, Some(Outcome::Good));
        }
        assert!(seen.estimate(B, now).service_ns >= 4e6, "its responses take 40 ms");
        for _ in 0..100 {
            seen.add_feedback(B, now, Feedback { queue: u32::MAX, service_ns: MS });
            seen.ended(B, now, 4 * MS, Some(Outcome::Good));
        }
        assert!(seen.estimate(B, now).queue <= 100.0, "its responses take 4 ms");
    }

    #[test]
    fn one_long_queue_after_many_empty_ones_is_one_sample() {
        let mut seen =
            Seen::new(1, Tuning { sample_weight: 0.5, sample_window_ns: 0, ..Tuning::default() });
        for queue in [0, 0, 0, 8] {
            seen.add_feedback(A, Timestamp(0), Feedback { queue, service_ns: MS });
        }
        assert!((seen.estimate(A, Timestamp(0)).queue - 4.0).abs() < 1e-3);
    }

    #[test]
    fn frequent_samples_count_less_than_rare_ones() {
        let after_one_slow = |gap_ms: u64| {
            let mut seen = Seen::new(1, Tuning::default());
            for at in 0..20 {
                let took = if at == 19 { 11 * MS } else { MS };
                seen.add_feedback(
                    A,
                    Timestamp(at * gap_ms * MS),
                    Feedback { queue: 0, service_ns: took },
                );
                seen.ended(A, Timestamp(at * gap_ms * MS), took, Some(Outcome::Good));
            }
            seen.estimate(A, Timestamp(19 * gap_ms * MS)).response_ns / 1e6
        };
        assert!((after_one_slow(200) - 10.0).abs() < 0.05, "0.9 of the last");
        assert!((after_one_slow(20) - 5.5).abs() < 0.05, "half of that");
        assert!((after_one_slow(1) - 1.9).abs() < 0.05, "and no less than a tenth");
    }

    #[test]
    fn a_server_without_feedback_is_ranked_by_its_responses() {
        let mut seen = Seen::new(2, Tuning::default());
        seen.ended(A, Timestamp(0), 3 * MS, Some(Outcome::Good));
        let Estimate { response_ns, queue, service_ns, .. } = seen.estimate(A, Timestamp(0));
        assert_eq!((response_ns, queue, service_ns), (3e6, 0.0, 3e6));
    }

    #[test]
    fn a_server_without_feedback_is_avoided_after_many_slow_responses_only() {
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
