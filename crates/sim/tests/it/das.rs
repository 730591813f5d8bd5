//! Compares harmless duplication (DAS) with single copies, and tests the benefit of its parts.

use crate::common::{assert_agrees, mean, percentile, refusal, run, run_one, unfit, with};
use curtail_sim::{Outcome, Parameters};

fn world(text: &str) -> Parameters {
    with(&format!("servers = 10, replicas = 3, slots = 1, {text}"))
}

/// Asserts that the mean and the 99th percentile do not exceed those of the baseline by more than
/// the intervals of both.
fn assert_not_worse(outcome: &Outcome, baseline: &Outcome, context: &str) {
    let p99 = |outcome| percentile(outcome, 99.0);
    for (what, (x, half), (y, other)) in
        [("mean", mean(outcome), mean(baseline)), ("p99", p99(outcome), p99(baseline))]
    {
        let most = y + half + other;
        assert!(x <= most, "{context}, {}: {what} {x} ± {half}, not {y} ± {other}", outcome.policy);
    }
}

#[test]
fn no_load_and_no_service_time_makes_a_primary_wait_for_a_duplicate() {
    // Either all copies of a query take the same time and a duplicate is useless, or each copy
    // draws its own time and a duplicate helps.
    let times = [
        "service = 'exp:1'",
        "service = 'det:1'",
        "service = 'h2:1:3'",
        "service = 'pareto:1.5:0.33:300'",
        "service = 'det:0.01', jitter = 'h2:1:3', utilization-of = 'total'",
    ];
    let policies =
        ["random", "das", "das:nonpreemptive", "least-outstanding", "das+least-outstanding"];
    for time in times {
        for load in [0.2, 0.5, 0.8] {
            let text = format!("{time}, utilization = {load}, requests = 20_000, replications = 4");
            let outcomes = run(&world(&text), &policies);
            let [random, das, waits, least, das_least] = &outcomes[..] else { panic!("five") };
            assert_not_worse(das, random, &text);
            assert_not_worse(waits, random, &text);
            assert_not_worse(das_least, least, &text);
        }
    }
}

#[test]
fn without_a_second_server_it_is_a_single_copy() {
    // M/M/1 at 0.7. There are no duplicates, so the two outcomes do not differ.
    let text = "servers = 4, replicas = 1, slots = 1, utilization = 0.7, requests = 40_000, replications = 20";
    let outcomes = run(&with(text), &["random", "das"]);
    let [random, das] = &outcomes[..] else { panic!("two") };
    assert_eq!(das.copies_per_query, Some(1.0));
    assert_eq!(mean(das), mean(random));
    assert_agrees("mean sojourn", mean(das), 1.0 / 0.3, 0.03);
}

#[test]
fn full_duplication_without_priorities_is_unstable_where_das_is_not() {
    // With purges, cloning does twice the work for copies that begin together, as most copies do if
    // times vary little.
    let text = "service = 'lognormal:1:0.3', utilization = 0.75, requests = 60_000, replications = 2, \
                network = 'det:0.01'";
    let outcomes = run(&world(text), &["naive", "delayed:0:cc", "das", "random"]);
    let [naive, purged, das, random] = &outcomes[..] else { panic!("four") };
    assert!(!naive.stable && das.stable);
    assert!(!purged.stable || mean(purged).0 > 1.1 * mean(random).0);
    assert_not_worse(das, random, text);
}

#[test]
fn purges_free_capacity_that_priority_alone_gives_to_duplicates() {
    let text =
        "service = 'lognormal:1:0.3', utilization = 0.5, requests = 30_000, replications = 2";
    let outcomes = run(&world(text), &["das", "das:no-purge"]);
    let [das, keeps] = &outcomes[..] else { panic!("two") };
    assert!(keeps.utilization.busy > Some(0.9), "they fill the remaining capacity");
    assert!(das.utilization.busy < Some(0.8));
    assert!(mean(das).0 < 0.95 * mean(keeps).0, "{:?} {:?}", mean(das), mean(keeps));
}

#[test]
fn cancel_cost_and_purge_latency_increase_busy_time() {
    let run = |text: &str| {
        let text = format!(
            "service = 'exp:1', utilization = 0.4, requests = 30_000, replications = 2, {text}"
        );
        run_one(&world(&text), "das").utilization.busy.expect("it is known")
    };
    let at_once = run("network = 'det:0.001'");
    assert!(run("network = 'det:0.001', cancel-cost = '0.3'") > at_once + 0.02);
    assert!(run("network = 'det:0.5'") > at_once + 0.02, "duplicates run on meanwhile");
}

