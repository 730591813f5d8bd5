use super::*;

fn span(trace: u128, id: u64, parent: u64, name: &str, start_ns: u64, end_ns: u64) -> Span {
    let (service, operation) = name.split_once(": ").expect("a service and an operation");
    let (service, operation) = (service.to_owned(), operation.to_owned());
    Span { trace, id, parent, service, operation, start_ns, end_ns, ..Span::default() }
}

/// A front that calls a store, which takes 10 ns, and a cache, which takes 20 or 30 ns.
fn request(trace: u128, begin: u64) -> [Span; 3] {
    let slow = if trace.is_multiple_of(2) { 10 } else { 0 };
    [
        span(trace, 1, 0, "front: get", begin, begin + 40 + slow),
        span(trace, 2, 1, "store: find", begin + 5, begin + 15),
        span(trace, 3, 1, "cache: put", begin + 15, begin + 35 + slow),
    ]
}

fn traces(count: u128) -> Traces {
    let mut traces = Traces::default();
    (1..=count)
        .for_each(|at| request(at, at as u64 * 100).iter().for_each(|span| traces.add(span)));
    traces
}

fn lost(profile: &Profile) -> Vec<(&str, u64)> {
    profile.lost.iter().map(|of| (of.reason.as_str(), of.count)).collect()
}

#[test]
fn stages_come_in_the_order_of_the_path_with_their_variance() {
    let profile = traces(100).profile(None, 12).expect("traces");
    assert_eq!(profile.target, "traces of front: get");
    assert_eq!(profile.stages, ["front: get", "store: find", "cache: put"]);
    assert_eq!((profile.requests(), profile.windows.len(), profile.check()), (100, 12, Ok(())));
    let whole = profile.whole();
    assert_eq!([0, 1, 2, 3].map(|at| whole.moments.mean(at).round()), [10.0, 10.0, 25.0, 45.0]);
    let variances = [0, 1, 2, 3].map(|at| whole.moments.variance(at));
    assert!(variances[0] < 1e-9 && variances[1] < 1e-9, "{variances:?}");
    assert!(
        (variances[2] - 25.0).abs() < 1e-9 && (variances[3] - 25.0).abs() < 1e-9,
        "{variances:?}"
    );
    assert_eq!((profile.slow.len(), profile.sampled.len()), (5, 100));
    assert!(profile.slow.iter().all(|whole| whole.stages_ns == [10, 10, 30]));
    assert!(profile.lost.is_empty());
    let windows = profile.windows.windows(2);
    assert!(
        windows.into_iter().all(|pair| pair[0].start_ns + pair[0].length_ns == pair[1].start_ns)
    );
}

#[test]
fn stages_that_vary_least_are_summed() {
    let profile = traces(10).profile(None, 1).expect("traces");
    assert_eq!(profile.stages, ["cache: put", "2 others"]);
    let whole = profile.whole();
    assert_eq!([0, 1, 2].map(|at| whole.moments.mean(at).round()), [25.0, 20.0, 45.0]);
    assert_eq!(profile.windows.len(), 8);
}

#[test]
fn only_traces_of_one_root_are_compared() {
    let mixed = || {
        let mut traces = traces(10);
        traces.add(&span(90, 1, 0, "front: health", 0, 7));
        traces
    };
    let profile = mixed().profile(None, 12).expect("traces");
    assert_eq!(lost(&profile), [("traces with other roots: `front: health` (1)", 1)]);
    let profile = mixed().profile(Some("front: health"), 12).expect("traces");
    assert_eq!((profile.requests(), profile.windows.len()), (1, 1));
    let refused = mixed().profile(Some("front"), 12).expect_err("no such root").to_string();
    assert_eq!(
        refused,
        "no trace begins with `front`; traces begin with `front: get` (10), `front: health` (1)"
    );
    assert_eq!(Traces::default().profile(None, 12), Err(TracesError::Empty));
}

#[test]
fn halves_that_share_an_id_are_two_spans_and_children_go_to_their_own_service() {
    for kinds in [[Kind::Client, Kind::Server], [Kind::Unknown; 2], [Kind::Client, Kind::Unknown]] {
        let half = |kind, of| Span { kind, ..of };
        let mut traces = Traces::default();
        for span in [
            half(kinds[1], span(1, 2, 1, "store: get", 20, 80)),
            half(kinds[0], span(1, 2, 1, "front: call", 10, 90)),
            span(1, 1, 0, "front: get", 0, 100),
            span(1, 3, 2, "store: read", 30, 70),
            span(1, 4, 2, "front: encode", 12, 18),
        ] {
            // A span that arrives twice counts once.
            traces.add(&span);
            traces.add(&span);
        }
        let profile = traces.profile(None, 12).expect("a trace");
        let names = ["front: get", "front: call", "front: encode", "store: get", "store: read"];
        assert_eq!(profile.stages, names, "{kinds:?}");
        assert_eq!(profile.sampled[0].stages_ns, [20, 14, 6, 20, 40], "{kinds:?}");
        assert_eq!(lost(&profile), [("spans that arrived twice", 5)]);
    }
}

