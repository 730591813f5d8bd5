use super::*;
use crate::demo::report::sample;

/// The sample with LÆDGE's p99 as multiples of PSQ's, each as sure as 3 % to either side.
fn with(ratios: [f64; 7]) -> Results {
    let mut results = sample::results();
    let baseline = results.policies["psq"].clone();
    let cells = results.policies.get_mut("laedge").expect("in the sample");
    for ((cell, baseline), ratio) in cells.iter_mut().zip(baseline).zip(ratios) {
        cell.p99_ms = baseline.p99_ms.map(|p99| p99 * ratio);
        cell.copies_per_query = 1.6;
    }
    sample::compare(&mut results.policies);
    results
}

fn told(results: &Results) -> (String, String) {
    let Headline { finding, but, .. } = headline(results);
    (finding.replace('\u{a0}', " "), but.replace('\u{a0}', " "))
}

#[test]
fn a_gain_is_told_with_where_it_ends() {
    let (finding, but) = told(&with([0.5, 0.6, 0.7, 0.8, 1.0, 1.04, 1.3]));
    assert_eq!(
        finding,
        "LÆDGE’s 99th percentile is 35 % below per-shard queuing’s on average from 10 % to 40 % \
         utilization (95 % sure: 34 % to 37 % below), at 1.6 copies per query."
    );
    assert_eq!(
        but,
        "At 50 % it is about the same (95 % sure: 3 % below to 3 % above). At 60 % and 70 % it is \
         17 % above on average (95 % sure: 15 % to 19 % above)."
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
    assert!(also.ends_with("At 70 % it is 30 % above (95 % sure: 27 % to 33 % above)."), "{also}");
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
    let (finding, _) = told(&with([1.01, 0.98, 1.0, 1.0, 1.0, 1.0, 1.02]));
    let told = "LÆDGE’s 99th percentile is about the same as per-shard queuing’s from";
    assert!(finding.starts_with(told), "{finding}");
    assert!(finding.contains("; 95 % sure: 1 % below to 1 % above), at"), "{finding}");
}

#[test]
fn what_may_be_chance_is_undecided() {
    let mut results = with([1.0; 7]);
    let cells = results.policies.get_mut("laedge").expect("in the sample");
    cells.iter_mut().for_each(|cell| cell.p99_gain = Some(Gain::new(0.2, -0.1, 0.45)));
    cells[0].p99_gain = Some(Gain::new(0.4, 0.3, 0.5));
    let (finding, but) = told(&results);
    assert!(finding.starts_with("LÆDGE’s 99th percentile is 40 % below"), "{finding}");
    assert!(but.contains(" 70 % it is undecided (95 % sure: "), "{but}");
    results.policies.get_mut("laedge").expect("in the sample").truncate(2);
    results.loads = vec![0.2];
    let (finding, _) = told(&results);
    let whole = "LÆDGE’s 99th percentile against per-shard queuing’s is undecided at 20 % utilization \
                 (95 % sure: 45 % below to 10 % above)";
    assert!(finding.starts_with(whole), "{finding}");
}

#[test]
fn an_average_does_not_hide_a_change_of_sign() {
    let (finding, _) = told(&with([1.1, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9]));
    assert!(finding.contains("(from 50 % below to 10 % above; 95 % sure: "), "{finding}");
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
