//! Tests hedging after a learned delay: the delay that is learned, and the cost.

use crate::common::{percentile, run, with};
use curtail_sim::Outcome;

#[test]
fn it_cuts_the_tail_for_as_many_copies_as_are_older_than_its_percentile() {
    let world = with(
        "shards = 1, replicas = 4, utilization = 0.3, service = 'exp:1', jitter = 'bimodal:0.01:20', \
         requests = 40_000, replications = 4",
    );
    let policies = [
        "least-outstanding",
        "delayed:p95:cc+least-outstanding",
        "delayed:p99:cc+least-outstanding",
        "delayed:p95+least-outstanding",
    ];
    let outcomes = run(&world, &policies);
    let copies = |outcome: &Outcome| outcome.copies_per_query.expect("it keeps up") - 1.0;
    let p999 = |outcome: &Outcome| percentile(outcome, 99.9).0;
    let [plain, p95, p99, no_cleanup] = &outcomes[..] else { panic!("four outcomes") };
    assert!((0.04..0.06).contains(&copies(p95)), "{}", copies(p95));
    assert!((0.008..0.013).contains(&copies(p99)), "{}", copies(p99));
    assert!((0.04..0.06).contains(&copies(no_cleanup)), "{}", copies(no_cleanup));
    assert!(p999(p95) < 0.5 * p999(plain), "{} of {}", p999(p95), p999(plain));
    assert!(p999(p99) < 0.7 * p999(plain), "{} of {}", p999(p99), p999(plain));
}
