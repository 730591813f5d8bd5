use super::*;
use crate::demo::report::sample;

/// The sample with LÆDGE's latencies as multiples of PSQ's.
fn with(ratios: [f64; 7]) -> Results {
    let mut results = sample::results();
    let baseline = results.policies["psq"].clone();
    let cells = results.policies.get_mut("laedge").expect("in the sample");
    for ((cell, baseline), ratio) in cells.iter_mut().zip(baseline).zip(ratios) {
        cell.p99_ms = baseline.p99_ms.map(|p99| p99 * ratio);
        cell.ccdf = baseline.ccdf.iter().map(|(ms, share)| (ms * ratio, *share)).collect();
        cell.copies_per_query = 1.6;
    }
    results
}

/// As the demo has them by default: the tail ends where the p99 is.
fn with_few_requests(ratios: [f64; 7]) -> Results {
    let mut results = with(ratios);
    for cell in results.policies.values_mut().flatten() {
        cell.requests = 1_050;
        cell.ccdf.retain(|(_, share)| *share > 0.0095);
    }
    results
}

fn told(results: &Results) -> (String, String) {
    let Headline { finding, but, .. } = headline(results);
    (finding.replace('\u{a0}', " "), but.replace('\u{a0}', " "))
}

#[test]
fn a_gain_is_told_with_where_it_ends() {
    let (finding, but) = told(&with([0.5, 0.6, 0.7, 0.8, 1.0, 1.02, 1.3]));
    assert_eq!(
        finding,
        "LÆDGE’s 99th percentile is 35 % below per-shard queuing’s on average from 10 % to 40 % \
         utilization (95 % sure: 33 % to 37 % below), at 1.6 copies per query."
    );
    assert_eq!(
        but,
        "At 50 % and 60 % it is about the same (95 % sure: 3 % below to 5 % above). At 70 % it is \
         30 % above (95 % sure: 22 % to 38 % above)."
    );
}

#[test]
fn a_gain_everywhere_needs_no_but() {
    assert_eq!(told(&with([0.5; 7])).1, "");
}

#[test]
fn our_own_policy_is_told_of_besides() {
    let mut results = with([0.5; 7]);
    assert_eq!(headline(&results).also, "");
    let cells = with([0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 1.3]).policies.remove("laedge");
    results.policies.insert("rescue".to_owned(), cells.expect("in the sample"));
    results.order.push("rescue".to_owned());
    let told = headline(&results);
    assert!(told.finding.starts_with("LÆDGE’s 99th percentile is 50"), "{}", told.finding);
    let also = told.also.replace('\u{a0}', " ");
    assert!(
        also.starts_with("Rescue’s 99th percentile is 40 % below per-shard queuing’s"),
        "{also}"
    );
    assert!(also.ends_with("At 70 % it is 30 % above (95 % sure: 22 % to 38 % above)."), "{also}");
    // Without another policy to tell of, it is the subject itself.
    results.order.retain(|name| name != "laedge");
    let told = headline(&results);
    assert!(told.finding.starts_with("Rescue’s"), "{}", told.finding);
    assert_eq!(told.also, "");
}

#[test]
fn a_loss_is_told_as_one() {
    let (finding, but) = told(&with([1.2; 7]));
    assert!(finding.contains("is 20 % above per-shard queuing’s on average"), "{finding}");
    assert_eq!(but, "");
    let (finding, _) = told(&with([4.0; 7]));
    assert!(finding.contains("is 4.0 times per-shard queuing’s on average"), "{finding}");
}

#[test]
fn no_gain_is_told_as_none() {
    let (finding, _) = told(&with([1.01, 0.98, 1.0, 1.0, 1.0, 1.0, 1.03]));
    let told = "LÆDGE shows no gain: its 99th percentile is about the same as per-shard queuing’s";
    assert!(finding.starts_with(told), "{finding}");
    assert!(finding.contains(" (95 % sure: 2 % below to 2 % above), at"), "{finding}");
}

#[test]
fn an_average_does_not_hide_a_change_of_sign() {
    let (finding, _) = told(&with([1.1, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9]));
    assert!(finding.contains("(from 50 % below to 10 % above; 95 % sure: "), "{finding}");
}

