//! Parameters that make no sense: every error names the parameter, the value and the fix.

use std::path::PathBuf;

use crate::common::refusal;
use curtail_sim::{Candidate, Parameters};

fn good() -> Parameters {
    Parameters::default()
}

#[track_caller]
fn assert_refused(parameters: &Parameters, words: &[&str]) {
    let said = refusal(parameters);
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn numbers_out_of_range() {
    for shards in [0, 100_001, u32::MAX] {
        let value = format!("shards is {shards}");
        assert_refused(&Parameters { shards, ..good() }, &[&value, "give it 1 to 100000"]);
    }
    for replicas in [0, 1_025] {
        let words = ["replicas is", "give it 1 to 1024"];
        assert_refused(&Parameters { replicas, ..good() }, &words);
    }
    for slots in [0, u32::MAX] {
        assert_refused(&Parameters { slots, ..good() }, &["slots is", "give it 1 to 1024"]);
    }
    for requests in [0, 99, u64::MAX] {
        let words = ["requests is", "give it 100 to 1000000000000"];
        assert_refused(&Parameters { requests, ..good() }, &words);
    }
    for replications in [0, 1_001] {
        let words = ["replications is", "give it 1 to 1000"];
        assert_refused(&Parameters { replications, ..good() }, &words);
    }
    for queue in [0, u32::MAX] {
        assert_refused(&Parameters { queue, ..good() }, &["queue is", "give it 1 to 10000000"]);
    }
    for utilization in [0.0, -0.3, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2e6] {
        let value = format!("utilization is {utilization}");
        assert_refused(
            &Parameters { utilization, ..good() },
            &[&value, "give it a number above 0"],
        );
    }
    for warm_up in [-0.1, 0.91, 1.0, f64::NAN, f64::INFINITY] {
        let value = format!("warm-up is {warm_up}");
        assert_refused(&Parameters { warm_up, ..good() }, &[&value, "give it 0 to 0.9"]);
    }
}

#[test]
fn speeds_that_are_none() {
    let with = |speeds: &[f64]| Parameters { speeds: speeds.to_vec(), ..good() };
    assert_refused(&with(&[1.0]), &["speeds is [1.0]", "one speed for each of the 2 replicas"]);
    assert_refused(&with(&[1.0; 3]), &["speeds is", "each of the 2 replicas"]);
    for bad in [0.0, -1.0, 1e-7, 1e7, f64::NAN, f64::INFINITY] {
        assert_refused(&with(&[1.0, bad]), &["speeds is [1.0,", "numbers from 1e-6 to 1e6"]);
    }
}

#[test]
fn hints_that_are_none() {
    for bad in [-0.1, 5.1, f64::NAN, f64::INFINITY] {
        let hint_error = Parameters { hint_error: Some(bad), ..good() };
        assert_refused(&hint_error, &["hint-error is", "give it 0 to 5; 0 is an exact hint"]);
    }
}

#[test]
fn services_that_are_none() {
    let with = |service: &str| Parameters { service: service.to_owned(), ..good() };
    assert_refused(&with("normal:1:2"), &["service:", "`normal`"]);
    assert_refused(&with("exp:1e30"), &["service:", "292 years"]);
    assert_refused(&with("pareto:1:5"), &["service is pareto:1:5", "mean is inf", "bound it"]);
    assert_refused(&with("det:0"), &["service is det:0", "mean is 0", "above zero"]);
    assert_refused(&with("exp:1e-9"), &["service is 1e-3 ns on average", "give it a mean of 1ns"]);
}

#[test]
fn other_times_that_are_none() {
    let jitter = |text| Parameters { jitter: some(text), ..good() };
    assert_refused(&jitter("pareto:0.5:1"), &["jitter is pareto:0.5:1", "mean is inf", "bound it"]);
    assert_refused(&jitter("bimodal:2:5"), &["jitter:", "`2`"]);
    assert_refused(&jitter("exp:1ms"), &["jitter has units and service has none", "or to none"]);
    let network = |text| Parameters { network: some(text), ..good() };
    assert_refused(&network("exp"), &["network:", "exp:MEAN"]);
    assert_refused(&network("pareto:1:1"), &["network is pareto:1:1", "bound it"]);
    assert_refused(&network("exp:1ms"), &["network has units and service has none"]);
    let cancel_cost = |text| Parameters { cancel_cost: some(text), ..good() };
    assert_refused(&cancel_cost("-1"), &["cancel-cost", "-1"]);
    assert_refused(&cancel_cost("exp:1"), &["cancel-cost", "exp:1"]);
    assert_refused(&cancel_cost("1+exp:1"), &["cancel-cost is 1+exp:1", "give it one time"]);
    assert_refused(&cancel_cost("1ms"), &["cancel-cost has units and service has none"]);
    let arrivals = |text: &str| Parameters { arrivals: text.to_owned(), ..good() };
    assert_refused(&arrivals("weekly"), &["arrivals \"weekly\"", "use one of poisson"]);
    assert_refused(&arrivals("on-off:0.5:1ms"), &["arrivals has units and service has none"]);
    assert_refused(&arrivals("on-off:0.5:0"), &["arrivals", "LENGTH is \"0\"", "give it more"]);
    let all = Parameters { service: "exp:5ms".to_owned(), ..jitter("exp:1ms") };
    assert!(all.experiment().is_ok_and(|experiment| experiment.has_units));
}

#[test]
fn disturbances_that_are_none() {
    let slowdown = |text: &str| Parameters { slowdown: some(text), ..good() };
    let form = "write EVERY/LASTS/SPEED, as exp:1000/exp:50/0.2";
    for bad in ["", "/", "//", "exp:100/exp:5", "exp:100/exp:5/0.5/1", "5/5/0.5", "a/b/c"] {
        assert_refused(&slowdown(bad), &[&format!("slowdown is {bad:?}"), form]);
    }
    for (bad, speed) in [("-1", "-1"), ("NaN", "NaN"), ("1e7", "1e7"), ("", ""), ("fast", "fast")] {
        let text = format!("exp:100/exp:5/{bad}");
        let speed = format!("(SPEED is {speed:?})");
        assert_refused(&slowdown(&text), &["slowdown is", form, &speed]);
    }
    assert_refused(&slowdown("det:0/det:1/0.5"), &["slowdown is det:0", "above zero"]);
    assert_refused(&slowdown("det:1/pareto:1:1/0.5"), &["slowdown is pareto:1:1", "bound it"]);
    assert_refused(&slowdown("exp:1s/exp:1ms/0.5"), &["slowdown has units and service has none"]);
    assert_refused(&slowdown("exp:1s/exp:1/0.5"), &["units", "slowdown"]);
    let outage = |text: &str| Parameters { outage: some(text), ..good() };
    for bad in ["", "exp:100", "exp:100/5", "exp:100/exp:5/0.5"] {
        let words = [&format!("outage is {bad:?}"), "write EVERY/LASTS, as exp:100000/det:500"];
        assert_refused(&outage(bad), &words.map(|word: &str| word));
    }
    assert_refused(&outage("exp:100/det:0"), &["outage is det:0", "above zero"]);
}

#[test]
fn changes_that_are_none() {
    let change = |text: &str| Parameters { change: vec![text.to_owned()], ..good() };
    for bad in ["", "jitter", "jitters=none", "=", "shards=3", "utilization=0.5"] {
        let words = [&format!("change {bad:?}: write KEY=VALUE"), "as jitter=bimodal:0.01:15"];
        assert_refused(&change(bad), &words.map(|word: &str| word));
    }
    assert_refused(&change("jitter=x:1"), &["change \"jitter=x:1\": jitter:", "`x`"]);
    assert_refused(&change("jitter=exp:1ms"), &["change", "jitter has units and service has none"]);
    assert_refused(&change("service=none"), &["change \"service=none\": service:", "`none`"]);
    assert_refused(&change("service=det:0"), &["change", "mean is 0; give it times above zero"]);
    assert_refused(&change("service=exp:1e-9"), &["change", "then service is 1e-3 ns", "of 1ns"]);
    assert_refused(&change("service=exp:1e12"), &["change", "then service is 1e18", "shorter"]);
    for (bad, words) in [
        ("1", "speeds is [1.0]; give it one speed for each of the 2 replicas"),
        ("1,0", "speeds is [1.0, 0.0]; give it numbers from 1e-6 to 1e6"),
        ("fast", "speeds is fast; give it numbers, as 1,0.5"),
    ] {
        assert_refused(&change(&format!("speeds={bad}")), &["change \"speeds=", words]);
    }
    let mut twice = change("jitter=none");
    twice.change.push("jitter=exp:1".to_owned());
    assert_refused(&twice, &["change \"jitter=exp:1\": jitter changes twice; drop one"]);
    assert!(change(" jitter = none ").experiment().is_ok());
}

#[test]
fn windows_that_are_none() {
    let window = |window| Parameters { window: Some(window), ..good() };
    assert_refused(&window(0), &["window is 0; give it 1 to 1000000000000"]);
    let many = Parameters { requests: 100_000, ..window(89) };
    let words = ["window is 89, which makes 1012 windows; give it 90 or more: up to 1000 windows"];
    assert_refused(&many, &words);
    assert!(Parameters { window: Some(90), ..many }.experiment().is_ok());
    let nothing = Parameters { change_at: Some(7), ..good() };
    assert_refused(&nothing, &["change-at is 7; give it a change as well", "or a window"]);
}

/// A file of samples or arrivals, in a folder that goes away with it.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a/b.txt");
    std::fs::create_dir(folder.path().join("a")).expect("a folder");
    std::fs::write(&path, text).expect("a file");
    (folder, path)
}

