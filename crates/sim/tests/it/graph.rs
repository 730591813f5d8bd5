//! Tests graphs of services: the benefit of end-to-end control, and errors in files.

use crate::common::planned;
use curtail_sim::graph::{Graph, GraphFile, GraphOutcome, Replicated, WorkflowOutcome, replicate};

/// The example of document 002 §5.1.3: w1 passes through A, B and E, and w2 passes only through A.
/// E is slow: w1 needs four times the capacity that E has. If the rate of w1 is not limited at the
/// entry, A runs out of threads, because each call to B holds one.
const OUTAGE: &str = r#"
duration = "20s"
warmup = "5s"
timeout = "1s"
[[service]]
name = "a"
instances = 2
resource = [{ name = "threads", slots = 8 }]
[[service]]
name = "b"
instances = 2
[[service]]
name = "e"
instances = 2
resource = [{ name = "disk", slots = 1 }]
[[workflow]]
name = "w1"
clients = [{ open = 200 }]
at.a = ["use threads exp:10ms", "call b via threads"]
at.b = ["call e"]
at.e = ["use disk exp:40ms"]
[[workflow]]
name = "w2"
clients = [{ open = 200 }]
at.a = ["use threads exp:10ms"]
"#;

fn all(text: &str, controls: &[&str], threads: usize) -> Vec<Replicated> {
    replicated(text, controls, threads, 2)
}

fn replicated(text: &str, controls: &[&str], threads: usize, replications: u32) -> Vec<Replicated> {
    let file: GraphFile = curtail_config::parse("graph", text).expect("it is well formed");
    let graph = Graph::new(&file).expect("it can be simulated");
    let controls: Vec<_> = controls.iter().map(|name| name.parse().expect("a control")).collect();
    let run = planned(threads, |plan| replicate(&graph, &controls, 3, replications, plan));
    run.0.expect("nothing stops it")
}

fn of<'o>(outcome: &'o GraphOutcome, name: &str) -> &'o WorkflowOutcome {
    outcome.workflows.iter().find(|of| of.name == name).expect("it is one of them")
}

#[test]
fn a_slow_service_far_down_hurts_only_those_that_need_it() {
    let outcomes = all(OUTAGE, &["timeouts", "fifo+rc", "fq+fifo+rc"], 2);
    let [timeouts, rates, fair] = &outcomes[..] else { panic!("there are three") };
    assert!(of(&timeouts.mean, "w2").goodput < 20.0, "the outage: {:?}", of(&timeouts.mean, "w2"));
    for outcome in [rates, fair] {
        let (w1, w2) = (of(&outcome.mean, "w1"), of(&outcome.mean, "w2"));
        assert!(w2.goodput > 0.99 * w2.offered, "{w2:?}");
        assert!(w1.goodput > 30.0, "the capacity is 50 per second: {w1:?}");
        assert!(outcome.mean.wasted_work < 0.08, "{}", outcome.mean.wasted_work);
    }
}

