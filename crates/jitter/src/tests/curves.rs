//! What is plotted.

use super::world::World;
use crate::Executions;

#[test]
fn curves_fall_from_all_to_one_sample() {
    let executions = World { probability: 0.01, duration: 50.0, ..World::default() }.run(1);
    let curves = executions.all().ccdf(50);
    for (curve, samples) in [(&curves.p, 200.0), (&curves.j, 40_000.0), (&curves.service, 40_000.0)]
    {
        assert!(curve.len() > 20 && curve.len() <= 50);
        assert!(curve.windows(2).all(|pair| pair[0].ns < pair[1].ns));
        assert!(curve.windows(2).all(|pair| pair[0].at_least > pair[1].at_least));
        assert_eq!(curve.first().map(|point| point.at_least), Some(1.0));
        assert_eq!(curve.last().map(|point| point.at_least), Some(1.0 / samples));
    }
    // One in a hundred is as long as a hiccup.
    let hiccups = curves.j.iter().find(|point| point.ns >= 25_000_000).expect("hiccups");
    assert!((0.004..0.015).contains(&hiccups.at_least), "{hiccups:?}");
}

#[test]
fn curves_of_next_to_nothing_are_short() {
    let mut one = Executions::new(["all"]).expect("a query");
    assert_eq!(one.all().ccdf(10).j, []);
    one.push(0, 7).expect("a query");
    one.push(0, 7).expect("a query");
    let curves = one.all().ccdf(10);
    assert_eq!(
        curves.service.iter().map(|point| (point.ns, point.at_least)).collect::<Vec<_>>(),
        [(7, 1.0)]
    );
    assert_eq!(one.all().ccdf(0).service, []);
    assert_eq!(one.all().ccdf(1).service.len(), 1);
}

#[test]
fn ranks_are_in_order_of_p_and_samples_are_bounded() {
    let world = World { probability: 0.05, duration: 50.0, ..World::default() };
    let executions = world.run(2);
    let ranked = executions.all().ranked(100, 7);
    assert_eq!((ranked.queries.len(), ranked.executions.len()), (100, 100));
    assert!(ranked.queries.windows(2).all(|pair| pair[0].p_ns <= pair[1].p_ns));
    assert_eq!(ranked.queries.first().map(|query| query.rank), Some(0));
    assert_eq!(ranked.queries.last().map(|query| query.rank), Some(199));
    for query in &ranked.queries {
        assert_eq!(executions.p_ns(query.query), Some(query.p_ns));
    }
    assert_eq!(ranked, executions.all().ranked(100, 7));
    assert_ne!(ranked, executions.all().ranked(100, 8));
    // A uniform sample has as many hiccups as all.
    let many = executions.all().ranked(10_000, 7).executions;
    let slow = many.iter().filter(|execution| execution.j_ns > 25_000_000).count();
    assert!((400..600).contains(&slow), "{slow} of 10,000");
    assert_eq!(executions.all().ranked(1_000_000, 7).executions.len(), 40_000);
    assert_eq!(executions.all().ranked(0, 7).executions, []);
}
