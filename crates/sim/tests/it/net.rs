//! Tests clients that share servers: compares them with theory and with each other, and checks
//! invalid input.

use crate::common::{assert_agrees, mean, percentile, refusal, run, run_on, run_one, with};
use curtail_sim::{Outcome, Parameters};

fn shared(text: &str) -> Parameters {
    with(&format!("replicas = 3, slots = 4, service = 'exp:4ms', network = 'det:250us', {text}"))
}

fn p99(outcome: &Outcome) -> f64 {
    percentile(outcome, 99.0).0
}

#[test]
fn a_server_that_many_clients_share_is_one_queue() {
    // In M/M/4 at a utilization of 0.7, a query waits with probability 0.4287. If it waits, it
    // waits for 1 / (4 · 0.3) mean service times on average.
    let text = "servers = 1, clients = 20, replicas = 1, slots = 4, utilization = 0.7, requests = 40_000, \
                replications = 20";
    let outcome = run_one(&with(text), "random");
    assert_agrees("mean sojourn", mean(&outcome), 1.0 + 0.4287 / 1.2, 0.03);
    let wait = outcome.queue.expect("stable").mean_wait;
    assert!((wait - 0.4287 / 1.2).abs() < 0.02, "{wait}");
    assert!((outcome.utilization.busy.expect("it is known") - 0.7).abs() < 0.02);
}

#[test]
fn changing_speeds_have_the_capacity_of_their_mean() {
    let text = "servers = 8, clients = 8, requests = 30_000, replications = 2, utilization = 0.6, \
                speed = '3:10ms', repair = 0.1";
    let busy = run_one(&shared(text), "least-outstanding").utilization.busy.expect("it is known");
    // A tenth of the requests go to all three servers. Slower servers get the same share of
    // requests, but need more time for each.
    assert!((0.72..0.82).contains(&busy), "{busy}");
}

#[test]
fn feedback_pays_if_speeds_change_slowly_and_the_oracle_is_best() {
    let text = "servers = 20, clients = 60, requests = 100_000, replications = 2, utilization = 0.7, \
                speed = '3:300ms'";
    let outcomes = run(&shared(text), &["oracle", "c3", "prequal", "least-outstanding", "random"]);
    let [oracle, c3, prequal, least, random] = &outcomes[..] else { panic!("five policies") };
    assert!(p99(oracle) < p99(c3) && p99(c3) < 0.9 * p99(least), "{} {}", p99(c3), p99(least));
    assert!(p99(oracle) < p99(prequal) && p99(prequal) < 0.9 * p99(least));
    assert!(p99(least) < p99(random));
}

#[test]
fn results_depend_on_the_seed_and_on_nothing_else() {
    let text = "servers = 6, clients = 9, slots = 4, service = 'exp:4ms', requests = 3000, \
                replications = 3, utilization = 0.5, speed = '3:50ms', demand = '0.2:0.8', \
                repair = 0.2, network = 'exp:1ms'";
    let policies = ["c3", "prequal", "tied", "delayed:8ms:cc", "rescue", "oracle"];
    let json = |threads| -> Vec<String> {
        let outcomes = run_on(threads, &with(text), &policies);
        let request = |outcome: &Outcome| format!("{:?} {:?}", outcome.request, outcome.servers);
        outcomes.iter().map(request).collect()
    };
    assert_eq!(json(1), json(3));
}

#[test]
fn copies_that_are_cancelled_stop_wherever_they_are() {
    // Every query gets a second copy, and the loser is stopped. The total work is the same as with
    // one copy, except for the travel time of messages.
    let text = "servers = 6, clients = 9, replicas = 2, slots = 1, requests = 20_000, replications = 2, \
                utilization = 0.4, network = 'det:0.001'";
    let outcome = run_one(&with(text), "tied+least-outstanding");
    let busy = outcome.utilization.busy.expect("it is known");
    assert!((busy - 0.4).abs() < 0.02, "{busy}");
    assert!(outcome.copies_per_query.expect("stable") > 1.9);
}

#[test]
fn clients_do_not_share_what_they_learn() {
    // A delay is learned from 20 responses. Together the clients have 400 responses, but each
    // client has only a few.
    let copies = |clients| {
        let text = format!(
            "servers = 4, clients = {clients}, replicas = 4, requests = 400, warmup = 0, replications = 2"
        );
        run_one(&with(&text), "delayed:p95").copies_per_query.expect("stable")
    };
    assert!(copies(1) > 1.0);
    assert!((copies(100) - 1.0).abs() < 1e-9);
}

#[test]
fn clients_keep_to_the_slots_of_their_own_configuration() {
    let most = |own: &str| {
        let text = format!(
            "servers = 2, clients = 2, replicas = 2, slots = 4, requests = 5000, replications = 1, \
             utilization = 0.4{own}"
        );
        run_one(&with(&text), "psq").servers.expect("they are shared").most_outstanding
    };
    assert!(most("") > 4, "the slots that both clients assume");
    assert_eq!(most(", client-slots = 1"), 2);
}