#[test]
fn rate_control_limits_w1_at_the_entry_and_wastes_little_work() {
    // From 10 s on, E has an eighth of its capacity.
    let text = OUTAGE
        .replace("\"20s\"", "\"40s\"")
        .replace("\"5s\"", "\"15s\"")
        .replace("slots = 1 ", "slots = 8, changes_at = \"10s\", then_slots = 1 ")
        .replace("name = \"b\"\n", "name = \"b\"\nresource = [{ name = \"cpu\", slots = 4 }]\n")
        .replace("[\"call e\"]", "[\"use cpu exp:5ms\", \"call e\"]");
    let outcomes = all(&text, &["timeouts", "fifo+rc"], 2);
    let [timeouts, rates] = &outcomes[..] else { panic!("there are two") };
    // The share of B's work for w1 that was done for requests without a response by their deadline.
    let wasted = |outcome: &GraphOutcome| {
        let busy_s = outcome.services[1].utilization[0].1 * 8.0 * 40.0;
        let good: f64 = of(outcome, "w1").series.iter().map(|sample| sample.good).sum();
        1.0 - good * 0.005 / busy_s
    };
    let median_ms = |outcome: &GraphOutcome, from: usize, until: usize| {
        let samples = &of(outcome, "w2").series[from..until];
        samples.iter().map(|sample| sample.p50_ms).sum::<f64>() / samples.len() as f64
    };
    let bare = &timeouts.mean;
    assert!(of(bare, "w2").goodput < 20.0, "w2 suffers: {:?}", of(bare, "w2").goodput);
    assert!(wasted(bare) > 0.3 && bare.wasted_work > 0.2, "{} {}", wasted(bare), bare.wasted_work);
    let limited = &rates.mean;
    let (w1, w2) = (of(limited, "w1"), of(limited, "w2"));
    assert!(w2.goodput > 0.99 * w2.offered, "{} of {}", w2.goodput, w2.offered);
    let (before, after) = (median_ms(limited, 2, 10), median_ms(limited, 15, 39));
    assert!(after < 1.1 * before, "w2 takes {after} ms, and {before} ms before");
    assert!(w1.goodput > 35.0, "the capacity is 50 per second: {}", w1.goodput);
    let turned: Vec<f64> = limited.services.iter().map(|of| of.dropped_at_admission).collect();
    assert!(turned[0] > 20.0 * (turned[1] + turned[2]), "at the entry: {turned:?}");
    assert!(wasted(limited) < 0.08, "{}", wasted(limited));
    assert!(limited.wasted_work < 0.05, "{}", limited.wasted_work);
}

#[test]
fn guards_from_the_literature_keep_goodput_up() {
    for outcome in all(OUTAGE, &["google", "gradient2", "dagor", "prices"], 2) {
        let (name, w2) = (&outcome.mean.control, of(&outcome.mean, "w2"));
        let good = of(&outcome.mean, "w1").goodput + w2.goodput;
        assert!(good > 60.0, "{name} admits some requests: {good}");
    }
}

#[test]
fn results_do_not_depend_on_threads_and_have_intervals() {
    let short = OUTAGE.replace("20s", "7s");
    let text = |threads| {
        serde_json::to_string(&all(&short, &["lstf+rc", "dagor"], threads))
            .expect("it is plain data")
    };
    let one = text(1);
    assert_eq!(one, text(3));
    assert!(one.contains("\"ci95\":{\"all\":{\"dropped\":"), "it has intervals");
}

#[test]
fn load_factors_leave_fixed_clients_unchanged() {
    let text = OUTAGE.replacen("{ open = 200 }", "{ open = 200, fixed = true }", 1);
    let file: GraphFile = curtail_config::parse("graph", &text).expect("it is well formed");
    let graph = Graph::new(&file).expect("it can be simulated");
    let offered = |graph: Graph| {
        let control = ["timeouts".parse().expect("a control")];
        let run = planned(1, |plan| replicate(&graph, &control, 3, 1, plan));
        let outcome = run.0.expect("nothing stops it");
        ["w1", "w2"].map(|name| (of(&outcome[0].mean, name).offered / 10.0).round() as u32)
    };
    assert_eq!(offered(graph.clone().loaded(0.5)), [20, 10]);
    assert_eq!(offered(graph.divided(2).expect("two of each")), [10, 10], "a part of all");
}

#[test]
fn every_request_ends_in_one_way() {
    for outcome in replicated(OUTAGE, &["timeouts", "srtf", "fq+edf+rc", "prices"], 2, 1) {
        let all = &outcome.mean.all;
        let parts = all.goodput / all.offered + all.late + all.dropped + all.timed_out;
        assert!((parts - 1.0).abs() < 1e-9, "{}: {parts}", outcome.mean.control);
    }
}

