//! Parses and prints distributions.

use curtail_dist::{Form, Scale, Spec};
use curtail_kernel::duration::Unit;
use proptest::prelude::*;

/// An invalid input, and words that the error message must contain: the value and the fix.
const BAD: &[(&str, &[&str])] = &[
    ("", &["missing", "exp:5ms"]),
    ("   ", &["missing"]),
    ("exp:1+", &["missing", "exp:1+"]),
    ("+exp:1", &["missing"]),
    ("normal:1:2", &["`normal`", "did you mean lognormal:MEAN:CV?"]),
    ("5ms", &["`5ms`", "use one of"]),
    ("exp", &["`exp`", "wrong number", "exp:MEAN"]),
    ("exp:", &["not a number", "MEAN"]),
    ("exp:1:2", &["`exp:1:2`", "wrong number", "exp:MEAN"]),
    ("pareto:2", &["wrong number", "pareto:ALPHA:MIN[:MAX]"]),
    ("pareto:2:1:3:4", &["wrong number"]),
    ("exp:abc", &["`abc`", "not a number"]),
    ("exp:inf", &["`inf`", "not a number"]),
    ("exp:NaN", &["`NaN`", "not a number"]),
    ("exp:1e400", &["`1e400`", "not a number"]),
    ("exp:5 parsecs", &["`5 parsecs`", "unknown unit", "ms"]),
    ("exp:5m", &["`5m`", "unknown unit", "min"]),
    ("exp:0", &["`0`", "MEAN", "greater than 0", "det:0"]),
    ("exp:-3ms", &["`-3ms`", "greater than 0"]),
    ("det:-0", &["`-0`", "0 or more"]),
    ("lognormal:1:2ms", &["`2ms`", "CV", "drop the unit"]),
    ("gamma:1:-1", &["`-1`", "CV", "0 to 1000"]),
    ("h2:1:0.9", &["`0.9`", "CV", "1 to 1000"]),
    ("erlang:2.5:1", &["`2.5`", "K", "whole number"]),
    ("erlang:0:1", &["`0`", "K", "whole number"]),
    ("weibull:0:1", &["`0`", "SHAPE", "1e-6"]),
    ("bimodal:1.5:1", &["`1.5`", "PROB", "0 to 1"]),
    ("bimodal:0.5s:1", &["`0.5s`", "drop the unit"]),
    ("uniform:3:1", &["`3`", "`1`", "order", "A at most B"]),
    ("pareto:2:5ms:5ms", &["`5ms`", "order", "MIN below MAX"]),
    ("uniform:1:5ms", &["`5ms` has a unit", "`1` has none"]),
    ("exp:1+det:1ms", &["`1ms` has a unit", "`1` has none", "every time or to none"]),
    ("file:", &["wrong number", "file:PATH"]),
];

#[test]
fn bad_texts_are_refused_with_the_value_and_the_fix() {
    for (text, words) in BAD {
        let message = text.parse::<Spec>().expect_err(text).to_string();
        for word in *words {
            assert!(message.contains(word), "{text:?}: {message:?} lacks {word:?}");
        }
    }
}

#[test]
fn long_sums_are_refused() {
    let sum = |terms: usize| vec!["det:1"; terms].join("+").parse::<Spec>();
    assert!(sum(Spec::MAX_TERMS).is_ok());
    let message = sum(Spec::MAX_TERMS + 1).expect_err("too many").to_string();
    assert!(message.contains("17 terms") && message.contains("at most 16"), "{message}");
}

#[test]
fn specifications_display_canonically() {
    for (written, shown) in [
        ("exp:5ms", "exp:5ms"),
        (" exp : 1.50 µs ", "exp:1.5us"),
        ("det:2.50\u{3bc}s", "det:2.5us"),
        ("det:2.50\u{b5}s", "det:2.5us"),
        ("exp:1e3+ bimodal:0.001: 15 ", "exp:1000+bimodal:0.001:15"),
        ("hiccup:0.010:3ms", "hiccup:0.01:3ms"),
        ("pareto:1.5:1ms:1s", "pareto:1.5:1ms:1s"),
        ("file:/a/b+c:d.txt+exp:1", "file:/a/b+c:d.txt+exp:1"),
    ] {
        let spec: Spec = written.parse().expect(written);
        assert_eq!(spec.to_string(), shown);
    }
}

#[test]
fn a_plus_in_a_path_is_kept_and_a_term_after_it_is_split_off() {
    let with_plus: Spec = "file:a+b".parse().expect("one term");
    let sum: Spec = "file:a+b+det:1ms".parse().expect("two terms");
    assert_eq!(with_plus.scale(), Scale::InFiles);
    assert_eq!(sum.scale(), Scale::Absolute);
}

#[test]
fn the_scale_follows_the_units() {
    let scale = |text: &str| text.parse::<Spec>().expect(text).scale();
    assert_eq!(scale("exp:1+bimodal:0.1:3"), Scale::Relative);
    assert_eq!(scale("exp:1s+bimodal:0.1:3min"), Scale::Absolute);
    assert_eq!(scale("file:x+file:y"), Scale::InFiles);
}

