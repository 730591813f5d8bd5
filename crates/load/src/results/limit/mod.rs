//! What limited a run that missed its load: the part that had no room left.
//!
//! A server is blamed only if the connections and the sending threads had room, or if it visibly slowed down as
//! more connections were in use. Otherwise the run describes the generator, and the reason names its knob.

use curtail_kernel::duration::format;
use serde::Serialize;

use crate::results::facts::Facts;
use crate::results::outcome::Busy;
use crate::results::record::Record;
use crate::results::sender::Sender;

/// The responses of a server that is not the limit take about as long with all connections in use as with few.
/// The factor is what a mean of few exponential times hardly reaches by chance.
const SLOWS: f64 = 2.0;
/// A late thread that was in the run queue for less than this share of its time was late for another reason.
const QUEUED_MIN: f64 = 0.000_5;

/// What limited a run.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the texts say what the fields are")]
#[non_exhaustive]
pub enum Limit {
    /// All connections were in use.
    #[error("{waited} found all {connections} connections busy: use more (-c {advised})")]
    Connections { waited: u64, connections: usize, advised: usize },
    /// A sending thread had no time left.
    #[error(
        "a sending thread had {:.0} % of its time left: use more (-t {}) or a lower rate", idle * 100.0, threads + 1
    )]
    Threads { threads: usize, idle: f64 },
    /// Other processes had the processor of a sending thread.
    #[error("{}", kept_off(*.queued, *.spin))]
    Processor { queued: f64, spin: bool },
    /// The server. With all connections in use a response took longer than with at most half of them, if it was
    /// the connections that ran out.
    #[error("{}the server does not sustain this rate", slowed(*.few_ns, *.all_ns))]
    Server { few_ns: Option<u64>, all_ns: Option<u64> },
    /// A thread was late, though it had time and a processor: the machine stood still.
    #[error("use a less busy machine, or a lower rate")]
    Machine,
}

fn kept_off(queued: f64, spin: bool) -> String {
    let knob = match spin {
        // A thread that never sleeps would keep the others off the processor for good.
        true => "give it one of its own (--processors)",
        false => "let it go first (chrt -f 50 curtail load …, as root)",
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
            "with all connections busy a response took {}, with at most half of them {}: ",
            short(all),
            short(few)
        )
    })
}

/// What limited a run in which `missed` requests were late or not answered in time; `late`: late by the sender.
pub(crate) fn limit(record: &Record, facts: &Facts, missed: u64, late: bool) -> Limit {
    let sender = facts.sender;
    let processor = |queued| Limit::Processor { queued, spin: facts.spin };
    if let Some(sender) = sender.filter(Sender::spent) {
        // Such a thread finds connections busy whose responses it has not read.
        return match sender.queued.filter(|_| sender.lacks_processor()) {
            Some(queued) => processor(queued),
            None => Limit::Threads { threads: facts.threads, idle: sender.idle },
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
            connections: facts.connections,
            advised: advised(facts, all_ns.unwrap_or_default()),
        };
    }
    match sender.and_then(|sender| sender.queued).filter(|queued| *queued >= QUEUED_MIN) {
        _ if !late => Limit::Server { few_ns: None, all_ns: None },
        Some(queued) => processor(queued),
        None => Limit::Machine,
    }
}

/// Twice the connections that the rate keeps in use on average, and more than there were.
fn advised(facts: &Facts, response_ns: u64) -> usize {
    let in_use = facts.offered_rate().unwrap_or_default() * response_ns as f64 / 1e9;
    (2.0 * in_use).ceil().max(1.5 * facts.connections as f64).ceil() as usize
}

/// Rounds to three digits for people: 35.205939 ms become 35.2 ms.
pub(crate) fn short(ns: u64) -> impl std::fmt::Display {
    let step = 10u64.pow(ns.checked_ilog10().unwrap_or(0).saturating_sub(2));
    format(ns.saturating_add(step / 2) / step * step)
}

#[cfg(test)]
mod tests;
