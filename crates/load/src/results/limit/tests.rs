use super::*;
use crate::plan::Plan;
use crate::results::facts::End;

const MS: u64 = 1_000_000;

/// 600 requests per second over 4 connections, by a thread with time left.
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
fn connections_that_are_all_busy_are_the_limit_and_the_advice_is_how_many_it_takes() {
    // Four connections with responses after 10 ms are good for 400 of 600 per second.
    let limit = limit(&record(2_900, 10, 10), &facts(0.95, 0.0), 3_000, true);
    assert_eq!(limit, Limit::Connections { waited: 2_900, connections: 4, advised: 12 });
    assert_eq!(limit.to_string(), "2900 found all 4 connections busy: use more (-c 12)");
    // A few exponential times in the beginning may have half of the mean by chance.
    let few = Record { few_busy: Busy { count: 20, sum_ns: 80 * MS }, ..record(2_900, 10, 10) };
    assert!(matches!(self::limit(&few, &facts(0.95, 0.0), 3_000, true), Limit::Connections { .. }));
    // Even if nothing is known of the time with few of them: a server is not blamed unseen.
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
        "with all connections busy a response took 40ms, with at most half of them 10ms: the server does not \
         sustain this rate"
    );
    let none_waited = self::limit(&record(0, 10, 10), &facts(0.95, 0.001), 3_000, false);
    assert_eq!(none_waited, Limit::Server { few_ns: None, all_ns: None });
}

#[test]
fn a_thread_without_time_left_is_the_limit_whatever_else_was_busy() {
    let limit = limit(&record(60_000, 1, 9), &facts(0.01, 0.02), 60_000, true);
    assert_eq!(limit, Limit::Threads { threads: 1, idle: 0.01 });
    let text = "a sending thread had 1 % of its time left: use more (-t 2) or a lower rate";
    assert_eq!(limit.to_string(), text);
    // Others had its processor half of the time.
    let limit = self::limit(&record(60_000, 1, 9), &facts(0.01, 0.5), 60_000, true);
    assert_eq!(limit, Limit::Processor { queued: 0.5, spin: false });
}

#[test]
fn others_that_keep_a_thread_off_its_processor_are_the_limit_of_a_late_run() {
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
