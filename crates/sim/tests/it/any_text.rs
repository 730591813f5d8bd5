//! Checks that any text for a parameter results in either an error or an experiment that runs.

use crate::common::{candidates, planned};
use curtail_sim::{Arrivals, Candidate, Parameters, compare};
use proptest::prelude::*;
use proptest::string::string_regex;

/// Generates text that sometimes looks like times, distributions, processes or disturbances.
fn text() -> impl Strategy<Value = String> {
    let names = "exp|det|lognormal|gamma|erlang|h2|pareto|weibull|bimodal|uniform|file|trace|mmpp|on-off\
                 |poisson|constant|";
    let decimal = "-?[0-9]{1,3}(\\.[0-9]{1,3})?(e-?[0-9]{1,3})?|[01]\\.[0-9]|[0-9]{1,2}";
    let number = format!("({decimal}|NaN|inf|-0|1e-320|/|µs|)(||ns|ms|h|parsec)");
    let term = format!("({names})(:{number}){{0,3}}");
    let list = string_regex(&format!("{term}((/|/|\\+|){term}){{0,2}}")).expect("an expression");
    prop_oneof![8 => list, 1 => any::<String>(), 1 => "\\PC{0,20}"]
}

/// Generates text with a valid form and numbers of all sizes.
fn form() -> impl Strategy<Value = String> {
    let forms = prop::sample::select(vec![
        "exp:#",
        "det:#",
        "uniform:0:#",
        "lognormal:#:2",
        "pareto:1.1:#",
        "bimodal:0.5:#",
        "#",
        "erlang:3:#",
        "exp:#+bimodal:0.1:#",
        "mmpp:7:0.1:#",
        "on-off:0.1:#",
        "exp:#/exp:#",
        "det:#/det:#",
        "exp:#/det:#/0",
        "det:#/exp:#/0.1",
        "exp:#/exp:#/7",
    ]);
    // Exponents that are near that of the service, and others that are far from it.
    let exponents = prop_oneof![-1.0..2.0, -1.0..2.0, -12.0..14.0_f64];
    (forms, prop::collection::vec(exponents, 2)).prop_map(|(form, exponents)| {
        let numbers = exponents.iter().map(|exponent| 10_f64.powf(*exponent).to_string());
        numbers.fold(form.to_owned(), |text, number| text.replacen('#', &number, 1))
    })
}

/// Returns the parameters of a run with few requests. The text of one parameter comes from `text`
/// or `form`.
fn parameters() -> impl Strategy<Value = Parameters> {
    let numbers = (0.01..2.0_f64, 1_u32..4, 1_u32..3, any::<u64>());
    (prop_oneof![text(), form()], 0..10, numbers).prop_map(
        |(text, place, (utilization, replicas, slots, seed))| {
            let few = Parameters {
                shards: 2,
                requests: 100,
                replications: 1,
                queue: 1_000,
                utilization,
                replicas,
                slots,
                seed,
                ..Parameters::default()
            };
            match place {
                0 => Parameters { service: text, ..few },
                1 => Parameters { jitter: Some(text), ..few },
                2 => Parameters { arrivals: text, ..few },
                3 => Parameters { network: Some(text), ..few },
                4 => Parameters { slowdown: Some(text), ..few },
                5 => Parameters { outage: Some(text), ..few },
                6 => Parameters { cancel_cost: Some(text), ..few },
                7 => Parameters { change: vec![text], ..few },
                8 => Parameters { change: vec![format!("jitter={text}")], window: Some(7), ..few },
                _ => Parameters { change: vec![format!("service={text}")], ..few },
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parameters_make_an_experiment_that_runs_or_an_error(parameters in parameters()) {
        let experiment = match parameters.experiment() {
            Ok(experiment) => experiment,
            Err(error) => {
                prop_assert!(!error.to_string().is_empty());
                return Ok(());
            }
        };
        let policies = candidates(&["o1", "laedge:cc"]);
        let outcomes = planned(1, |plan| compare(&experiment, &policies, plan)).0.expect("they fit");
        for outcome in outcomes.expect("nothing stops it") {
            let counted = outcome.histogram.len() + outcome.requests_failed;
            prop_assert!(counted == 90 || !outcome.stable, "{} of 90", counted);
        }
    }

    #[test]
    fn arrivals_read_back_as_printed(text in text()) {
        if let Ok(arrivals) = Arrivals::parse(&text, 1e6) {
            let printed = arrivals.to_string();
            prop_assert_eq!(Arrivals::parse(&printed, 1e6).expect("the printed text"), arrivals);
        }
    }

    #[test]
    fn policies_are_read_or_refused(text in "[a-z0-9:+.-]{0,20}") {
        if let Ok(candidate) = Candidate::parse(&text, 1_000_000) {
            let printed = candidate.to_string();
            prop_assert_eq!(Candidate::parse(&printed, 1_000_000).expect("printed"), candidate);
        }
    }
}
