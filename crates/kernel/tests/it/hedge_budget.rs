//! Every hedging policy spends from the hedge budget, and without tokens does as its balance does;
//! the baselines `naive` and `clone` are not limited.

use crate::referee::{World, named};
use curtail_kernel::{Event, Limits, Outcome, Policy, Topology};

/// Copies and queries that were refused a duplicate, of a thousand queries that come alone.
fn copies(policy: Policy, hedge_budget: f64) -> (u64, u64) {
    let limits = Limits { cancel: true, hedge_budget, hedge_burst: 4, ..Limits::default() };
    let mut w = World::new(policy, &Topology::replicated(2, 1), limits, 1);
    let mut copies = 0;
    for at in 0..1_000 {
        let query = w.arrive(1_000 * at, 0);
        w.feed(1_000 * at + 100, Event::Tick);
        let mine: Vec<_> = w.model.attached(query).map(|(id, _)| *id).collect();
        copies += mine.len() as u64;
        for copy in mine {
            match w.model.copies.get(&copy).map(|copy| copy.stopping) {
                Some(true) => _ = w.feed(1_000 * at + 200, Event::Stopped { copy }),
                Some(false) => _ = w.finish(1_000 * at + 200, copy, Outcome::Good),
                None => {}
            }
        }
    }
    (copies, w.cell.core().hedges_refused())
}

#[test]
fn duplicates_stay_within_the_budget_and_refusals_are_counted() {
    let policies = [
        named("delayed:100ns"),
        named("probabilistic:100ns:1.0"),
        named("tied"),
        named("laedge"),
        named("laedge:cc+pc"),
    ];
    for policy in policies {
        assert_eq!(copies(policy, 1.0), (2_000, 0), "{policy}: one is no limit");
        // The first query pays for itself: its token would exceed the burst.
        let (sent, refused) = copies(policy, 0.25);
        assert!((1_250..=1_254).contains(&sent), "{policy}: {sent}");
        assert_eq!(sent + refused, 2_000, "{policy}");
        assert_eq!(copies(policy, 0.0), (1_004, 996), "{policy}: the burst");
    }
}

#[test]
fn an_attempt_is_not_begun_anew_without_a_token() {
    let (sent, refused) = copies(named("app-timeout:100ns"), 0.0);
    assert_eq!((sent, refused), (1_004, 996));
}

#[test]
fn baselines_are_not_limited() {
    for policy in [named("naive"), named("clone")] {
        assert_eq!(copies(policy, 0.0), (2_000, 0), "{policy}");
    }
}
