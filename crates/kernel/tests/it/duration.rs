//! Durations in options and configuration files.

use curtail_kernel::duration;
use proptest::prelude::*;

#[test]
fn durations_are_read_exactly() {
    for (text, ns) in [
        ("0ns", 0),
        ("0s", 0),
        ("250us", 250_000),
        ("250\u{b5}s", 250_000),
        ("250\u{3bc}s", 250_000),
        ("1.5ms", 1_500_000),
        ("1.50000000000000ms", 1_500_000),
        (" 2 s ", 2_000_000_000),
        (".5s", 500_000_000),
        ("5.s", 5_000_000_000),
        ("2min", 120_000_000_000),
        ("1.5h", 5_400_000_000_000),
        ("0.0000000001min", 6),
        ("9007199254740993ns", 9_007_199_254_740_993),
        ("18446744073709551615ns", u64::MAX),
        ("18446744073.709551615s", u64::MAX),
    ] {
        assert_eq!(duration::parse(text), Ok(ns), "{text}");
    }
}

#[test]
fn bad_durations_are_refused_with_the_value_and_the_fix() {
    for (text, words) in [
        ("", "decimal number and a unit"),
        ("ms", "decimal number and a unit"),
        (".ms", "decimal number and a unit"),
        ("1.2.3s", "decimal number and a unit"),
        ("1e3ms", "decimal number and a unit"),
        ("+1ms", "decimal number and a unit"),
        ("infs", "decimal number and a unit"),
        ("5", "add one of ns, us"),
        ("5m", "use one of ns, us"),
        ("5 hours", "use one of ns, us"),
        ("-5ms", "negative"),
        ("0.5ns", "finer than a nanosecond"),
        ("1.0000001ms", "finer than a nanosecond"),
        ("0.000000000000000000000001min", "finer than a nanosecond"),
        ("18446744073709551616ns", "584 years"),
        ("18446744073.709551616s", "584 years"),
        ("99999999999999999999999min", "584 years"),
    ] {
        let message = duration::parse(text).expect_err(text).to_string();
        assert!(
            message.contains(words),
            "the error for {text:?}, {message:?}, does not contain {words:?}"
        );
        assert!(message.contains(&format!("`{text}`")), "{message:?} does not contain {text:?}");
    }
}

#[test]
fn durations_are_shown_in_the_largest_unit_that_fits() {
    for (ns, text) in [
        (0, "0ns"),
        (1, "1ns"),
        (999, "999ns"),
        (1_000, "1us"),
        (1_234_567, "1.234567ms"),
        (100_000_000, "100ms"),
        (1_000_000_001, "1.000000001s"),
        (60_000_000_000, "60s"),
    ] {
        assert_eq!(duration::format(ns).to_string(), text);
    }
    assert_eq!(format!("{:>6}|", duration::format(1_000)), "   1us|");
}

proptest! {
    #[test]
    fn formatted_durations_parse_back(ns: u64, shift in 0..64u32) {
        let ns = ns >> shift;
        prop_assert_eq!(duration::parse(&duration::format(ns).to_string()), Ok(ns));
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*") {
        let _ = duration::parse(&text);
    }

    #[test]
    fn nearly_durations_never_panic(text in "[-+]?[0-9.e]{0,30} ?(ns|us|µs|ms|s|min|m|)") {
        let _ = duration::parse(&text);
    }
}
