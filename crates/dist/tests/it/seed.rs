//! Checks that the streams of random numbers never change and are independent of each other.

use curtail_dist::seed;
use rand_core::Rng;

#[test]
fn streams_do_not_change() {
    // Recorded experiments depend on these values.
    assert_eq!(seed::stream(0, &[]), GOLDEN_STREAMS[0]);
    assert_eq!(seed::stream(42, &[b"P", b"/search?q=tail"]), GOLDEN_STREAMS[1]);
    assert_eq!(seed::stream(u64::MAX, &[&[0; 64]]), GOLDEN_STREAMS[2]);
    let mut rng = seed::rng(42);
    assert_eq!([rng.next_u64(), rng.next_u64()], GOLDEN_NUMBERS);
}

const GOLDEN_STREAMS: [u64; 3] =
    [0x813f_0174_a236_7c13, 0xcf7d_7050_c864_3f16, 0x2878_887c_2956_0891];
const GOLDEN_NUMBERS: [u64; 2] = [0x83ae_6410_88e2_559a, 0x0390_751d_9253_d8ed];

#[test]
fn a_stream_depends_on_the_seed_and_on_every_part() {
    let named = [
        seed::stream(1, &[b"P", b"query"]),
        seed::stream(2, &[b"P", b"query"]),
        seed::stream(1, &[b"J", b"query"]),
        seed::stream(1, &[b"P", b"querx"]),
        seed::stream(1, &[b"Pq", b"uery"]),
        seed::stream(1, &[b"Pquery"]),
        seed::stream(1, &[b"query", b"P"]),
        seed::stream(1, &[b"P", b"query", b""]),
    ];
    for (i, a) in named.iter().enumerate() {
        assert!(named[i + 1..].iter().all(|b| a != b), "{named:x?}");
    }
}

#[test]
fn one_changed_bit_changes_half_of_the_stream() {
    let mut changed = 0;
    for key in 0_u64..1000 {
        let flipped = key ^ (1 << (key % 64));
        let stream = |key: u64| seed::stream(9, &[&key.to_le_bytes()]);
        changed += (stream(key) ^ stream(flipped)).count_ones();
    }
    // 64,000 tosses of a fair coin give 32,000 heads on average, with a standard deviation of 126.
    // The bound is five standard deviations.
    assert!(changed.abs_diff(32_000) < 633, "{changed}");
}

#[test]
fn first_draws_of_neighboring_streams_are_uncorrelated() {
    // The leaves and the simulator draw once per query, so the first draws matter.
    let first = |seed: u64| seed::rng(seed).next_u64() as f64 / u64::MAX as f64 - 0.5;
    for stream in [first, |i| first_of_stream(i) - 0.5] {
        let draws: Vec<f64> = (0..100_000).map(stream).collect();
        let count = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / count;
        let lagged = draws.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / count;
        // The tolerance is five standard errors. A uniform variable has a standard deviation of
        // √(1/12), and the product of two of them has a standard deviation of 1/12.
        assert!(mean.abs() < 5.0 * (1.0 / 12.0 / count).sqrt(), "mean {mean}");
        assert!(lagged.abs() < 5.0 / 12.0 / count.sqrt(), "correlation {lagged}");
    }
}

fn first_of_stream(i: u64) -> f64 {
    let query = format!("/search?q={i}");
    seed::rng(seed::stream(42, &[b"P", query.as_bytes()])).next_u64() as f64 / u64::MAX as f64
}