#[test]
fn forms_do_not_depend_on_the_family() {
    let form = |text: &str| text.parse::<Spec>().expect(text).form();
    for text in ["exp:5ms", "erlang:1:2", "gamma:3:1", "h2:3:1", "weibull:1:4"] {
        assert_eq!(form(text), Form::Exponential, "{text}");
    }
    for text in ["det:5ms", "gamma:3:0", "uniform:2:2", "bimodal:1:3", "bimodal:0:3"] {
        assert_eq!(form(text), Form::Constant, "{text}");
    }
    assert_eq!(form("h2:3:2"), Form::Hyper);
    assert_eq!(form("bimodal:0.1:3"), Form::Bimodal { probability: 0.1 });
    for text in ["exp:1+det:1", "gamma:3:2", "file:x", "pareto:2:1", "uniform:1:2"] {
        assert_eq!(form(text), Form::Other, "{text}");
    }
}

#[test]
fn a_unit_is_given_to_times_that_have_none() {
    let in_ms =
        |text: &str| text.parse::<Spec>().expect(text).in_unit(Unit::Millisecond).to_string();
    assert_eq!(in_ms("exp:5+bimodal:0.1:75"), "exp:5ms+bimodal:0.1:75ms");
    assert_eq!(in_ms("pareto:1.5:2:8+weibull:2:1"), "pareto:1.5:2ms:8ms+weibull:2:1ms");
    assert_eq!(in_ms("uniform:1:2+h2:3:2+erlang:4:1"), "uniform:1ms:2ms+h2:3ms:2+erlang:4:1ms");
    assert_eq!(in_ms("det:7us"), "det:7us");
}

fn time(unit: &'static str) -> impl Strategy<Value = String> {
    (1e-3..1e6).prop_map(move |x: f64| format!("{x}{unit}"))
}

fn term(unit: &'static str) -> impl Strategy<Value = String> {
    let t = || time(unit);
    prop_oneof![
        t().prop_map(|m| format!("exp:{m}")),
        t().prop_map(|v| format!("det:{v}")),
        (t(), 0.0..1e3).prop_map(|(m, cv)| format!("lognormal:{m}:{cv}")),
        (t(), 0.0..1e3).prop_map(|(m, cv)| format!("gamma:{m}:{cv}")),
        (1..1000u32, t()).prop_map(|(k, m)| format!("erlang:{k}:{m}")),
        (t(), 1.0..1e3).prop_map(|(m, cv)| format!("h2:{m}:{cv}")),
        (1e-6..1e6, t()).prop_map(|(a, m)| format!("pareto:{a}:{m}")),
        (1e-6..1e6, 1e-3..1e3, 1.1..1e4)
            .prop_map(move |(a, m, r)| format!("pareto:{a}:{m}{unit}:{}{unit}", m * r)),
        (1e-6..1e6, t()).prop_map(|(s, m)| format!("weibull:{s}:{m}")),
        (0.0..=1.0, t()).prop_map(|(p, v)| format!("bimodal:{p}:{v}")),
        (0.0..1e3, 0.0..1e3).prop_map(move |(a, w)| format!("uniform:{a}{unit}:{}{unit}", a + w)),
    ]
}

fn sum() -> impl Strategy<Value = String> {
    prop_oneof![Just(""), Just("ns"), Just("us"), Just("ms"), Just("s"), Just("min")].prop_flat_map(
        |unit| prop::collection::vec(term(unit), 1..5).prop_map(|terms| terms.join("+")),
    )
}

/// Generates names, separators, numbers and units in any order. Such texts exercise more code than
/// arbitrary text.
const NEARLY: &str = "(exp|det|lognormal|gamma|erlang|h2|pareto|weibull|bimodal|uniform|:|:|:|:|\\+|0|1\
    |1e308|1e-320|1000|\\.5|-|ms|min|ns|µs){0,8}";

proptest! {
    #[test]
    fn display_reads_back(text in sum()) {
        let spec: Spec = text.parse()?;
        prop_assert_eq!(spec.to_string().parse::<Spec>()?, spec);
    }

    #[test]
    fn parsed_distributions_draw_safely(text in prop_oneof![sum(), NEARLY], seed: u64) {
        let Ok(spec) = text.parse::<Spec>() else { return Ok(()) };
        let Ok(distribution) = spec.resolve(1e6) else { return Ok(()) };
        prop_assert!(distribution.mean() >= 0.0);
        prop_assert!(distribution.variance() >= 0.0);
        prop_assert!(distribution.scv() >= 0.0);
        let mut rng = curtail_dist::seed::rng(seed);
        for _ in 0..20 {
            let ns = distribution.sample(&mut rng);
            prop_assert!((0.0..=curtail_dist::MAX_SAMPLE_NS).contains(&ns), "{} drew {}", text, ns);
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*") {
        if let Ok(spec) = text.parse::<Spec>() {
            prop_assert_eq!(spec.to_string().parse::<Spec>()?, spec);
        }
    }

    #[test]
    fn arbitrary_values_never_panic(
        name in "(exp|det|lognormal|gamma|erlang|h2|pareto|weibull|bimodal|uniform|file)",
        rest in "\\PC*",
    ) {
        if let Ok(spec) = format!("{name}:{rest}").parse::<Spec>() {
            prop_assert_eq!(spec.to_string().parse::<Spec>()?, spec);
        }
    }
}