#[test]
fn server_load_reports_client_kinds_a_surge_and_a_joining_server() {
    let text = "servers = 10, clients = 10, requests = 30_000, replications = 1, utilization = 0.2, \
                surge = '1s:3:0.6', turn = '2s:0:1', queue-series = true";
    let outcome = run_one(&shared(text), "c3");
    let load = outcome.servers.as_ref().expect("servers are shared");
    let p99 = |kind: &Option<curtail_sim::Figures>| {
        kind.as_ref().and_then(|of| of.percentile(99.0)).expect("there are such clients")
    };
    assert!(p99(&load.busy_clients) > 0.0 && p99(&load.other_clients) > 0.0);
    assert_eq!(load.load[..20].iter().sum::<u32>(), 0, "it is down");
    let turned = load.turn.expect("it turned");
    assert!(turned.most < 2.0 && (0.5..1.5).contains(&turned.next), "{turned:?}");
    assert!(load.load[30..40].iter().sum::<u32>() > 0, "it is used");
}

#[test]
fn rates_protect_clients_from_bursts_and_hold_nothing_at_high_fan_in() {
    let text = "servers = 10, clients = 10, requests = 60_000, replications = 1, utilization = 0.7, \
                demand = '0.1:0.8', arrivals = 'mmpp:3:0.1:300ms'";
    let outcomes = run(&shared(text), &["c3", "c3+cubic", "c3:literal"]);
    let loads = outcomes.iter().map(|outcome| outcome.servers.as_ref().expect("they are shared"));
    let seen: Vec<(f64, f64, u32)> = loads
        .map(|load| {
            let others = load.other_clients.as_ref().and_then(|of| of.percentile(99.0));
            (load.rate_limited, others.expect("there are some"), load.most_outstanding)
        })
        .collect();
    let (held, others, most) = seen[0];
    assert_eq!(held, 0.0, "it has no rates");
    for paced in &seen[1..] {
        assert!(paced.0 > 0.1 && paced.1 < 0.5 * others && paced.2 < most / 2, "{seen:?}");
    }
    let text = "servers = 10, clients = 150, requests = 30_000, replications = 1, utilization = 0.7, \
                speed = '3:300ms'";
    for outcome in run(&shared(text), &["c3+cubic", "c3:literal"]) {
        let held = outcome.servers.expect("they are shared").rate_limited;
        assert!(held < 0.001, "{}: {held}", outcome.policy);
    }
}

#[test]
fn a_queue_at_a_server_that_overflows_ends_the_run() {
    let text = "servers = 3, clients = 3, requests = 3000, replications = 1, utilization = 0.9, \
                queue = 5, demand = '0.4:0.9'";
    let outcome = run_one(&shared(text), "random");
    assert!(!outcome.stable && outcome.request.is_none(), "{:?}", outcome.unstable_because);
}

#[test]
fn invalid_parameters_are_refused_with_value_and_fix() {
    let bad = [
        ("clients = 3", "clients: it is for servers that clients share; add them"),
        ("servers = 0", "servers is 0; use 1 to 10000"),
        ("servers = 2", "replicas is 3; use 2 or fewer"),
        ("servers = 10000, clients = 401", "at most 4000000 pairs"),
        ("servers = 9, clients = 0", "clients is 0"),
        ("servers = 9, client-slots = 0", "client-slots is 0; use 1 to 1024"),
        ("client-slots = 2", "client-slots: it is for servers that clients share; add them"),
        ("servers = 9, speed = '3'", "speed is 3; use D:T, like 3:500ms"),
        ("servers = 9, speed = '0:1ms'", "speed is 0:1ms"),
        ("servers = 9, speed = '3:5'", "unit"),
        ("servers = 9, demand = '0.2'", "demand is 0.2; use A:B"),
        ("servers = 9, demand = '0.2:1.5'", "demand is 0.2:1.5"),
        ("servers = 9, surge = '1s:3'", "surge is 1s:3; use AT:CLIENTS:UTILIZATION"),
        ("servers = 9, turn = '1s:-1:3'", "turn is 1s:-1:3"),
        ("servers = 9, speed = '3:5ms', turn = '1s:1:3'", "remove one"),
        ("servers = 9, speed = '3:0ms'", "speed is 3:0ms; use a time of 1us or more"),
        ("servers = 9, load-window = '0ms'", "load-window is 0ms; use a time of 1us or more"),
        ("servers = 9, clients = 3, surge = '1s:4:0.6'", "with 1 to 3 clients"),
        ("servers = 9, surge = '1ms:1:0.1'", "with a utilization above 0.3"),
        ("servers = 9, surge = '9999s:1:0.5'", "it comes after the last of"),
        ("servers = 9, turn = '9999s:1:2'", "turn: it comes after the last of"),
        ("chunk = '1ms'", "chunk: it is for servers that clients share"),
        ("servers = 9, shards = 5", "shards: it is only for shards"),
        ("servers = 9, repair = 2.0", "repair is 2"),
        ("servers = 9, score-exponent = 0", "score-exponent"),
        ("servers = 9, tune = ['burst']", "tune is burst; use NAME=VALUE"),
        ("servers = 9, tune = ['bursts=3']", "use one of clients, score-exponent"),
        ("servers = 9, tune = ['burst=0']", "burst is out of range"),
        ("servers = 9, slowdown = 'exp:10ms/exp:5ms/0.2'", "slowdown: it is only for shards, not"),
    ];
    for (text, expected) in bad {
        let error = refusal(&shared(text));
        assert!(error.contains(expected), "{text}: {error}");
    }
}
