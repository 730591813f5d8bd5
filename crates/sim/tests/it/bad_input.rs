//! Checks that every error about an invalid parameter names the parameter, the value and the fix.

use std::path::PathBuf;

use crate::common::{refusal, unfit, with};
use curtail_sim::Parameters;

/// The text in a file, and parts of the resulting error.
const BAD: &[(&str, &[&str])] = &[
    ("shards = 0", &["shards is 0", "use 1 to 100000"]),
    ("shards = 100_001", &["shards is 100001"]),
    ("replicas = 0", &["replicas is 0", "use 1 to 1024"]),
    ("replicas = 1025", &["replicas is 1025"]),
    ("slots = 0", &["slots is 0", "use 1 to 1024"]),
    ("slots = 4_294_967_295", &["slots is 4294967295"]),
    ("requests = 99", &["requests is 99", "use 100 to 1000000000000"]),
    ("requests = 9_223_372_036_854_775_807", &["requests is 9223372036854775807"]),
    ("replications = 0", &["replications is 0", "use 1 to 1000"]),
    ("replications = 1001", &["replications is 1001"]),
    ("queue = 0", &["queue is 0", "use 1 to 10000000"]),
    ("queue = 4_294_967_295", &["queue is 4294967295"]),
    ("utilization = 0.0", &["utilization is 0", "use a number above 0"]),
    ("utilization = -0.3", &["utilization is -0.3"]),
    ("utilization = nan", &["utilization is NaN"]),
    ("utilization = inf", &["utilization is inf"]),
    ("utilization = 2e6", &["utilization is 2000000"]),
    ("warm-up = -0.1", &["warm-up is -0.1", "use 0 to 0.9"]),
    ("warm-up = 0.91", &["warm-up is 0.91"]),
    ("warm-up = nan", &["warm-up is NaN"]),
    ("hint-error = -0.1", &["hint-error is -0.1", "use 0 to 5; 0 is an exact hint"]),
    ("hint-error = 5.1", &["hint-error is 5.1"]),
    ("hint-error = inf", &["hint-error is inf"]),
    ("speeds = [1.0]", &["speeds is [1.0]", "one speed for each of the 2 replicas"]),
    ("speeds = [1, 1, 1]", &["speeds is", "each of the 2 replicas"]),
    ("speeds = [1, 0]", &["speeds is [1.0, 0.0]", "numbers from 1e-6 to 1e6"]),
    ("speeds = [1, 1e7]", &["speeds is [1.0,", "numbers from 1e-6 to 1e6"]),
    ("speeds = [1, nan]", &["speeds is [1.0, NaN]"]),
    // Times.
    ("service = 'normal:1:2'", &["service:", "`normal`"]),
    ("service = 'exp:1e30'", &["service:", "292 years"]),
    ("service = 'pareto:1:5'", &["service is pareto:1:5", "mean is inf", "add a bound"]),
    ("service = 'det:0'", &["service is det:0", "mean is 0", "above zero"]),
    ("service = 'exp:1e-9'", &["service is 1e-3 ns on average", "use a mean of 1ns"]),
    ("service = 'file:/nowhere/times'", &["service:", "/nowhere/times", "check the path"]),
    ("jitter = 'pareto:0.5:1'", &["jitter is pareto:0.5:1", "mean is inf", "add a bound"]),
    ("jitter = 'bimodal:2:5'", &["jitter:", "`2`"]),
    ("jitter = 'exp:1ms'", &["jitter has units and service has none", "or to none"]),
    ("network = 'exp'", &["network:", "exp:MEAN"]),
    ("network = 'pareto:1:1'", &["network is pareto:1:1", "add a bound"]),
    ("network = 'exp:1ms'", &["network has units and service has none"]),
    ("cancel-cost = '-1'", &["cancel-cost", "-1"]),
    ("cancel-cost = '1+exp:1'", &["cancel-cost is 1+exp:1", "use one time"]),
    ("cancel-cost = '1ms'", &["cancel-cost has units and service has none"]),
    ("arrivals = 'weekly'", &["arrivals \"weekly\"", "use one of poisson"]),
    ("arrivals = 'on-off:0.5:1ms'", &["arrivals has units and service has none"]),
    ("arrivals = 'on-off:0.5:0'", &["arrivals", "LENGTH is \"0\"", "more than zero"]),
    ("arrivals = 'trace:/nowhere/t'", &["arrivals: cannot read /nowhere/t", "check the path"]),
    // Disturbances.
    ("slowdown = ''", &["slowdown is \"\"; write EVERY/LASTS/SPEED, like exp:1000/exp:50/0.2"]),
    ("slowdown = '//'", &["slowdown is \"//\"; write EVERY/LASTS/SPEED"]),
    ("slowdown = 'exp:100/exp:5'", &["slowdown is \"exp:100/exp:5\"; write"]),
    ("slowdown = 'exp:100/exp:5/0.5/1'", &["slowdown is", "write EVERY/LASTS/SPEED"]),
    ("slowdown = '5/5/0.5'", &["slowdown is \"5/5/0.5\"; write"]),
    ("slowdown = 'exp:100/exp:5/-1'", &["slowdown is", "(SPEED is \"-1\")"]),
    ("slowdown = 'exp:100/exp:5/NaN'", &["slowdown is", "(SPEED is \"NaN\")"]),
    ("slowdown = 'exp:100/exp:5/'", &["slowdown is", "(SPEED is \"\")"]),
    ("slowdown = 'det:0/det:1/0.5'", &["slowdown is det:0", "above zero"]),
    ("slowdown = 'det:1/pareto:1:1/0.5'", &["slowdown is pareto:1:1", "add a bound"]),
    ("slowdown = 'exp:1s/exp:1ms/0.5'", &["slowdown has units and service has none"]),
    ("outage = ''", &["outage is \"\"; write EVERY/LASTS, like exp:100000/det:500"]),
    ("outage = 'exp:100/5'", &["outage is \"exp:100/5\"; write EVERY/LASTS"]),
    ("outage = 'exp:100/exp:5/0.5'", &["outage is", "write EVERY/LASTS"]),
    ("outage = 'exp:100/det:0'", &["outage is det:0", "above zero"]),
    // Changes.
    ("change = ['']", &["change \"\": write KEY=VALUE", "like jitter=bimodal:0.01:15"]),
    ("change = ['jitters=none']", &["change \"jitters=none\": write KEY=VALUE"]),
    ("change = ['shards=3']", &["change \"shards=3\": write KEY=VALUE"]),
    ("change = ['jitter=x:1']", &["change \"jitter=x:1\": jitter:", "`x`"]),
    ("change = ['jitter=exp:1ms']", &["change", "jitter has units and service has none"]),
    ("change = ['service=none']", &["change \"service=none\": service:", "`none`"]),
    ("change = ['service=det:0']", &["change", "mean is 0; use times above zero"]),
    ("change = ['service=exp:1e-9']", &["change", "then service is 1e-3 ns", "of 1ns"]),
    ("change = ['service=exp:1e12']", &["change", "then service is 1e18", "shorter"]),
    ("change = ['speeds=1']", &["speeds is [1.0]; use one speed for each of the 2 replicas"]),
    ("change = ['speeds=1,0']", &["speeds is [1.0, 0.0]; use numbers from 1e-6 to 1e6"]),
    ("change = ['speeds=fast']", &["speeds is fast; use numbers, like 1,0.5"]),
    ("change = ['jitter=none', 'jitter=exp:1']", &["jitter changes twice; remove one"]),
    ("change-at = 7", &["change-at is 7; use it with a change", "or a window"]),
    ("window = 0", &["window is 0; use 1 to 1000000000000"]),
    (
        "window = 89",
        &["window is 89, which makes 1012 windows; use 90 or more: up to 1000 windows"],
    ),
    // These values are valid individually, but not in combination.
    (
        "shards = 100_000, replicas = 1024, slots = 1024",
        &["shards is 100000, which makes 104857600000 slots", "fewer"],
    ),
    ("requests = 2000, utilization = 1e-9, service = 'exp:100h'", &["utilization is", "at least"]),
    ("requests = 2000, utilization = 1e-300, service = 'exp:1ms'", &["utilization is", "at least"]),
    ("slowdown = 'det:1e-6/det:1e-6/0.5'", &["slowdown is", "use longer"]),
    // At speed 0, only the time between pauses matters.
    ("slowdown = 'det:1e-5/det:100/0'", &["during one copy"]),
    ("slowdown = 'det:1/det:1/0.5', utilization = 1e-6", &["between two requests"]),
    ("outage = 'det:1e-5/det:1e-5'", &["outage is"]),
    ("arrivals = 'on-off:0.5:1e-6', utilization = 1e-3", &["or use poisson"]),
];