/// Returns a graph with a store at 80 % load. One of its four processes has a fault from 5 s to 10
/// s.
fn faulty(fault: &str) -> String {
    format!(
        r#"
duration = "20s"
sample = "5s"
timeout = "1s"
[[service]]
name = "a"
instances = 2
resource = [{{ name = "threads", slots = 50 }}]
[[service]]
name = "s"
instances = 4
resource = [{{ name = "disk", slots = 2 }}]
fault = [{{ instance = 1, at = "5s", until = "10s", {fault} }}]
[[workflow]]
name = "w"
deadline = "300ms"
clients = [{{ open = 300 }}, {{ closed = 10, think = "500ms" }}]
at.a = ["call s via threads", "use threads exp:1ms"]
at.s = ["use disk exp:20ms"]
"#
    )
}

#[test]
fn a_fault_costs_what_the_process_would_have_done_and_leaves_nothing_behind() {
    for (fault, least) in [
        ("kind = \"down\"", 0.85),
        ("kind = \"slow\", times = 4", 0.75),
        ("kind = \"silent\"", 0.97),
        ("kind = \"nonsense\"", 0.97),
    ] {
        let outcome = &replicated(&faulty(fault), &["fifo+rc"], 2, 2)[0].mean.all;
        let good: Vec<f64> = outcome.series.iter().map(|of| of.good / 5.0).collect();
        assert!(good[1] > least * good[0], "{fault}: {good:?}");
        assert!(good[2] > 0.97 * good[0], "{fault}: {good:?}");
    }
}

#[test]
fn requests_end_in_one_way_when_processes_die() {
    for instance in ["a", "s"] {
        let text = faulty("kind = \"down\"")
            .replace("fault = [", "was = [")
            .replace(&format!("name = \"{instance}\"\n"), &format!("name = \"{instance}\"\nfault = [{{ instance = 0, at = \"5s\", until = \"6s\", kind = \"down\" }}]\n"));
        let text: String = text
            .lines()
            .filter(|line| !line.starts_with("was"))
            .map(|line| format!("{line}\n"))
            .collect();
        for route in ["random", "key:3", "c3", "least-outstanding"] {
            let text =
                text.replace("name = \"s\"\n", &format!("name = \"s\"\nroute = \"{route}\"\n"));
            for outcome in replicated(&text, &["timeouts", "lstf+rc", "dagor"], 2, 1) {
                let all = &outcome.mean.all;
                let parts = all.goodput / all.offered + all.late + all.dropped + all.timed_out;
                let name = &outcome.mean.control;
                assert!((parts - 1.0).abs() < 1e-9, "{instance} {route} {name}: {parts}");
                assert!(
                    all.dropped > 0.001 && all.goodput > 0.9 * all.offered,
                    "{instance} {route} {name}: {all:?}"
                );
            }
        }
    }
}

#[test]
fn lost_and_late_announcements_cost_little_but_none_at_all_costs_much() {
    let overload = include_str!("../../../../lab/soa/goodput.toml")
        .replace("70s", "16s")
        .replace("10s", "6s")
        .replace("open = 100", "open = 200");
    let good = |flow: &str| {
        let text = format!("{flow}\n{overload}");
        replicated(&text, &["lstf+rc"], 2, 2)[0].mean.all.goodput
    };
    let (all, some, none) =
        (good(""), good("flow = { loss = 0.3, delay = 0.3 }"), good("flow.loss = 1.0"));
    assert!(some > 0.95 * all, "{some} of {all}");
    assert!(none < 0.8 * all, "{none} of {all}");
}

#[test]
fn callers_that_rank_replicas_avoid_those_that_are_slow() {
    let text = faulty("kind = \"silent\"")
        .replace("instances = 4", "instances = 4\nfluctuates = { every = \"500ms\", times = 3 }")
        .replace("exp:20ms", "exp:12ms");
    let good = |route: &str| {
        let text = text.replace("name = \"s\"\n", &format!("name = \"s\"\nroute = \"{route}\"\n"));
        replicated(&text, &["lstf+rc"], 2, 2)[0].mean.all.goodput
    };
    let (random, c3) = (good("random"), good("c3"));
    assert!(c3 > 1.05 * random, "{c3} beside {random}");
}

