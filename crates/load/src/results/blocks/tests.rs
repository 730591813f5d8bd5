use super::*;

use curtail_dist::seed;
use rand_core::Rng as _;
use rand_distr::{Distribution as _, Exp1};

const MS: u64 = 1_000_000;

#[test]
fn blocks_are_bounded_and_lose_nothing() {
    let mut blocks = Blocks::new();
    for i in 0..100_000_u64 {
        blocks.add(i * MS, MS + i);
    }
    assert!(blocks.counts.len() <= BLOCKS_MAX && blocks.counts.len() > BLOCKS_MAX / 2);
    let all: u64 = blocks.counts.iter().flatten().map(|count| u64::from(*count)).sum();
    assert_eq!(all, 100_000);
}

#[test]
fn threads_and_intervals_add_up() {
    let (mut whole, mut parts) = (Blocks::new(), [Blocks::new(), Blocks::new()]);
    for i in 0..10_000_u64 {
        let (at, latency) = (i * MS, MS + i * 100);
        whole.add(at, latency);
        // The second part covers only the first tenth of the time, so its blocks are shorter.
        parts[usize::from(i < 1_000 && i % 2 == 0)].add(at, latency);
    }
    let [mut one, other] = parts;
    assert!(other.length_ns < one.length_ns);
    let mut reverse = other.clone();
    reverse.merge(&one);
    one.merge(&other);
    assert_eq!((&one.counts, one.length_ns), (&whole.counts, whole.length_ns));
    assert_eq!(reverse.counts, whole.counts);
}

#[test]
fn too_few_blocks_give_no_error() {
    let mut blocks = Blocks::new();
    assert_eq!(blocks.share_error(MS), None);
    for i in 0..7 {
        blocks.add(i * SHORTEST_NS, MS);
    }
    assert_eq!(blocks.share_error(MS), None);
    blocks.add(7 * SHORTEST_NS, 2 * MS);
    assert!(blocks.share_error(MS).is_some());
}

/// Records waiting times of an M/M/1 queue with this utilization and a mean service time of 1 ms.
/// The share of latencies up to `latency` is 1 − e^−(1−ρ)·latency.
fn queue(utilization: f64, requests: u64, seed: u64) -> Blocks {
    let mut rng = seed::rng(seed);
    let mut draw = |mean: f64| -> f64 {
        let one: f64 = Exp1.sample(&mut rng);
        one * mean * 1e6
    };
    let (mut blocks, mut at, mut free) = (Blocks::new(), 0.0_f64, 0.0_f64);
    // Skips the time until the queue reaches its steady state.
    for i in 0..requests + 2_000 {
        at += draw(1.0 / utilization);
        free = free.max(at) + draw(1.0);
        if i >= 2_000 {
            blocks.add(at as u64, (free - at) as u64);
        }
    }
    blocks
}

#[test]
fn the_interval_of_a_percentile_covers_the_truth_of_a_queue() {
    // On average, 95 of 100 intervals cover the true percentile, with a standard deviation of 2.2.
    // With a method that assumes independent requests, only about 50 intervals cover it.
    let (utilization, quantile) = (0.7, 0.99_f64);
    let truth_ns = -(1.0 - quantile).ln() / (1.0 - utilization) * 1e6;
    let (mut covered, mut naive) = (0, 0);
    for seed in 0..100 {
        let requests = 40_000;
        let blocks = queue(utilization, requests, seed);
        let error = blocks.share_error(truth_ns as u64).unwrap();
        let last = bucket_of(truth_ns as u64);
        let below: u64 = blocks
            .counts
            .iter()
            .flat_map(|counts| &counts[..=last])
            .map(|count| u64::from(*count))
            .sum();
        // The upper bound of the bucket.
        let border_ns = bucket_middle_ns(last) as f64 * 1.008;
        let exact = 1.0 - (-(1.0 - utilization) * border_ns / 1e6).exp();
        let off = (below as f64 / requests as f64 - exact).abs();
        covered += u32::from(off <= error.half_width());
        naive += u32::from(off <= 1.96 * (quantile * (1.0 - quantile) / requests as f64).sqrt());
    }
    assert!(covered >= 88, "{covered} of 100");
    assert!(naive < 80, "{naive} of 100: then blocks would not be needed");
}

