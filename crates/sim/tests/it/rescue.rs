//! Tests rescue in complete services: it learns when to act, helps where this is possible, and does
//! no harm.

use crate::common::{percentile, run, with};
use curtail_sim::{Figures, JitterOf, Outcome, Parameters};

/// Returns the parameters of twenty shards whose copies sometimes have hiccups of 15 mean service
/// times.
fn service(utilization: f64) -> Parameters {
    let hiccups =
        with("shards = 20, jitter = 'bimodal:0.002:15', requests = 14_000, replications = 4");
    Parameters { utilization, ..hiccups }
}

fn p99(outcome: &Outcome) -> f64 {
    percentile(outcome, 99.0).0
}

/// Whether a figure exceeds that of the first outcome by more than the given share, with a margin
/// for chance.
fn is_worse(outcomes: &[Outcome], at: usize, figure: f64, share: f64) -> bool {
    let versus = outcomes[at].versus_first.as_ref().expect("both are stable");
    let value = |figures: &Figures| figures.percentile(figure).expect("enough samples");
    let allowed = share * percentile(&outcomes[0], figure).0;
    // With four replications, half the width of a 95 % interval is 3.18 standard errors.
    value(&versus.difference) - 2.0 * value(&versus.ci95) > allowed
}

#[test]
fn it_cuts_the_tail_where_idealized_hedge_hardly_can() {
    let policies = ["psq", "idealized", "rescue", "rescue:preempt", "o1"];
    let outcomes = run(&service(0.5), &policies);
    let [psq, idealized, rescue, preempt, bound] = [0, 1, 2, 3, 4].map(|at| p99(&outcomes[at]));
    assert!(rescue < 0.85 * psq, "{rescue} and {psq}");
    assert!(rescue < 0.97 * idealized && preempt < 0.97 * idealized, "{rescue}, {idealized}");
    assert!(bound < rescue, "{bound} bounds {rescue}");
    let copies = outcomes[2].copies_per_query.expect("it is stable");
    assert!(copies < 1.02, "{copies} copies per query");
    for (at, _) in policies.iter().enumerate().take(4).skip(2) {
        for figure in [50.0, 99.9] {
            assert!(!is_worse(&outcomes, at, figure, 0.0), "p{figure} of {}", policies[at]);
        }
    }
}

#[test]
fn without_cancellation_it_gains_less_and_does_no_harm() {
    let outcomes = run(&service(0.2), &["psq", "rescue:no-cancel"]);
    assert!(p99(&outcomes[1]) < 0.8 * p99(&outcomes[0]), "{}", p99(&outcomes[1]));
    assert!(!is_worse(&outcomes, 1, 50.0, 0.02));
}

#[test]
fn over_a_network_it_gains_more_with_prefetch() {
    // The round trip takes half a mean service time. After every query, a server is idle for that
    // time unless it already has the next query.
    let far = Parameters { network: Some("det:0.25".to_owned()), ..service(0.5) };
    let outcomes = run(&far, &["psq", "bounded:2", "rescue", "rescue+bounded:2"]);
    let [psq, bounded, rescue, both] = [0, 1, 2, 3].map(|at| p99(&outcomes[at]));
    for (at, p99) in [(2, rescue), (3, both)] {
        assert!(p99 < 0.65 * psq, "{p99} and {psq}");
        assert!(p99 < 0.85 * bounded, "{p99} and {bounded}");
        let copies = outcomes[at].copies_per_query.expect("it is stable");
        assert!(copies < 1.02, "{copies} copies per query");
    }
}

#[test]
fn prefetch_is_no_worse_where_some_server_is_idle_soon() {
    // In service 255 of the study, a query waits behind a long query. Another of the six servers
    // becomes idle before the query's own server does.
    let waits = with(
        "utilization = 0.483, shards = 16, replicas = 6, requests = 5_000, replications = 4, \
         service = 'bimodal:0.0914:4.9380+det:0.5487', network = 'det:0.2255'",
    );
    let outcomes = run(&waits, &["psq", "bounded:2", "rescue"]);
    assert!(is_worse(&outcomes, 1, 99.0, 0.05), "a copy that always waits at a server costs p99");
    assert!(!is_worse(&outcomes, 2, 99.0, 0.01), "{} and {}", p99(&outcomes[2]), p99(&outcomes[0]));
}