#[test]
fn graph_errors_name_their_place() {
    let error = |from: &str, to: &str| {
        let text = OUTAGE.replace(from, to);
        assert_ne!(text, OUTAGE);
        let file: GraphFile = curtail_config::parse("graph", &text).expect("it is well formed");
        Graph::new(&file).expect_err("it is wrong").to_string()
    };
    for (from, to, expected) in [
        ("\"20s\"", "\"soon\"", "duration: \"soon\" is not a time"),
        ("\"20s\"", "\"4s\"", "duration: must be longer than warmup and timeout"),
        ("call e\"", "call f\"", "workflow w1 at b: \"call f\": at.f is missing"),
        (
            "use disk",
            "use disks",
            "workflow w1 at e: \"use disks exp:40ms\": e has no resource disks",
        ),
        ("exp:40ms", "exp:-1ms", "workflow w1 at e: \"exp:-1ms\""),
        ("[\"call e\"]", "[\"call a\"]", "workflow w1: its calls form a circle"),
        ("call e\"", "call e x0\"", "the number of parallel calls must be x1 to x10000"),
        ("open = 200", "open = 0", "workflow w1: open = 0: must be above 0"),
        ("open = 200", "open = 1e7", "workflow w1: open = 10000000: must be above 0 and at most"),
        (
            "open = 200",
            "closed = 1000000000",
            "workflow w1: closed = 1000000000: must be at most 100000 clients",
        ),
        ("open = 200", "from = \"60s\", open = 200", "workflow w1: clients begin at 60s and end"),
        ("timeout = \"1s\"", "timeout = \"0s\"", "timeout: \"0s\": must be above 0s"),
        ("timeout = \"1s\"", "timeout = \"-1s\"", "timeout: \"-1s\" is"),
        ("timeout = \"1s\"", "sample = \"1e30s\"", "sample: \"1e30s\" is out of range"),
        ("name = \"w2\"", "name = \"w1\"", "two workflows have the same name"),
        (
            "instances = 2\n[[service]]\nname = \"e\"",
            "instances = 0\n[[service]]\nname = \"e\"",
            "service b: 0 instances",
        ),
        ("slots = 1 ", "slots = 0 ", "service e: resource disk: slots and queue must be"),
        ("timeout = \"1s\"", "flow.target = 7.0", "flow.target = 7: must be between 0 and 1"),
        ("timeout = \"1s\"", "flow.loss = 7.0", "flow.loss = 7: loss must be 0 to 1"),
        (
            "name = \"e\"",
            "name = \"e\"\nroute = \"rescue\"",
            "service e: route \"rescue\"; write random, key, key:N, c3",
        ),
        (
            "name = \"e\"",
            "name = \"e\"\nfault = [{ instance = 2, at = \"1s\", until = \"2s\", kind = \"down\" }]",
            "service e: fault at 1s: it must end after it begins, and its instance must exist",
        ),
        (
            "name = \"e\"",
            "name = \"e\"\nfluctuates = { every = \"1s\", times = 0 }",
            "service e: times = 0: must be 0.001 to 1000",
        ),
        ("timeout = \"1s\"", "flow.speed = 7.0", "flow.speed = 7: use interval, quantile"),
    ] {
        let error = error(from, to);
        assert!(error.contains(expected), "{error}");
    }
    let wrong = "edf+lstf+rc".parse::<curtail_sim::graph::Control>().expect_err("it is wrong");
    assert!(wrong.contains("two disciplines"), "{wrong}");
    let wrong = "fq+fifo+tc".parse::<curtail_sim::graph::Control>().expect_err("it is wrong");
    assert!(wrong.contains("\"tc\" is not one of fq, rc, fifo"), "{wrong}");
}