#[test]
fn independent_latencies_have_the_error_of_independent_draws() {
    let mut rng = seed::rng(3);
    let mut blocks = Blocks::new();
    for i in 0..100_000_u64 {
        blocks.add(i * MS / 10, if rng.next_u64().is_multiple_of(100) { 9 * MS } else { MS });
    }
    let error = blocks.share_error(2 * MS).unwrap();
    let expected = (0.01 * 0.99 / 1e5_f64).sqrt();
    assert!((1.0..1.8).contains(&(error.standard / expected)), "{}", error.standard / expected);
}

#[test]
fn quantiles_are_those_of_each_block() {
    let mut blocks = Blocks::new();
    for block in 0..4 {
        for i in 0..100 {
            blocks.add(block * SHORTEST_NS + i, (block + 1) * MS);
        }
    }
    blocks.add(4 * SHORTEST_NS, MS);
    let medians = blocks.quantiles(0.5, 50);
    assert_eq!(medians.len(), 4, "one has too few");
    for (block, median) in medians.iter().enumerate() {
        assert!((median / ((block as f64 + 1.0) * 1e6) - 1.0).abs() < 0.01, "{median}");
    }
}

#[test]
fn room_uses_the_shortest_sufficient_blocks() {
    let room = |so_far_ns, more_ns| {
        let blocks = Blocks::with_room(so_far_ns, more_ns);
        (blocks.counts.len(), blocks.length_ns / MS)
    };
    let cases = [
        (0, 0, 0, 20),
        (0, 1_000, 50, 20),
        (1_280, 0, 64, 20),
        (1_280, 1_000, 114, 20),
        (1_281, 1_000, 58, 40),
    ];
    for (so_far_ms, more_ms, blocks, length_ms) in cases {
        assert_eq!(
            room(so_far_ms * MS, more_ms * MS),
            (blocks, length_ms),
            "{so_far_ms} {more_ms}"
        );
    }
    assert_eq!(room(u64::MAX, MS), (65, 20 << DOUBLED_MAX), "beyond that, they double as needed");
}

#[test]
fn room_beyond_the_end_does_not_lengthen_blocks() {
    for run_ms in [600, 1_200, 1_300, 2_400, 9_900] {
        let (mut alone, mut sum) = (Blocks::new(), Blocks::new());
        for from_ms in (0..run_ms).step_by(500) {
            let mut next = Blocks::with_room(from_ms * MS, 1_000 * MS);
            let (blocks, until_ms) = (next.counts.len(), run_ms.min(from_ms + 500));
            for at_ms in from_ms..until_ms {
                next.add(at_ms * MS, at_ms * 1_000);
                alone.add(at_ms * MS, at_ms * 1_000);
            }
            assert_eq!(next.counts.len(), blocks, "{run_ms}: there was room");
            sum.merge(&next);
        }
        // The record of a thread that waited much longer for a response and got none.
        sum.merge(&Blocks::with_room(60_000 * MS, 1_000 * MS));
        assert_eq!((sum.length_ns, sum.counts.len()), (alone.length_ns, alone.counts.len()));
        assert_eq!(sum.counts, alone.counts, "{run_ms}");
    }
}

#[test]
fn preallocated_blocks_are_empty() {
    let mut blocks = Blocks::new();
    for i in 0..10_000_u64 {
        blocks.add(i * MS, MS + i);
    }
    let next = Blocks::with_room(10_000 * MS, 0);
    assert_eq!((next.length_ns, next.counts.len()), (blocks.length_ns, blocks.counts.len()));
    assert_eq!((next.share_error(MS), next.quantiles(0.5, 0)), (None, Vec::new()));
    let mut sparse = blocks.clone();
    sparse.merge(&serde_json::from_value(serde_json::to_value(&next).unwrap()).unwrap());
    assert_eq!(sparse.counts, blocks.counts);
}