#[test]
fn files_that_are_none() {
    let with = |path: &str| Parameters { service: format!("file:{path}"), ..good() };
    assert_refused(&with("/nowhere/samples"), &["service:", "/nowhere/samples", "check the path"]);
    let trace = Parameters { arrivals: "trace:/nowhere/trace".to_owned(), ..good() };
    assert_refused(&trace, &["arrivals: cannot read /nowhere/trace", "check the path"]);
    let (_folder, path) = file("0\n0\n");
    assert_refused(&with(&path.to_string_lossy()), &["service is file:", "mean is 0"]);
    // Slashes of a path are not those of a slowdown.
    let (_folder, path) = file("5\n7\n");
    let slowdown = Some(format!("exp:100/file:{}/0.5", path.display()));
    assert!(Parameters { slowdown, ..good() }.experiment().is_ok());
}

#[test]
fn policies_that_are_none() {
    let said = |text: &str| Candidate::parse(text, 1).expect_err(text).to_string();
    assert!(said("").contains("use one of random"), "{}", said(""));
    assert!(said("o2").contains("\"o2\"") && said("o2").contains("idealized, o1"));
    assert!(said("bounded:0").contains("\"0\" is no bound; give it a number"));
    assert!(said("delayed:-1").contains("delayed:-1"));
    let experiment = Parameters { slots: 8, ..good() }.experiment().expect("a good experiment");
    let narrow = Candidate::parse("bounded:4", 1).expect("a policy");
    let (progress, stop) = Default::default();
    let plan = curtail_sim::Plan { threads: 1, percentiles: &[], progress: &progress, stop: &stop };
    let error = curtail_sim::compare(&experiment, &[narrow], &plan).expect_err("too narrow");
    assert!(error.to_string().contains("bounded:4"), "{error}");
    assert!(error.to_string().contains("use at least bounded:8"), "{error}");
}