#[test]
fn uncertain_self_time_of_parents_is_counted() {
    let uncertain = |spans: &[Span]| {
        let mut traces = Traces::default();
        spans.iter().for_each(|span| traces.add(span));
        let profile = traces.profile(None, 12).expect("a trace");
        let uncertain = profile.traces.expect("of traces").uncertain;
        uncertain.iter().map(|of| (of.why, of.mean_ns)).collect::<Vec<_>>()
    };
    let root = span(1, 1, 0, "front: get", 100, 200);
    let of = |other: Span| uncertain(&[root.clone(), other]);
    use Uncertainty::{Backward, Early, Orphans, Outlives};
    assert_eq!(of(span(1, 2, 1, "front: a", 70, 110)), [(Early, 30.0)]);
    assert_eq!(of(span(1, 2, 1, "front: a", 190, 250)), [(Outlives, 50.0)]);
    assert_eq!(of(span(1, 2, 1, "front: a", 150, 120)), [(Backward, 100.0)]);
    assert_eq!(of(span(1, 2, 7, "store: a", 130, 190)), [(Orphans, 60.0)]);
    assert_eq!(of(span(1, 2, 1, "store: a", 110, 190)), []);
}

#[test]
fn spans_may_come_in_any_order() {
    let mut spans: Vec<Span> = (1..=20).flat_map(|at| request(at, at as u64 * 7)).collect();
    spans.sort_by_key(|span| (span.id, std::cmp::Reverse(span.trace)));
    let mut shuffled = Traces::default();
    spans.iter().rev().for_each(|span| shuffled.add(span));
    let mut ordered = Traces::default();
    (1..=20).flat_map(|at| request(at, at as u64 * 7)).for_each(|span| ordered.add(&span));
    assert_eq!(shuffled.profile(None, 12), ordered.profile(None, 12));
}

#[test]
fn long_requests_keep_their_percentiles_and_absurd_times_are_dropped() {
    const SECOND: u64 = 1_000_000_000;
    let mut traces = Traces::new(Limits::default());
    for at in 1..=100 {
        traces.add(&span(at, 1, 0, "store: get", SECOND, (1 + 9 * at as u64) * SECOND));
    }
    for (start, end) in [(SECOND, u64::MAX), (u64::MAX, u64::MAX), (0, 0), (5, 9_000_000 * SECOND)]
    {
        traces.add(&span(200, 1, 0, "store: get", start, end));
    }
    let profile = traces.profile(None, 12).expect("traces");
    assert_eq!(profile.requests(), 100);
    assert!(lost(&profile).contains(&("spans without a valid time, or of hours", 4)));
    let mut all = crate::histogram::Histogram::default();
    profile.windows.iter().filter_map(|of| of.histograms.last()).for_each(|of| all.merge(of));
    let p99 = all.quantile(0.99).expect("requests");
    assert!((860e9..=920e9).contains(&p99), "{p99} ns; it is 891 s");
}

#[test]
fn beyond_the_bounds_the_oldest_trace_is_closed_and_names_are_shared() {
    let mut traces = Traces::new(Limits { spans: 6, traces: 10, operations: 3 });
    for at in 1..=20 {
        request(at, at as u64 * 100).iter().for_each(|span| traces.add(span));
        assert!(traces.held() <= 6);
    }
    traces.add(&span(21, 1, 0, "other: name", 0, 5));
    traces.add(&span(22, 1, 0, "third: name", 0, 5));
    traces.add(&span(0, 1, 0, "no: trace", 0, 5));
    let profile = traces.profile(None, 12).expect("traces");
    assert_eq!(profile.requests(), 10);
    let lost = lost(&profile);
    assert!(lost.contains(&("traces beyond the limit", 12)), "{lost:?}");
    assert!(lost.contains(&("spans without a valid id", 1)), "{lost:?}");
    let early = "traces closed early to free memory; their later spans are missing";
    assert!(lost.iter().any(|of| of.0 == early && of.1 >= 18), "{lost:?}");
}

#[test]
fn a_request_of_hotrod_spends_its_time_where_its_delays_are() {
    // The file contains one trace from Jaeger's example, version 1.62, in six JSON exports without
    // the attributes of spans.
    let spans = parse::parse(include_bytes!("hotrod.jsonl")).expect("OTLP");
    let root = spans.iter().find(|span| span.parent == 0).expect("a root");
    let duration = root.end_ns - root.start_ns;
    let mut traces = Traces::default();
    spans.iter().for_each(|span| traces.add(span));
    let profile = traces.profile(Some("frontend: /dispatch"), 12).expect("one trace");
    assert_eq!((spans.len(), lost(&profile)), (40, Vec::new()));
    let times: Vec<(&str, u64)> = profile
        .stages
        .iter()
        .map(String::as_str)
        .zip(profile.sampled[0].stages_ns.clone())
        .collect();
    assert_eq!(times.iter().map(|of| of.1).sum::<u64>(), duration);
    let ms = |name: &str| times.iter().find(|of| of.0 == name).map_or(0, |of| of.1 / 1_000_000);
    // The request starts with one query of about 300 ms. A call of 20 ms follows, and then 13
    // sequential calls of 10 ms, three of which fail after another 20 ms. Finally, three workers
    // make ten calls of 50 ms.
    let seen = [
        "mysql: SQL SELECT",
        "redis-manual: FindDriverIDs",
        "redis-manual: GetDriver",
        "route: /route",
    ];
    assert_eq!(seen.map(ms), [320, 19, 222, 189], "{times:?}");
}
