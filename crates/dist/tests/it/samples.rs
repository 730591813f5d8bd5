//! Distributions from files of samples.

use std::io::Write;

use curtail_dist::{MAX_FILE_BYTES, Spec, read_samples, seed};
use tempfile::NamedTempFile;

const MS: f64 = 1e6;

fn file(content: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a scratch file");
    file.write_all(content).expect("written");
    file
}

fn spec(file: &NamedTempFile) -> Spec {
    format!("file:{}", file.path().display()).parse().expect("a path")
}

fn refusal(content: &[u8]) -> String {
    spec(&file(content)).resolve(MS).expect_err("a bad file").to_string()
}

#[test]
fn each_sample_is_equally_likely() {
    let file = file("# from a run\n\n1ms\n2.5ms # slow\n 4 ms\n500\u{b5}s\n".as_bytes());
    let distribution = spec(&file).resolve(1.0).expect("four samples");
    assert!((distribution.mean() - 2.0 * MS).abs() < 1e-6);
    assert!((distribution.variance() / MS / MS - 1.875).abs() < 1e-9);

    let mut rng = seed::rng(5);
    let mut counts = [0_u32; 4];
    for _ in 0..40_000 {
        let x = distribution.sample(&mut rng);
        let values = [0.5 * MS, MS, 2.5 * MS, 4.0 * MS];
        counts[values.iter().position(|&v| v == x).expect("one of the samples")] += 1;
    }
    // The tolerance is five standard deviations of a binomial count: 5 √(40,000 · 3/16).
    assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 434), "{counts:?}");
}

#[test]
fn samples_can_be_read_with_their_lines() {
    let file = file(b"# from a run\n3\n\n0.5 # fast\n");
    let samples = read_samples(file.path(), MS).expect("two samples");
    assert_eq!(samples.ns, [3.0 * MS, 0.5 * MS]);
    assert_eq!(samples.lines, [2, 4]);
    assert!(!samples.have_units);
}

#[test]
fn samples_without_units_are_multiples_of_the_unit() {
    let file = file(b"1\n3\n");
    assert_eq!(spec(&file).resolve(MS).expect("two samples").mean(), 2.0 * MS);
}

#[test]
fn bad_lines_are_named() {
    for (content, words) in [
        (&b"1ms\n\nabc\n"[..], [":3:", "`abc`", "decimal number"]),
        (b"1ms\n2\n", [":2:", "`2`", "all a unit or none"]),
        (b"-1ms\n", [":1:", "`-1ms`", "0 or more"]),
        (b"1 day\n", [":1:", "`1 day`", "unit is unknown"]),
        (b"1e300\n", [":1:", "`1e300`", "292 years"]),
    ] {
        let message = refusal(content);
        for word in words {
            assert!(message.contains(word), "{message:?} lacks {word:?}");
        }
    }
}

#[test]
fn files_that_hold_no_samples_are_refused() {
    assert!(refusal(b"").contains("no sample"));
    assert!(refusal(b"# nothing\n\n").contains("no sample"));
    assert!(refusal(b"\xff\xfe").contains("UTF-8"));
    let missing: Spec = "file:/nowhere/at/all".parse().expect("a path");
    let message = missing.resolve(MS).expect_err("missing").to_string();
    assert!(message.contains("/nowhere/at/all") && message.contains("check the path"), "{message}");
    let folder: Spec = format!("file:{}", std::env::temp_dir().display()).parse().expect("a path");
    assert!(folder.resolve(MS).is_err());
}

#[test]
fn large_files_are_refused() {
    let file = file(b"1\n");
    // The file is sparse, so nothing is written to disk.
    file.as_file().set_len(MAX_FILE_BYTES + 1).expect("grown");
    let message = spec(&file).resolve(MS).expect_err("too large").to_string();
    assert!(message.contains("more than") && message.contains("fewer lines"), "{message}");
}

#[test]
fn a_file_follows_the_units_of_the_other_terms() {
    let with = file(b"1ms\n");
    let without = file(b"1\n");
    let resolve = |text: String| text.parse::<Spec>().expect("valid").resolve(MS);
    let path = |file: &NamedTempFile| file.path().display().to_string();

    let sum = resolve(format!("det:2ms+file:{}", path(&with))).expect("both with units");
    assert_eq!(sum.mean(), 3.0 * MS);
    let sum = resolve(format!("file:{}+file:{}", path(&without), path(&without)));
    assert_eq!(sum.expect("both without").mean(), 2.0 * MS);

    for (text, words) in [
        (format!("det:2+file:{}", path(&with)), "have units and the other times have none"),
        (format!("file:{}+det:2ms", path(&without)), "have no units"),
        (format!("file:{}+file:{}", path(&with), path(&without)), "have no units"),
    ] {
        let message = resolve(text).expect_err("mixed").to_string();
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn samples_are_drawn_again_and_moments_follow() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("times");
    let text: String = (1..=1_000).map(|ms| format!("{ms}ms\n")).collect();
    std::fs::write(&path, text).expect("a file");
    let made = |text: &str| {
        let spec: curtail_dist::Spec = text.parse().expect("a distribution");
        spec.resolve(1e6).expect("it resolves")
    };
    let mut rng = curtail_dist::seed::rng(1);
    assert!(made("exp:5ms").resampled(&mut rng).is_none());
    let from = made(&format!("det:1000ms+file:{}", path.display()));
    let again = from.resampled(&mut rng).expect("it has samples");
    // The mean of 1,000 uniform draws has a standard error of 9 ms.
    let off = (again.mean() - from.mean()) / 1e6;
    assert!(off != 0.0 && off.abs() < 45.0, "{off}");
    let mean = (0..100_000).map(|_| again.sample(&mut rng)).sum::<f64>() / 1e5;
    assert!((mean - again.mean()).abs() / 1e6 < 5.0, "{mean} and {}", again.mean());
}
