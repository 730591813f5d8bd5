//! Determines what limited a run that missed its planned load, that is, which part had no spare
//! capacity.
//!
//! The server is the limit only if the connections and the sending threads had spare capacity, or
//! if responses slowed down visibly as more connections were in use. Otherwise the run measured the
//! generator instead of the server, and the reported reason names the option to change.

use curtail_kernel::duration::format;
use serde::Serialize;

use crate::results::facts::{Facts, Sender};
use crate::results::outcome::Busy;
use crate::results::record::Record;

/// The server is the limit if its responses take longer by more than this factor when all
/// connections are in use than when few of them are. Otherwise responses are considered equally
/// fast in both cases. The mean of a few exponential times rarely reaches this factor by chance.
const SLOWS: f64 = 2.0;
/// If a late thread spent less than this share of its time in the run queue, it was late for
/// another reason.
const QUEUED_MIN: f64 = 0.000_5;

/// What limited a run.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the messages document the fields")]
#[non_exhaustive]
pub enum Limit {
    /// All connections were in use.
    #[error("{waited} requests found all {connections} connections busy: use more (-c {advised})")]
    Connections { waited: u64, connections: usize, advised: usize },
    /// A sending thread had no idle time left.
    #[error(
        "a sending thread was idle for only {:.0} % of the time: use more threads (-t {}) or a \
         lower rate", idle * 100.0, threads + 1
    )]
    Threads { threads: usize, idle: f64 },
    /// Other processes used the processor of a sending thread.
    #[error("{}", kept_off(*.queued, *.spin))]
    Processor { queued: f64, spin: bool },
    /// The server. If the connections ran out, the fields show that responses took longer with all
    /// connections in use than with at most half of them.
    #[error("{}the server does not sustain this rate", slowed(*.few_ns, *.all_ns))]
    Server { few_ns: Option<u64>, all_ns: Option<u64> },
    /// A thread was late although it had idle time and a processor, so the whole machine must have
    /// stalled.
    #[error("use a less busy machine, or a lower rate")]
    Machine,
}

fn kept_off(queued: f64, spin: bool) -> String {
    let knob = match spin {
        // A thread that never sleeps would keep other processes off the processor permanently.
        true => "give it one of its own (--processors)",
        false => "give it priority (chrt -f 50 curtail load …, as root)",
    };
    let percent = queued * 100.0;
    format!(
        "other processes kept a sending thread off its processor for {percent:.1} % of the time: {knob}, or use a \
         less busy machine"
    )
}

fn slowed(few_ns: Option<u64>, all_ns: Option<u64>) -> String {
    let times = few_ns.zip(all_ns);
    times.map_or_else(String::new, |(few, all)| {
        format!(
            "a response took {} with all connections busy, and {} with at most half of them: ",
            short(all),
            short(few)
        )
    })
}

/// Returns what limited a run in which `missed` requests were late, or got no response in time.
/// `late` is true if the sender was late.
pub(crate) fn limit(record: &Record, facts: &Facts<'_>, missed: u64, late: bool) -> Limit {
    let sender = facts.sender;
    let processor = |queued| Limit::Processor { queued, spin: facts.plan.spin };
    if let Some(sender) = sender.filter(Sender::spent) {
        // To such a thread, connections seem busy because it has not read their responses.
        return match sender.queued.filter(|_| sender.lacks_processor()) {
            Some(queued) => processor(queued),
            None => Limit::Threads { threads: facts.plan.threads, idle: sender.idle },
        };
    }
    let waited = record.waited + record.errors.dropped;
    if waited > 0 && waited * 2 >= missed {
        let [few_ns, all_ns] = [&record.few_busy, &record.all_busy].map(Busy::mean_ns);
        let slows = |(few, all): (u64, u64)| all as f64 > SLOWS * few as f64;
        let none_came = record.latency.is_empty();
        if none_came || few_ns.zip(all_ns).is_some_and(slows) {
            return Limit::Server { few_ns, all_ns };
        }
        return Limit::Connections {
            waited,
            connections: facts.plan.connections,
            advised: advised(facts, all_ns.unwrap_or_default()),
        };
    }
    match sender.and_then(|sender| sender.queued).filter(|queued| *queued >= QUEUED_MIN) {
        _ if !late => Limit::Server { few_ns: None, all_ns: None },
        Some(queued) => processor(queued),
        None => Limit::Machine,
    }
}

/// Returns twice the number of connections that are in use on average at this rate, and at least
/// 1.5 times the current number.
fn advised(facts: &Facts<'_>, response_ns: u64) -> usize {
    let in_use = facts.offered_rate().unwrap_or_default() * response_ns as f64 / 1e9;
    (2.0 * in_use).ceil().max(1.5 * facts.plan.connections as f64).ceil() as usize
}

