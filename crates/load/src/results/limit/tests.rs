use super::*;
use crate::plan::Plan;
use crate::results::facts::End;

const MS: u64 = 1_000_000;

/// Describes a run at 600 requests per second over 4 connections, in which the sending thread has
/// some idle time.
fn facts(idle: f64, queued: f64) -> Facts {
    let mut plan = Plan::new("http://127.0.0.1:1/".parse().unwrap(), 600.0);
    plan.connections = 4;
    let end = End { last_ns: 0, cut_ns: None, enough_ns: None };
    let sender = Some(Sender { idle, ran: Some(1.0 - idle), queued: Some(queued) });
    Facts { sender, ..Facts::of(&plan, end, None) }
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
    assert_eq!(limit.to_string(), "2900 requests found all 4 connections busy: use more (-c 12)");
    // By chance, the mean of a few exponential times at the beginning may be half of the overall
    // mean.
    let few = Record { few_busy: Busy { count: 20, sum_ns: 80 * MS }, ..record(2_900, 10, 10) };
    assert!(matches!(self::limit(&few, &facts(0.95, 0.0), 3_000, true), Limit::Connections { .. }));
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
        let facts = Facts { spin, ..facts(0.9, queued) };
        limit(&record(3, 10, 10), &facts, 40, true).to_string()
    };
    let text = late(0.034, false);
    assert!(text.contains("off its processor for 3.4 % of the time"), "{text}");
    assert!(text.contains("chrt -f 50 curtail load"), "{text}");
    assert!(late(0.034, true).contains("(--processors)"), "it would keep them off for good");
    assert_eq!(late(0.0, false), "use a less busy machine, or a lower rate");
}