#[test]
fn cheap_queries_over_long_round_trips_do_no_harm() {
    // In service 385, a cheap query is very old, relative to its hint, when its response arrives.
    let costs = with(
        "utilization = 0.223, shards = 19, replicas = 2, requests = 4_000, replications = 4, \
         service = 'lognormal:1:4.122', hint-error = 0.0349, jitter = 'bimodal:0.00127:46.8', network = 'det:0.3285'",
    );
    let outcomes = run(&costs, &["psq", "rescue"]);
    assert!(!is_worse(&outcomes, 1, 50.0, 0.02), "p50");
}

#[test]
fn prefetch_without_anything_to_rescue_is_prefetch() {
    for utilization in [0.3, 0.6] {
        let none = Parameters { jitter: None, ..service(utilization) };
        let far = Parameters { network: Some("det:0.25".to_owned()), ..none };
        let outcomes = run(&far, &["bounded:2", "rescue+bounded:2"]);
        for figure in [50.0, 99.0, 99.9] {
            assert!(!is_worse(&outcomes, 1, figure, 0.01), "p{figure} at {utilization}");
        }
    }
}

#[test]
fn where_no_hedge_can_win_it_is_per_shard_queuing() {
    let none = Parameters { jitter: None, ..service(0.6) };
    let correlated = Parameters { jitter_of: JitterOf::Query, ..service(0.5) };
    let heavy = Parameters { service: "lognormal:1:2.5".to_owned(), ..service(0.4) };
    for parameters in [none, correlated, heavy] {
        let outcomes = run(&parameters, &["psq", "rescue", "rescue:preempt"]);
        for at in [1, 2] {
            for figure in [50.0, 99.0, 99.9] {
                let name = &outcomes[at].policy;
                assert!(!is_worse(&outcomes, at, figure, 0.01), "p{figure} of {name}");
            }
        }
        let copies = outcomes[1].copies_per_query.expect("it is stable");
        assert!(copies < 1.03, "{copies} copies per query");
    }
}

#[test]
fn a_replica_that_stops_does_not_get_one_query_after_the_other() {
    // Per-shard queuing keeps one query at the replica. If the replica seemed free whenever one of
    // its queries was rescued, it would be sent one query after another.
    let parameters = Parameters {
        replicas: 3,
        shards: 10,
        service: "bimodal:0.273:2.6+det:0.29".to_owned(),
        jitter: None,
        slowdown: Some("exp:10900/det:41/0".to_owned()),
        ..service(0.28)
    };
    let outcomes = run(&parameters, &["psq", "rescue"]);
    let [psq, rescue] = [0, 1].map(|at| &outcomes[at]);
    assert!(
        percentile(rescue, 99.9).0 < 0.3 * percentile(psq, 99.9).0,
        "few queries are stuck for long"
    );
    assert!(p99(rescue) < 1.02 * p99(psq), "{} and {}", p99(rescue), p99(psq));
}

#[test]
fn a_small_service_soon_learns_of_frequent_hiccups() {
    // Among old queries, stuck ones are more frequent than those that are explored, and the hiccups
    // of stuck queries are nearly over.
    for (jitter, gain) in [("bimodal:0.02:33", 0.7), ("bimodal:0.05:33", 0.3)] {
        let parameters = Parameters {
            shards: 1,
            replicas: 3,
            jitter: Some(jitter.to_owned()),
            requests: 8_000,
            warm_up: 0.5,
            replications: 8,
            ..service(0.2)
        };
        let outcomes = run(&parameters, &["psq", "rescue"]);
        let [psq, rescue] = [0, 1].map(|at| p99(&outcomes[at]));
        assert!(rescue < (1.0 - gain) * psq, "{jitter}: {rescue} and {psq}");
    }
}

#[test]
fn hints_of_the_cost_make_up_for_a_heavy_tail() {
    let heavy = Parameters { service: "lognormal:1:1.3".to_owned(), ..service(0.3) };
    let hinted = Parameters { hint_error: Some(0.3), ..heavy.clone() };
    let gain = |parameters| {
        let outcomes = run(parameters, &["psq", "rescue"]);
        1.0 - p99(&outcomes[1]) / p99(&outcomes[0])
    };
    let (without, with) = (gain(&heavy), gain(&hinted));
    assert!(with > without + 0.02, "{with} with hints, {without} without");
}