/// Two successive stages with exponential service times behave like two M/M/1 queues (Burke's
/// theorem).
#[test]
fn a_chain_of_stages_is_a_tandem() {
    let text = "servers = 4, replicas = 1, slots = 1, utilization = 0.5, service = 'exp:1', requests = 40_000, \
                replications = 20, stage = ['network:exp:1.2', 'link@client:det:0.05']";
    let outcome = run_one(&with(text), "random");
    // The client's link is busy for a tenth of the time, and behaves like M/D/1 with many senders.
    let link = 0.05 + 0.05 * 0.1 / (2.0 * 0.9);
    assert_agrees("mean sojourn", mean(&outcome), 2.0 + 1.2 / 0.4 + link, 0.03);
    let load = outcome.servers.expect("servers are shared");
    let busy: Vec<(String, f64)> = load.stages.iter().map(|s| (s.name.clone(), s.busy)).collect();
    let near = |at: usize, name: &str, share: f64| {
        assert!(busy[at].0 == name && (busy[at].1 - share).abs() < 0.02, "{busy:?}");
    };
    near(0, "network", 0.6);
    near(1, "link", 0.1);
}

#[test]
fn duplicates_hurt_a_legacy_bottleneck_but_not_one_with_priorities() {
    let run = |stage: &str| {
        let text = format!(
            "service = 'exp:1', utilization = 0.3, requests = 30_000, replications = 3, stage = ['{stage}']"
        );
        let outcomes = run(&world(&text), &["random", "das"]);
        let [random, das] = outcomes.try_into().expect("two");
        (random, das)
    };
    let (random, das) = run("network:exp:2");
    assert_not_worse(&das, &random, "it prioritizes");
    assert!(mean(&das).0 < 0.9 * mean(&random).0);
    let (random, das) = run("network/legacy:exp:2");
    assert!(!das.stable || mean(&das).0 > mean(&random).0, "it is overloaded by duplicates");
}

#[test]
fn idealized_and_laedge_run_here_as_they_do_in_shards() {
    let times = "service = 'exp:1', jitter = 'bimodal:0.05:10', utilization = 0.3, requests = 40_000, replications = 10";
    let shard = with(&format!("shards = 1, replicas = 3, slots = 1, {times}"));
    let shared = with(&format!("servers = 3, replicas = 3, slots = 1, {times}"));
    let policies = ["psq", "laedge", "idealized", "o1"];
    for (here, there) in run(&shared, &policies).iter().zip(&run(&shard, &policies)) {
        let ((x, half), (y, other)) = (mean(here), mean(there));
        let off = 3.0 * half.hypot(other);
        assert!((x - y).abs() < off, "{}: {x} ± {half} and {y} ± {other}", here.policy);
    }
}

#[test]
fn invalid_stages_are_refused_with_value_and_fix() {
    let bad = [
        ("stage = ['disk']", "stage is disk; use NAME[@client][/legacy]:DISTRIBUTION"),
        ("stage = ['/legacy:exp:1']", "stage is /legacy:exp:1; use NAME"),
        ("stage = ['a:exp:1', 'a:exp:1']", "each stage once"),
        (
            "stage = ['a@client:exp:1', 'b:exp:1']",
            "put the stages of clients after those of servers",
        ),
        ("stage = ['a:pareto:0.5:1']", "a mean above 0"),
        ("stage = ['a:exp:1ms']", "unit"),
        ("chunk = '0'", "chunk is 0; use a time of 1us or more"),
        ("noise = 'bimodal:2:1'", "noise"),
    ];
    for (text, expected) in bad {
        let error = refusal(&world(text));
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_shard_with_priorities_equals_a_shared_world() {
    let times = "service = 'exp:1', jitter = 'bimodal:0.05:10', utilization = 0.4, requests = 30_000, replications = 10";
    let shard = with(&format!("shards = 1, replicas = 3, slots = 1, {times}"));
    let shared = with(&format!("servers = 3, replicas = 3, slots = 1, {times}"));
    for policy in ["das", "das:nonpreemptive", "das+least-outstanding"] {
        let (here, there) = (run_one(&shard, policy), run_one(&shared, policy));
        assert_eq!(mean(&here), mean(&there), "{policy}");
        assert!(here.servers.is_none(), "they are not shared");
    }
    let several = with(&format!("shards = 5, replicas = 2, slots = 1, {times}"));
    let outcomes = run(&several, &["least-outstanding", "das+least-outstanding"]);
    let [least, das] = &outcomes[..] else { panic!("two") };
    assert_not_worse(das, least, "five shards");
    assert!(mean(das).0 < 0.8 * mean(least).0);
    let failing = with(&format!("shards = 1, replicas = 3, {times}, outage = 'exp:100/det:5'"));
    let error = unfit(&failing, "das");
    assert!(error.contains("never fail; remove outage"), "{error}");
}
