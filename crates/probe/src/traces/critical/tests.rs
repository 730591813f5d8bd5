use proptest::prelude::*;

use super::*;

/// Creates nodes from (id, parent, start, end). The stage of each node is its id.
fn nodes(of: &[(u64, u64, u64, u64)]) -> Vec<Node> {
    let node = |&(id, parent, start_ns, end_ns)| {
        let stage = id as u32;
        Node { id, parent, stage, start_ns, end_ns, ..Node::default() }
    };
    of.iter().map(node).collect()
}

/// Returns the self times by stage, in the order of the path.
fn times(of: &[(u64, u64, u64, u64)]) -> (Vec<(u32, u64)>, Flaws) {
    let (mut path, flaws) = path(&nodes(of), None).expect("spans");
    path.parts.sort_by_key(|part| part.first_ns);
    (path.parts.iter().map(|part| (part.stage, part.self_ns)).collect(), flaws)
}

#[test]
fn children_in_sequence_are_all_on_the_path() {
    let (times, flaws) =
        times(&[(1, 0, 100, 200), (2, 1, 110, 130), (3, 1, 140, 190), (4, 3, 150, 160)]);
    assert_eq!(times, [(1, 10 + 10 + 10), (2, 20), (3, 40), (4, 10)]);
    assert_eq!(flaws, Flaws::default());
}

#[test]
fn the_path_follows_the_parallel_child_that_ends_last() {
    // The root waited for span 3. Span 2 started earlier and ran at the same time, and span 4 ran
    // before both of them.
    let (times, _) = times(&[(1, 0, 0, 100), (2, 1, 25, 80), (3, 1, 30, 90), (4, 1, 0, 20)]);
    assert_eq!(times, [(4, 20), (1, 5 + 10), (2, 5), (3, 60)]);
}

#[test]
fn overlapping_siblings_keep_their_own_parts() {
    // Span 3 began before span 2 had ended. The time of span 2 before the start of span 3 does not
    // belong to the parent. Span 4 ended long before, while span 2 was running.
    let (times, _) = times(&[(1, 0, 0, 100), (2, 1, 5, 60), (3, 1, 50, 95), (4, 1, 5, 20)]);
    assert_eq!(times, [(1, 5 + 5), (2, 45), (3, 45)]);
    // The pause after a child that ended just before belongs to the parent, even though span 4 was
    // still running.
    let (times, _) = self::times(&[(1, 0, 0, 100), (2, 1, 0, 48), (3, 1, 50, 100), (4, 1, 30, 60)]);
    assert_eq!(times, [(2, 48), (1, 2), (3, 50)]);
}

#[test]
fn a_pool_of_workers_is_followed_through_the_one_that_ended_last() {
    // One worker runs span 2 and then span 4. Another one runs span 3 and then span 5. Span 5 is
    // the last to end, and it began when span 3 had ended.
    let (times, _) =
        times(&[(1, 0, 0, 100), (2, 1, 0, 40), (3, 1, 0, 50), (4, 1, 40, 90), (5, 1, 50, 100)]);
    assert_eq!(times, [(3, 50), (5, 50)]);
}

#[test]
fn an_end_that_is_recorded_late_does_not_hide_a_span() {
    let (times, _) = times(&[(1, 0, 0, 20_000), (2, 1, 0, 10_010), (3, 1, 10_000, 20_000)]);
    assert_eq!(times, [(2, 10_000), (3, 10_000)]);
}

#[test]
fn clocks_that_disagree_are_clipped_and_counted() {
    // Span 2 began before its parent, span 3 ended after it, and span 4 lies entirely outside its
    // parent.
    let (times, flaws) =
        times(&[(1, 0, 100, 200), (2, 1, 90, 150), (3, 1, 150, 230), (4, 1, 300, 400)]);
    assert_eq!(times, [(2, 50), (3, 50)]);
    assert_eq!(flaws, Flaws { clipped: 3, ..Flaws::default() });
    let (backward, flaws) = self::times(&[(1, 0, 100, 200), (2, 1, 150, 120)]);
    assert_eq!((backward, flaws.backward), (vec![(1, 100)], 1));
}

