use curtail_kernel::hedge::rescue::{Record, RescueLearner, Tried};
use curtail_kernel::hedge::{Answered, Learner as _, Records};

use curtail_kernel::{Fault, Outcome};
use curtail_runtime::CopyEnd;

use super::*;

const CONFIG: &str = r#"
    [[service]]
    name = "sea\"rch"
    policy = "bounded:3"
    slots = 2
    shard_by = { header = "x" }

    [[service.shard]]
    name = "0"
    replicas = ["127.0.0.1:9001", "127.0.0.1:9002"]

    [[service.shard]]
    name = "1"
    replicas = ["127.0.0.1:9002", "127.0.0.1:9003"]
"#;

fn metrics() -> Metrics {
    Metrics::new(&crate::config::parse("test", CONFIG).expect("a configuration"))
}

/// Checks that the text contains this line.
#[track_caller]
fn has(text: &str, line: &str) {
    assert!(text.lines().any(|at| at == line), "no line\n{line}\nin\n{text}");
}

#[test]
fn every_series_is_there_from_the_start() {
    let metrics = metrics();
    let text = metrics.render();
    has(&text, r#"curtail_requests_total{service="sea\"rch",outcome="abandoned"} 0"#);
    has(&text, r#"curtail_requests_total{service="sea\"rch",outcome="cut"} 0"#);
    has(&text, r#"curtail_responses_total{service="sea\"rch",code="2xx"} 0"#);
    has(&text, r#"curtail_queue_length{service="sea\"rch",shard="1"} 0"#);
    has(&text, "curtail_connections 0");
    has(&text, r#"curtail_rejected_total{reason="unknown_shard"} 0"#);
    // The number of copies that a server may hold is the policy's gate.
    has(&text, r#"curtail_server_slots{service="sea\"rch",server="127.0.0.1:9003"} 3"#);
    // There is one series per shard and replica.
    let starts = |line: &&str| line.starts_with("curtail_copies_started_total{");
    assert_eq!(text.lines().filter(starts).count(), 4 * StartReason::ALL.len());
    assert!(text.ends_with("# EOF\n"));
    assert_eq!(text, metrics.render(), "the order does not change");
}

#[test]
fn rescues_and_explorations_are_counted() {
    let config = CONFIG.replace("bounded:3", "rescue");
    let metrics = Metrics::new(&crate::config::parse("test", &config).expect("a configuration"));
    let rescue = metrics.services[0].rescue.as_ref().expect("it rescues");
    let threshold = "curtail_rescue_threshold_seconds{";
    let text = metrics.render();
    let labels = r#"service="sea\"rch""#;
    assert!(!text.contains(threshold), "nobody knows it: {text}");
    has(&text, &format!("curtail_rescue_state{{{labels},state=\"exploring\"}} 1"));
    has(&text, &format!("curtail_rescues_total{{{labels},outcome=\"given_up\"}} 0"));

    let finished = CopyEnd::Finished(curtail_kernel::Outcome::Good);
    let stopped = |why| CopyEnd::Stopped(Some(why));
    for (why, end, won) in [
        (StartReason::Rescue, finished, true),
        (StartReason::Rescue, finished, false),
        (StartReason::Rescue, stopped(StopReason::Cleanup), false),
        (StartReason::Rescue, stopped(StopReason::GiveUp), false),
        (StartReason::Explore, finished, true),
        (StartReason::Explore, CopyEnd::Lost, false),
        (StartReason::Explore, stopped(StopReason::Preemption), false),
        (StartReason::Arrival, finished, true),
    ] {
        rescue.ended(why, end, won);
    }
    rescue.suspects.set(2);
    rescue.learned(&taught().status());
    let text = metrics.render();
    for (name, outcome, count) in [
        ("rescues", "won", 1),
        ("rescues", "lost", 2),
        ("rescues", "given_up", 1),
        ("explorations", "won", 1),
        ("explorations", "lost", 1),
        ("explorations", "displaced", 1),
    ] {
        has(&text, &format!("curtail_{name}_total{{{labels},outcome=\"{outcome}\"}} {count}"));
    }
    assert_eq!(
        serde_json::to_value(rescue.second_copies()).expect("a status"),
        serde_json::json!({
            "rescues": { "won": 1, "lost": 2, "given_up": 1 },
            "explorations": { "won": 1, "lost": 1, "displaced": 1 },
        })
    );
    has(&text, &format!("curtail_rescue_suspects{{{labels}}} 2"));
    has(&text, &format!("curtail_rescue_fallbacks_total{{{labels}}} 0"));
    has(&text, &format!("curtail_rescue_state{{{labels},state=\"exploring\"}} 0"));
    has(&text, &format!("curtail_rescue_state{{{labels},state=\"rescuing\"}} 1"));
    let line = text.lines().find(|line| line.starts_with(threshold)).expect("it is known");
    let seconds: f64 = line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("one");
    assert!((0.008..0.1).contains(&seconds), "{line}");
    // Other policies have none of these metrics.
    assert!(self::metrics().services[0].rescue.is_none());
}

#[test]
fn a_learned_delay_has_a_gauge_once_it_is_known() {
    let config = CONFIG.replace("bounded:3", "delayed:p95");
    let config = crate::config::parse("test", &config).expect("a configuration");
    let metrics = Metrics::new(&config);
    let gauge = "curtail_hedge_delay_seconds{service=";
    assert!(!metrics.render().contains(gauge));
    let service = &config.services[0];
    let mut learner = service.policy.learner(&service.limits).expect("it learns");
    let mut records = Records::default();
    records.list().extend([Answered { age_ns: 10_000_000 }; 20]);
    learner.absorb(&mut records);
    metrics.services[0].learned(&learner);
    let text = metrics.render();
    let line = text.lines().find(|line| line.starts_with(gauge)).expect("it is known");
    let seconds: f64 = line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("one");
    assert!((0.010..0.011).contains(&seconds), "{line}");
    assert!(self::metrics().services[0].hedge_delay.is_none());
}

/// Returns a learner that has observed queries of 1 to 10 ms, some of them stuck for 100 ms.
fn taught() -> RescueLearner {
    const MS: u64 = 1_000_000;
    let mut learner = RescueLearner::new(curtail_kernel::hedge::Version::Cleanup, 0.02);
    for query in 0..4_000 {
        let ran_ns = (1 + query % 10) * MS;
        let tried = Some(Tried { age_ns: 12 * MS, rescue: false, risked_ns: 0 });
        learner.absorb(&[match query % 200 {
            0 => Record::Second { ran_ns, tried, crowded: false },
            _ => Record::First { ran_ns, tried: None, crowded: false },
        }]);
    }
    learner.absorb(&[Record::Audit { ran_ns: 110 * MS, second_ns: 10 * MS }]);
    learner
}

#[test]
fn durations_fall_into_cumulative_buckets() {
    let metrics = metrics();
    let duration = &metrics.services[0].request_duration;
    // A duration equal to a bound falls into the bucket of that bound. A duration above all bounds
    // falls into the bucket +Inf.
    for ns in [0, 50_000, 50_001, 5_000_000, 30_000_000_000, 31_000_000_000] {
        duration.record_ns(ns);
    }
    let text = metrics.render();
    let bucket = |le: &str, count: u64| {
        let labels = r#"service="sea\"rch""#;
        let name = "curtail_request_duration_seconds_bucket";
        has(&text, &format!("{name}{{le=\"{le}\",{labels}}} {count}"));
    };
    bucket("0.00005", 2);
    bucket("0.000075", 3);
    bucket("0.0025", 3);
    bucket("0.005", 4);
    bucket("15.0", 4);
    bucket("30.0", 5);
    bucket("+Inf", 6);
    has(&text, r#"curtail_request_duration_seconds_count{service="sea\"rch"} 6"#);
    has(&text, r#"curtail_request_duration_seconds_sum{service="sea\"rch"} 61.005100001"#);
    has(&text, "# TYPE curtail_request_duration_seconds histogram");
    has(&text, "# UNIT curtail_request_duration_seconds seconds");
    assert_eq!(duration.count(), 6);
}

#[test]
fn a_connection_is_open_until_its_guard_is_dropped() {
    let metrics = metrics();
    let first = metrics.client_connected();
    let second = metrics.client_connected();
    drop(first);
    metrics.rejected(Rejection::Connections, 503, &"full");
    metrics.rejected(crate::route::NoTarget::MissingKey.into(), 400, &"no key");
    metrics.rejected((&curtail_http::h1::Reject::BodyTimeout(5)).into(), 408, &"slow");
    let text = metrics.render();
    has(&text, "curtail_connections 1");
    has(&text, "curtail_connections_accepted_total 2");
    for reason in ["connections", "missing_key", "body_timeout"] {
        has(&text, &format!("curtail_rejected_total{{reason=\"{reason}\"}} 1"));
    }
    drop(second);
    has(&metrics.render(), "curtail_connections 0");
}

#[test]
fn a_request_without_an_outcome_counts_once_as_abandoned() {
    let metrics = metrics();
    let service = &metrics.services[0];
    let now = tokio::time::Instant::now();
    let (first, second) = (service.started(now), service.started(now));
    assert_eq!(service.request_duration.count(), 0);
    first.ended(RequestOutcome::Cut);
    assert_eq!(service.requests.get(RequestOutcome::Cut), 1);
    // This is how the task of a connection is dropped at shutdown.
    drop(second);
    assert_eq!(service.requests.get(RequestOutcome::Abandoned), 1);
    assert_eq!(service.request_duration.count(), 2);
}

#[test]
fn the_ends_of_copies_have_the_names_of_their_outcomes() {
    let faults = [Fault::Status, Fault::Reset, Fault::ConnectFailed, Fault::Malformed];
    let rest =
        [Outcome::Good, Outcome::Request, Outcome::Refused, Outcome::Local, Outcome::OverLimit];
    for outcome in faults.map(Outcome::Failed).into_iter().chain(rest) {
        assert_eq!(CopyOutcome::from(outcome).text(), outcome.name());
    }
    for (label, end) in
        [(CopyOutcome::Stopped, CopyEnd::Stopped(None)), (CopyOutcome::Lost, CopyEnd::Lost)]
    {
        assert_eq!(label.text(), end.name());
    }
}