/// Rounds to three significant digits for display: 35.205939 ms becomes 35.2 ms.
pub(crate) fn short(ns: u64) -> impl std::fmt::Display {
    let step = 10u64.pow(ns.checked_ilog10().unwrap_or(0).saturating_sub(2));
    format(ns.saturating_add(step / 2) / step * step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::results::facts::End;

    const MS: u64 = 1_000_000;

    /// Describes a run at 600 requests per second over 4 connections, in which the sending thread has
    /// some idle time.
    fn facts(idle: f64, queued: f64) -> Facts<'static> {
        let end = End::default();
        let sender = Some(Sender { idle, ran: Some(1.0 - idle), queued: Some(queued) });
        Facts { sender, ..Facts::of(plan(false), end, None) }
    }

    fn plan(spin: bool) -> &'static Plan {
        let plan = Plan::new("http://127.0.0.1:1/".parse().unwrap(), 600.0);
        Box::leak(Box::new(Plan { connections: 4, spin, ..plan }))
    }

    fn record(waited: u64, few_ms: u64, all_ms: u64) -> Record {
        let busy = |ms| Busy { count: 100, sum_ns: 100 * ms * MS };
        let mut record =
            Record { waited, few_busy: busy(few_ms), all_busy: busy(all_ms), ..Record::new() };
        let _ = record.latency.record(all_ms * MS);
        record
    }

    #[test]
    fn busy_connections_are_the_limit_and_the_advice_is_a_sufficient_number() {
        // Four connections whose responses take 10 ms serve only 400 of the 600 requests per second.
        let limit = limit(&record(2_900, 10, 10), &facts(0.95, 0.0), 3_000, true);
        assert_eq!(limit, Limit::Connections { waited: 2_900, connections: 4, advised: 12 });
        assert_eq!(
            limit.to_string(),
            "2900 requests found all 4 connections busy: use more (-c 12)"
        );
        // By chance, the mean of a few exponential times at the beginning may be half of the overall
        // mean.
        let few = Record { few_busy: Busy { count: 20, sum_ns: 80 * MS }, ..record(2_900, 10, 10) };
        assert!(matches!(
            self::limit(&few, &facts(0.95, 0.0), 3_000, true),
            Limit::Connections { .. }
        ));
        // If no response was measured with few connections in use, there is no evidence against the
        // server.
        let mut unknown = Record { waited: 2_900, ..Record::new() };
        let silent = self::limit(&unknown, &facts(0.95, 0.0), 3_000, true);
        assert_eq!(silent, Limit::Server { few_ns: None, all_ns: None }, "no response has come");
        let _ = unknown.latency.record(5 * MS);
        let found = self::limit(&unknown, &facts(0.95, 0.0), 3_000, true);
        assert_eq!(found, Limit::Connections { waited: 2_900, connections: 4, advised: 6 });
    }

    #[test]
    fn a_server_that_slows_down_as_connections_fill_is_the_limit() {
        let limit = limit(&record(2_900, 10, 40), &facts(0.95, 0.0), 3_000, true);
        assert_eq!(
            limit.to_string(),
            "a response took 40ms with all connections busy, and 10ms with at most half of them: the \
 server does not sustain this rate"
        );
        let none_waited = self::limit(&record(0, 10, 10), &facts(0.95, 0.001), 3_000, false);
        assert_eq!(none_waited, Limit::Server { few_ns: None, all_ns: None });
    }

    #[test]
    fn a_thread_that_is_never_idle_is_the_limit_even_if_connections_were_busy() {
        let limit = limit(&record(60_000, 1, 9), &facts(0.01, 0.02), 60_000, true);
        assert_eq!(limit, Limit::Threads { threads: 1, idle: 0.01 });
        let text = "a sending thread was idle for only 1 % of the time: use more threads (-t 2) or a \
    lower rate";
        assert_eq!(limit.to_string(), text);
        // Other processes used the thread's processor half of the time.
        let limit = self::limit(&record(60_000, 1, 9), &facts(0.01, 0.5), 60_000, true);
        assert_eq!(limit, Limit::Processor { queued: 0.5, spin: false });
    }

    #[test]
    fn processes_that_keep_a_thread_off_its_processor_are_the_limit_of_a_late_run() {
        let late = |queued, spin| {
            let facts = Facts { plan: plan(spin), ..facts(0.9, queued) };
            limit(&record(3, 10, 10), &facts, 40, true).to_string()
        };
        let text = late(0.034, false);
        assert!(text.contains("off its processor for 3.4 % of the time"), "{text}");
        assert!(text.contains("chrt -f 50 curtail load"), "{text}");
        assert!(late(0.034, true).contains("(--processors)"), "it would keep them off for good");
        assert_eq!(late(0.0, false), "use a less busy machine, or a lower rate");
    }
}