#[test]
fn orphans_are_counted_and_the_root_is_the_span_without_a_parent() {
    // Span 7 is missing, so span 2 and its child, span 3, are orphans. Their clock is off, so they
    // seem to begin too early.
    let spans = [(1, 0, 100, 200), (2, 7, 50, 90), (3, 2, 60, 70), (4, 1, 120, 140)];
    let (seen, flaws) = times(&spans);
    assert_eq!((seen, flaws.orphans), (vec![(1, 80), (4, 20)], 2));
    // If all spans have parents, a span whose parent is missing becomes the root.
    let (path, flaws) = path(&nodes(&spans[1..3]), None).expect("spans");
    assert_eq!((path.root, path.start_ns, flaws.orphans), (2, 50, 0));
}

#[test]
fn cycles_of_parents_end() {
    let (seen, flaws) = times(&[(1, 2, 0, 100), (2, 1, 10, 20)]);
    assert_eq!((seen, flaws.orphans), (vec![(1, 90), (2, 10)], 0));
    let (seen, flaws) = times(&[(1, 1, 0, 100)]);
    assert_eq!((seen, flaws.orphans), (vec![(1, 100)], 0));
    // A cycle cannot be reached from the root, so its spans are orphans.
    let (seen, flaws) = times(&[(1, 0, 0, 100), (2, 3, 10, 20), (3, 2, 10, 20)]);
    assert_eq!((seen, flaws.orphans), (vec![(1, 100)], 2));
}

#[test]
fn a_span_that_arrives_twice_counts_once() {
    let (seen, flaws) = times(&[(1, 0, 0, 100), (2, 1, 10, 20), (2, 1, 10, 20), (1, 0, 0, 100)]);
    assert_eq!((seen, flaws.duplicates), (vec![(1, 90), (2, 10)], 2));
}

#[test]
fn the_largest_times_do_not_overflow() {
    let max = u64::MAX;
    let (seen, _) = times(&[(1, 0, 0, max), (2, 1, 1, max - 1), (3, 2, max, max)]);
    assert_eq!(seen, [(1, 2), (2, max - 2)]);
}

#[test]
fn a_chain_may_be_long() {
    let chain: Vec<_> = (1..=100_000).map(|id| (id, id - 1, id, 1_000_000 - id)).collect();
    let (seen, _) = times(&chain);
    assert_eq!(seen.len(), 100_000);
}

proptest! {
    #[test]
    fn self_times_add_up_to_the_duration_of_the_root(
        spans in prop::collection::vec((1_u64..9, 0_u64..11, 0_u64..50, 0_u64..50, 0_u32..6, 0_u32..4), 1..14),
        far in prop::bool::ANY,
    ) {
        let at = |ns: u64| if far { u64::MAX - ns } else { ns };
        let kinds = [Kind::Unknown, Kind::Internal, Kind::Client, Kind::Server, Kind::Producer, Kind::Consumer];
        let node = |&(id, parent, a, b, kind, stage)| {
            let named = Node { stage, service: stage % 3, host: stage, kind: kinds[kind as usize], ..Node::default() };
            Node { id, parent, start_ns: at(a), end_ns: at(b), ..named }
        };
        let spans: Vec<Node> = spans.iter().map(node).collect();
        let mut clocks = Clocks::default();
        let tree = Tree::new(spans.clone()).expect("spans");
        tree.edges().for_each(|(caller, callee)| clocks.observe(caller, callee));
        clocks.settle();
        for clocks in [None, Some(&clocks)] {
            let (path, flaws) = path(&spans, clocks).expect("spans");
            let roots = spans.iter().filter(|span| span.stage == path.root && span.start_ns == path.start_ns);
            let sum = path.parts.iter().map(|part| part.self_ns).sum::<u64>();
            let mut lengths = roots.map(Node::length);
            prop_assert!(lengths.any(|length| length == sum));
            prop_assert!(flaws.orphans + flaws.duplicates < spans.len() as u64);
            let mut reversed = spans.clone();
            reversed.reverse();
            prop_assert_eq!(super::path(&reversed, clocks), Some((path, flaws)));
        }
    }
}