#[test]
fn a_difference_is_told_only_if_so_many_requests_can_show_it() {
    let at = |requests: u64| {
        let mut results = with([0.92; 7]);
        results.loads.truncate(1);
        for cell in results.policies.values_mut().flatten() {
            cell.requests = requests;
        }
        told(&results).0
    };
    let (many, few) = (at(12_000), at(2_000));
    assert!(many.contains("is 8 % below per-shard queuing’s at 10 %"), "{many}");
    assert!(few.starts_with("LÆDGE shows no gain: "), "{few}");
    assert!(few.contains("(95 % sure: 16 % below to 1 % above)"), "{few}");
    // However sure, it is too little to act on.
    let mut results = with([0.96; 7]);
    results.policies.values_mut().flatten().for_each(|cell| cell.requests = 1_000_000);
    let (little, _) = told(&results);
    assert!(little.contains("no gain: "), "{little}");
    assert!(little.contains("(95 % sure: 4 % below)"), "{little}");
}

#[test]
fn with_few_requests_nobody_is_told_that_it_is_sure() {
    let (finding, but) = told(&with_few_requests([0.7, 0.8, 0.9, 1.1, 1.0, 1.2, 1.3]));
    assert!(finding.contains("25 % below"), "{finding}");
    assert!(finding.contains("10 % to 20 % utilization (too few requests to say"), "{finding}");
    assert_eq!(
        but,
        "At 30 %, 40 %, and 50 % it is about the same (with so few requests less than 15 % may be \
         chance). At 60 % and 70 % it is 25 % above on average (too few requests to say how \
         sure)."
    );
}

#[test]
fn the_bounds_of_a_p99_are_order_statistics() {
    // Exponential with a mean of 1 ms: the latency that a share exceeds is -ln(share).
    let mut cell = sample::results().policies["psq"][0].clone();
    let shares = |least: f64| (0..60).map(move |at| least.powf(f64::from(at) / 59.0));
    cell.p99_ms = Some(-0.01_f64.ln());
    (cell.requests, cell.errors) = (10_100, 100);
    cell.ccdf = shares(0.001).map(|share| (-share.ln(), share)).collect();
    let (low, high) = p99_bounds(&cell).expect("the tail goes far enough");
    // The binomial leaves 80 to 120 of 10,000 samples above open.
    let expected = (-0.01195_f64.ln(), -0.00805_f64.ln());
    assert!((low - expected.0).abs() < 0.001, "{low}");
    assert!((high - expected.1).abs() < 0.001, "{high}");
    cell.ccdf.truncate(40);
    assert_eq!(p99_bounds(&cell), None, "the tail ends at {:?}", cell.ccdf.last());
}

#[test]
fn what_is_not_sound_or_not_there_is_not_compared_but_told() {
    let mut results = with([0.5; 7]);
    results.partial = true;
    results.policies.get_mut("laedge").expect("in the sample")[5].valid = false;
    results.policies.get_mut("psq").expect("in the sample").pop();
    let (finding, but) = told(&results);
    assert!(finding.starts_with("So far, LÆDGE’s"), "{finding}");
    assert!(finding.contains("from 10 % to 50 %"), "{finding}");
    assert_eq!(
        but,
        "At 60 % there is no sound measurement of LÆDGE. At 70 % there is no sound measurement \
         of per-shard queuing."
    );
}

#[test]
fn without_data_there_is_no_finding() {
    let mut results = with([0.5; 7]);
    results.policies.clear();
    let (finding, _) = told(&results);
    assert!(finding.starts_with("Nothing to compare yet"));
    assert!(!finding.contains("--requests"), "it was stopped: {finding}");
    results.order.clear();
    assert!(told(&results).0.starts_with("Nothing to compare"));
}

#[test]
fn with_too_few_requests_the_mend_is_told() {
    let mut results = with([0.5; 7]);
    results.policies.values_mut().flatten().for_each(|cell| cell.p99_ms = None);
    let (finding, _) = told(&results);
    assert!(finding.ends_with("It takes 1,000 good answers: give more --requests."), "{finding}");
}

#[test]
fn the_baseline_is_psq_wherever_it_ran() {
    let mut results = sample::results();
    assert_eq!(View::of(&results).baseline, Some("psq"));
    results.order = vec!["random".into(), "naive".into(), "delayed:15ms".into()];
    assert_eq!(View::of(&results).baseline, Some("random"));
    assert_eq!(View::of(&results).subject, Some("delayed:15ms"));
}
