//! Tests scripts, which are played step by step with exact times and are refused if they are
//! invalid.

use curtail_kernel::{Limits, Policy};
use curtail_sim::script::{Script, Step, What, play};

const MS: u64 = 1_000_000;

fn script(policy: &str, steps: impl IntoIterator<Item = (u64, What)>) -> Script {
    let steps = steps.into_iter().map(|(at_ns, what)| Step { at_ns, what }).collect();
    let policy = Policy::parse(policy, None).expect(policy);
    let limits = Limits::default();
    Script { policy, servers: 1, slots: 1, limits, seed: 1, learned: None, steps }
}

fn query(service_ns: u64) -> What {
    What::Arrive { service_ns, jitter_ns: [0, 0] }
}

fn log(script: &Script) -> Vec<String> {
    let log = play(script).expect("a script that can be played");
    log.iter().map(|entry| entry.to_string().trim_start().to_owned()).collect()
}

#[test]
fn simultaneous_events_have_an_order() {
    let mut script = script("psq", [(0, query(3 * MS)), (1, query(MS)), (3 * MS, query(MS))]);
    script.limits.timeout_ns = 3 * MS;
    // The copy still ends within its timeout, then the second query begins, and then the third one
    // arrives.
    assert_eq!(
        log(&script),
        [
            "0.000000 ms  q0 arrives",
            "0.000000 ms  -> start c0 of q0 on s0: Primary, Arrival",
            "0.000001 ms  q1 arrives",
            "3.000000 ms  c0 finished: Good",
            "3.000000 ms  -> answer q0 by c0",
            "3.000000 ms  -> start c1 of q1 on s0: Primary, Queue",
            "3.000000 ms  q2 arrives",
            "3.000001 ms  tick",
            "3.000001 ms  -> fail q1: Timeout",
            "4.000000 ms  c1 finished: Good",
            "4.000000 ms  -> start c2 of q2 on s0: Primary, Queue",
            "5.000000 ms  c2 finished: Good",
            "5.000000 ms  -> answer q2 by c2",
        ]
    );
}

#[test]
fn queries_are_numbered_by_arrival_and_ended_ones_cannot_leave() {
    let steps = [(0, query(MS)), (2 * MS, query(MS)), (2 * MS, What::Leave(0))];
    let log = log(&script("psq", steps));
    assert_eq!(log.last().expect("it ends"), "3.000000 ms  -> answer q1 by c1");
    assert!(!log.iter().any(|line| line.contains("abandoned")), "{log:?}");
}

#[test]
fn invalid_scripts_are_refused() {
    let refusal = |script: &Script| play(script).expect_err("refused").to_string();
    let error = |steps: &[(u64, What)]| refusal(&script("psq", steps.iter().copied()));
    assert!(error(&[(5, query(1)), (4, query(1))]).contains("a step, in ns, is 4; use a number"));
    assert!(error(&[(0, What::Leave(0))]).contains("a query that has arrived"));
    assert!(
        error(&[(0, query(1)), (0, What::Leave(1))]).contains("is 1; use a number from 0 to 0")
    );
    assert!(error(&[(0, What::Down(1))]).contains("a server is 1"));
    assert!(error(&[(0, query(u64::MAX))]).contains("the time of a copy"));
    assert!(refusal(&script("tied", [])).contains("needs servers that report"));
    assert!(refusal(&script("laedge:cc", [])).contains("cancel"));
    let mut script = script("psq", []);
    script.limits.cancel_timeout_ns = MS;
    assert!(refusal(&script).contains("remove the cancel timeout"));
    script.servers = 0;
    script.limits = Limits::default();
    assert!(refusal(&script).contains("servers is 0; use a number from 1"));
}
