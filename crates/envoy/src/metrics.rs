//! Statistics of a shard, which Envoy publishes under the names of the proxy's metrics.
//!
//! The data path adds to atomic numbers. Envoy's main thread passes on what they have gained since
//! it last looked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use curtail_kernel::{Core, GroupId, Role, ServerId, StartReason, StopReason};
use curtail_runtime::{CopyEnd, CopyInfo, EjectionCause, Observer, QueryError};

use crate::abi::OpenDesk;

/// The labels of all statistics. `kind` is a reason, a role or an outcome.
pub(crate) const LABELS: [&str; 4] = ["service", "shard", "policy", "kind"];

/// The counters, in the order of [`Counter`].
pub(crate) const COUNTERS: [&str; 8] = [
    "curtail_requests",
    "curtail_queue_duration_us",
    "curtail_copies_started",
    "curtail_copies_won",
    "curtail_copies_ended",
    "curtail_cancellations",
    "curtail_hedges_refused",
    "curtail_ejections",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    Requests,
    /// The sum of the times that queries have waited.
    QueueDuration,
    CopiesStarted,
    CopiesWon,
    CopiesEnded,
    Cancellations,
    HedgesRefused,
    Ejections,
}

/// The gauges.
pub(crate) const GAUGES: [&str; 2] = ["curtail_queue_length", "curtail_rescue_suspects"];

/// The kind of counters that have only one.
const ALL: &str = "all";

/// How copies end ([`CopyEnd::name`]).
const ENDS: [&str; 11] = [
    "good",
    "request",
    "refused",
    "bad",
    "reset",
    "connect_failed",
    "malformed",
    "local",
    "over_limit",
    "stopped",
    "lost",
];

/// How requests end.
const REQUESTS: [&str; 3] = ["answered", "failed", "shed"];

/// The numbers of a shard.
pub(crate) struct Metrics {
    service: String,
    shard: String,
    policy: String,
    /// For each counter, its kinds.
    tallies: [Vec<Tally>; COUNTERS.len()],
}

struct Tally {
    kind: &'static str,
    count: AtomicU64,
    /// How much of it Envoy has got.
    passed_on: AtomicU64,
}

impl Metrics {
    pub(crate) fn new(service: &str, shard: &str, policy: &str) -> Arc<Self> {
        let roles = Role::ALL.map(Role::name);
        let starts = StartReason::ALL.map(StartReason::name);
        let stops = StopReason::ALL.map(StopReason::name);
        let one: &[_] = &[ALL];
        let kinds = [&REQUESTS[..], one, &starts, &roles, &ENDS, &stops, one, one];
        let tally = |&kind: &&'static str| Tally {
            kind,
            count: AtomicU64::new(0),
            passed_on: AtomicU64::new(0),
        };
        Arc::new(Self {
            service: service.to_owned(),
            shard: shard.to_owned(),
            policy: policy.to_owned(),
            tallies: kinds.map(|kinds| kinds.iter().map(tally).collect()),
        })
    }

    fn tally(&self, counter: Counter, kind: &str) -> Option<&Tally> {
        self.tallies[counter as usize].iter().find(|tally| tally.kind == kind)
    }

    fn add(&self, counter: Counter, kind: &str, value: u64) {
        if let Some(tally) = self.tally(counter, kind) {
            tally.count.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// A request has ended.
    pub(crate) fn ended<R, V>(&self, result: &Result<R, QueryError<V>>) {
        let kind = match result {
            Ok(_) => REQUESTS[0],
            Err(QueryError::Failed { .. } | QueryError::Timeout) => REQUESTS[1],
            Err(QueryError::QueueFull | QueryError::GaveWay | QueryError::Expired) => REQUESTS[2],
        };
        self.add(Counter::Requests, kind, 1);
    }

    /// Passes on what there is to Envoy.
    pub(crate) fn flush(&self, desk: &OpenDesk<'_>, core: &Core, suspects: u32) {
        let labels = |kind| [&*self.service, &*self.shard, &*self.policy, kind];
        if let Some(refused) = self.tally(Counter::HedgesRefused, ALL) {
            refused.count.store(core.hedges_refused(), Ordering::Relaxed);
        }
        for (counter, tallies) in self.tallies.iter().enumerate() {
            for Tally { kind, count, passed_on } in tallies {
                let count = count.load(Ordering::Relaxed);
                let gained = count - passed_on.swap(count, Ordering::Relaxed);
                // Envoy forgets a counter that no listener uses, so a new one must use it soon.
                if count > 0 {
                    desk.add(counter, &labels(kind), gained);
                }
            }
        }
        for (gauge, level) in [core.waiting(GroupId(0)), suspects].into_iter().enumerate() {
            desk.set(gauge, &labels(ALL), level.into());
        }
    }
}

/// Observes the cell of a shard.
pub(crate) struct Watcher(pub(crate) Arc<Metrics>);

impl Observer for Watcher {
    fn copy_started(&self, _: CopyInfo, why: StartReason) {
        self.0.add(Counter::CopiesStarted, why.name(), 1);
    }

    fn copy_cancelled(&self, _: CopyInfo, why: StopReason) {
        self.0.add(Counter::Cancellations, why.name(), 1);
    }

    fn copy_ended(&self, copy: CopyInfo, end: CopyEnd, won: bool, _: u64) {
        self.0.add(Counter::CopiesEnded, end.name(), 1);
        if won {
            self.0.add(Counter::CopiesWon, copy.role.name(), 1);
        }
    }

    fn query_started(&self, _: GroupId, queued_ns: u64) {
        self.0.add(Counter::QueueDuration, ALL, queued_ns / 1_000);
    }

    fn ejected(&self, _: ServerId, _: EjectionCause) {
        self.0.add(Counter::Ejections, ALL, 1);
    }
}

#[cfg(test)]
mod tests {
    use curtail_kernel::{Fault, Outcome};
    use curtail_runtime::Failure;

    use super::*;

    #[test]
    fn counters_have_names_in_their_order() {
        for (counter, name) in [
            (Counter::Requests, "requests"),
            (Counter::QueueDuration, "queue_duration_us"),
            (Counter::CopiesStarted, "copies_started"),
            (Counter::CopiesWon, "copies_won"),
            (Counter::CopiesEnded, "copies_ended"),
            (Counter::Cancellations, "cancellations"),
            (Counter::HedgesRefused, "hedges_refused"),
            (Counter::Ejections, "ejections"),
        ] {
            assert_eq!(COUNTERS[counter as usize], format!("curtail_{name}"));
        }
    }

    #[test]
    fn every_end_of_a_copy_is_counted() {
        let faults = [Fault::Status, Fault::Reset, Fault::ConnectFailed, Fault::Malformed];
        let outcomes = faults.map(Outcome::Failed).into_iter().chain([
            Outcome::Good,
            Outcome::Request,
            Outcome::Refused,
            Outcome::Local,
            Outcome::OverLimit,
        ]);
        let ends = outcomes.map(CopyEnd::Finished).chain([
            CopyEnd::Stopped(None),
            CopyEnd::Lost,
            CopyEnd::Failed(Failure::Reset),
        ]);
        let metrics = Metrics::new("a", "b", "psq");
        for end in ends {
            assert!(metrics.tally(Counter::CopiesEnded, end.name()).is_some(), "{end:?}");
        }
    }
}