#[test]
fn bad_parameters_are_refused_with_the_value_and_the_fix() {
    for (text, words) in BAD {
        let error = refusal(&with(text));
        for word in *words {
            assert!(error.contains(word), "{text}: {word:?} is not in: {error}");
        }
    }
}

/// Creates a file of samples or arrivals in a temporary directory.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a/b.txt");
    std::fs::create_dir(folder.path().join("a")).expect("a folder");
    std::fs::write(&path, text).expect("a file");
    (folder, path)
}

#[test]
fn unusual_but_valid_parameters_are_accepted() {
    for text in [
        "service = 'exp:5ms', jitter = 'exp:1ms'",
        "change = [' jitter = none ']",
        "window = 90",
        "jitter = 'none'",
    ] {
        assert!(with(text).experiment().is_ok(), "{text}");
    }
    let (_folder, path) = file("0\n0\n");
    let error = refusal(&with(&format!("service = 'file:{}'", path.display())));
    assert!(error.contains("service is file:") && error.contains("mean is 0"), "{error}");
    // Slashes in a path do not separate the parts of a slowdown.
    let (_folder, path) = file("5\n7\n");
    let slowdown = Some(format!("exp:100/file:{}/0.5", path.display()));
    assert!(Parameters { slowdown, ..Parameters::default() }.experiment().is_ok());
}

#[test]
fn policies_that_do_not_fit_are_refused() {
    for (text, policy, words) in [
        ("slots = 8", "bounded:4", "use at least bounded:8"),
        ("servers = 9, slots = 8", "bounded:4", "use at least bounded:8"),
        ("shards = 2", "oracle", "it chooses among servers that clients share; add --servers"),
        ("servers = 9", "probabilistic:auto", "it is for shards with their own servers; remove"),
        (
            "speeds = [1, 2]",
            "das",
            "servers with priorities are all alike and never fail; remove speeds",
        ),
        ("change = ['jitter=exp:1']", "das", "remove change"),
    ] {
        let error = unfit(&with(text), policy);
        assert!(error.contains(words), "{text} {policy}: {error}");
    }
}
