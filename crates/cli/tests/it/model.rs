//! Tests `curtail model`: values from textbooks, the structure of its documents, its errors, and
//! its manual.

use std::path::Path;

use crate::harness::words::{self, Ran, folder, read};
use serde_json::Value;

fn model(folder: &Path, line: &str) -> Ran {
    words::curtail_in(folder, &format!("model {line}"))
}

/// Runs a model, and returns the document that it prints.
fn json_in(folder: &Path, line: &str) -> Value {
    words::json_in(folder, &format!("model {line}"))
}

fn json(line: &str) -> Value {
    json_in(Path::new("."), line)
}

fn close(actual: &Value, expected: f64) {
    let actual = actual.as_f64().unwrap_or(f64::NAN);
    assert!((actual / expected - 1.0).abs() < 1e-9, "{actual} is not {expected}");
}

#[test]
fn services_get_the_most_exact_model() {
    for (line, model, has_tail) in [
        ("--utilization 0.8", "M/M/1", true),
        ("--utilization 0.5 --servers 2", "M/M/k", true),
        ("--service-time det:1 --utilization 0.5", "M/D/1", true),
        ("--service-time h2:1:2 --utilization 0.5", "M/H2/1", true),
        ("--service-time h2:1:1 --utilization 0.5", "M/M/1", true),
        ("--gaps exp:2 --service-time h2:1:2", "M/H2/1", true),
        ("--gaps h2:2:2 --service-time h2:1:2", "H2/H2/1", true),
        (
            "--arrival-scv 1 --service-time h2:1:2 --utilization 0.5 --model h2/h2/1",
            "H2/H2/1",
            true,
        ),
        ("--service-time gamma:1:0.5 --utilization 0.8", "M/G/1", false),
        ("--service-time exp:1 --model mg1 --utilization 0.5", "M/G/1", false),
        ("--service-time exp:1 --model gg1-heavy-traffic --utilization 0.5", "G/G/1", false),
        ("--service-time exp:1 --model gg1-bound --utilization 0.5", "G/G/1", false),
        ("--service-time det:1 --servers 2 --utilization 0.5", "G/G/k", false),
        ("--arrival-scv 4 --servers 2 --utilization 0.5", "G/G/k", false),
    ] {
        let answer = json(&format!("queue {line}"));
        assert_eq!(answer["model"], model, "{line}");
        assert_eq!(answer["sojourn"]["p99"].is_f64(), has_tail, "{line}");
        assert_eq!(answer["sojourn"]["percentiles_basis"].is_object(), has_tail, "{line}");
    }
    let one = json("queue --utilization 0.8");
    close(&one["wait"]["mean"], 4.0);
    close(&one["sojourn"]["p999"], 5.0 * 1000_f64.ln());
    close(&one["waiting_probability"], 0.8);
    close(&one["mean_in_system"], 4.0);
    assert_eq!((&one["unit"], &one["because"]["kind"]), (&"1".into(), &"fits".into()));
    assert_eq!(one["sojourn"]["percentiles_basis"]["kind"], "exact");
    let bursts = json("queue --arrival-scv 4 --utilization 0.5");
    assert_eq!(
        bursts["wait"]["mean_basis"],
        serde_json::json!({
            "kind": "approximation",
            "method": "Krämer and Langenbach-Belz",
            "text": "approximation (Krämer and Langenbach-Belz)"
        })
    );
}

/// Tests takeaway 4 of document 004.
#[test]
fn hyper_exponentials_are_fitted_to_samples() {
    // The samples are evenly spaced quantiles of two exponentials. One sample in ten is from the
    // slow phase.
    let mixed = |scale: f64| -> String {
        let phase = |mean: f64, count: u32| {
            let rank = move |i| (f64::from(i) + 0.5) / f64::from(count);
            (0..count).map(move |i| format!("{}ms\n", -mean * (1.0 - rank(i)).ln()))
        };
        phase(scale, 9_000).chain(phase(10.0 * scale, 1_000)).collect()
    };
    let folder =
        folder(&[("gaps", &mixed(10.0)), ("services", &mixed(5.0)), ("even", "4ms\n5ms\n")]);
    let line = "queue --gaps file:gaps --service-time file:services";
    let queue = json_in(folder.path(), &format!("{line} --model h2h21"));
    assert_eq!((&queue["model"], &queue["gaps"]), (&"H2/H2/1".into(), &"file:gaps".into()));
    assert_eq!(queue["sojourn"]["percentiles_basis"]["kind"], "approximation");
    // Rates are per second.
    for (rate, expected) in [
        (&queue["arrival_rate"], 1000.0 / 19.0),
        (&queue["phases"]["gaps"]["rates"][0], 100.0),
        (&queue["phases"]["service"]["rates"][0], 200.0),
    ] {
        let rate = rate.as_f64().expect("a number");
        assert!((rate / expected - 1.0).abs() < 0.05, "{rate} is not {expected}");
    }
    let two = json_in(folder.path(), line);
    assert_eq!((&two["model"], &two["phases"]), (&"G/G/1".into(), &Value::Null));
    let cases = [(
        "queue --gaps file:even --service-time file:services --model h2h21",
        "does not fit --gaps file:even: its squared coefficient of variation is 0.01235, and a",
    )];
    refused(folder.path(), &cases);
}

/// Tests takeaway 7 of document 004.
#[test]
fn variance_is_worth_a_longer_mean() {
    let folder = folder(&[]);
    let line = "variability --service-time h2:5ms:2 --arrival-rate 100 --reduce 0.5,1";
    let found = json_in(folder.path(), line);
    // E[T] = Var(S)/(2 E[IAT] (1-ρ)) + E[S](2-ρ)/(2(1-ρ)) with E[S] = 5, Var(S) = 100, E[IAT] = 10.
    let sojourn = |mean: f64, variance: f64| {
        let load = mean / 10.0;
        variance / (20.0 * (1.0 - load)) + mean * (2.0 - load) / (2.0 * (1.0 - load))
    };
    close(&found["mean_sojourn"], sojourn(5.0, 100.0));
    for (at, variance) in [(0, 50.0), (1, 0.0)] {
        let even = &found["break_even"][at];
        let mean = even["mean_service"].as_f64().expect("a mean");
        close(&found["mean_sojourn"], sojourn(mean, variance));
        close(&even["rise"], mean / 5.0 - 1.0);
        close(&even["utilization"], mean / 10.0);
    }
    let map = &found["heat_map"];
    let mean = map["mean_service"][2].as_f64().expect("a number");
    let variance = map["variance"][1].as_f64().expect("a number");
    close(&map["mean_sojourn"][1][2], sojourn(mean, variance));
    model(folder.path(), &format!("{line} --out map")).ends(0);
    let page = read(folder.path().join("map/variability.html"));
    assert_eq!(page.matches("<rect").count(), 2 * (7 * 8 + 2), "two maps with legends");
    assert!(page.contains("may take 7.344 ms on average, instead of 5 ms"), "{page}");
    // If the utilization is close to 1, a service with a longer mean has no steady state.
    let busy = json("variability --service-time lognormal:1:9 --utilization 0.1");
    assert!(busy["heat_map"]["break_even"][6].is_null());
    let text = model(folder.path(), "variability --utilization 0.5").out;
    assert!(text.contains("\n100 %                    1.172  "), "{text}");
    assert_eq!(text.matches('*').count(), 35 - 3, "{text}");
}

#[test]
fn waiting_probabilities_are_reported_with_their_exactness() {
    let line = "queue --service-time exp:1 --utilization 0.8";
    for (more, words) in [
        ("", "4 are in the system\n"),
        ("--arrival-scv 0", "are in the system: approximation ("),
        ("--model gg1-bound", "4.9 are in the system: upper bound\n"),
        ("--model gg1-bound", "G/G/1 has no percentiles of the wait;"),
        // The wait with this service is not exponential.
        ("--service-time exp:1+bimodal:0.001:100", "% of the queries wait;"),
        ("--service-time exp:1+bimodal:0.001:100", "curtail sim measures them"),
    ] {
        let line = if more.starts_with("--service") { "queue --utilization 0.5" } else { line };
        model(Path::new("."), &format!("{line} {more}")).prints([words]);
    }
}

#[test]
fn rates_are_per_second_where_times_have_units() {
    for rate in ["160", "160/s", "0.16/ms", "9600/min"] {
        let answer = json(&format!("queue --service-time exp:5ms --arrival-rate {rate}"));
        assert_eq!([&answer["unit"], &answer["rate_unit"]], ["ms", "1/s"]);
        close(&answer["arrival_rate"], 160.0);
        close(&answer["utilization"], 0.8);
        close(&answer["sojourn"]["mean"], 25.0);
    }
}

#[test]
fn a_plot_has_the_mean_at_each_utilization() {
    let answer = json("queue --utilization 0.3 --percentiles 50,99 --plot");
    let points = answer["curve"]["points"].as_array().expect("points");
    assert_eq!((points.len(), &answer["curve"]["percentile"]), (11, &99.0.into()));
    for point in points {
        let mean = 1.0 / (1.0 - point["utilization"].as_f64().expect("a number"));
        close(&point["mean"], mean);
        close(&point["tail"], mean * 100_f64.ln());
    }
    assert!(json("queue --utilization 0.3")["curve"].is_null());
}

#[test]
fn fan_out_is_exact_without_load_and_bounded_under_load() {
    let plain = json("unloaded --shards 50 --service-time exp:2ms --copies 1");
    close(&plain["requests"][0]["p99"], -2.0 * (1.0 - 0.99_f64.powf(0.02)).ln());
    assert_eq!(plain["unit"], "ms");
    assert_eq!(json("unloaded --shards 50 --service-time exp:2ms --copies 1 --jitter none"), plain);
    let hiccups = json("unloaded --shards 50 --jitter bimodal:0.001:15");
    assert_eq!(hiccups["requests"][1]["copies"], 2);
    let loaded = json("fork-join --shards 10 --utilization 0.5");
    assert!(loaded["lower"]["p99"].is_f64() && loaded["upper"]["p99"].is_f64());
    assert!(loaded["estimate"]["mean"].is_f64() && loaded["estimate"]["p99"].is_null());
}

#[test]
fn samples_have_a_distribution_to_paste() {
    let quantiles = (0..200).map(|i| -5.0 * (1.0 - (f64::from(i) + 0.5) / 200.0).ln());
    let bare: String = quantiles.map(|x| format!("{x}\n")).collect();
    let with_units = bare.replace('\n', "ms # measured\n");
    let folder = folder(&[("bare", &bare), ("with-units", &with_units)]);
    let fit = |line: &str| json_in(folder.path(), &format!("fit {line}"));
    assert_eq!(fit("bare")["best"], "exp:4.99134");
    let units = fit("with-units --by ks");
    assert_eq!(
        [&units["unit"], &units["by"], &units["samples"]],
        [&"ms".into(), &"ks".into(), &Value::from(200)]
    );
    let parameters = units["fits"][0]["parameters"].as_object().expect("by their names");
    assert!(parameters.values().all(Value::is_f64), "{parameters:?}");
    let best = units["best"].as_str().expect("a distribution");
    let answer = json(&format!("queue --service-time {best} --utilization 0.5"));
    assert_eq!(answer["unit"], "ms", "what is printed can be pasted");
}

#[test]
fn a_best_fit_that_is_not_the_first_is_marked() {
    // One time in a hundred is drawn from a distribution with a thousand times the mean. Of the
    // distributions that `--service-time` accepts, none fits this mixture well.
    let long = |at: u32| if at.is_multiple_of(100) { 1_000.0 } else { 1.0 };
    let time = |at: u32| -long(at) * (1.0 - (f64::from(at * 7_919 % 5_000) + 0.5) / 5_000.0).ln();
    let samples: String = (0..5_000).map(|at| format!("{}\n", time(at))).collect();
    let even: String = (0..200).map(|i| format!("{}\n", 1.0 + f64::from(i))).collect();
    let folder = folder(&[("mixed", &samples), ("even", &even)]);
    let of = "best of those that --service-time accepts: --service";
    model(folder.path(), "fit mixed").prints([of]);
    model(folder.path(), "fit even").prints(["best: --service"]);
}

#[test]
fn curves_find_the_load_for_a_latency() {
    let line = |load: u32| format!("{load}, {}ms\n", 1.0 + 3.0 / (1.0 - f64::from(load) / 500.0));
    let text: String = [50, 150, 250, 350, 450].into_iter().map(line).collect();
    let folder = folder(&[("points.csv", &format!("load,latency\n{text}"))]);
    let curve = json_in(folder.path(), "curve points.csv --slo 11ms");
    assert!(curve["slo"]["highest_load"].is_f64() && curve["r_squared"].is_f64(), "{curve}");
    assert_eq!(curve["slo"]["within_measurements"], true);
    let never = json_in(folder.path(), "curve points.csv --slo 3ms");
    assert!(never["slo"]["highest_load"].is_null());
}

#[test]
fn splits_have_rates_in_the_unit_that_was_given() {
    let split = json("split --arrival-rate 8 --rates 10,5,1");
    assert_eq!(split["servers"][2]["optimal"]["rate"], 0.0);
    close(&split["servers"][2]["proportional"]["rate"], 0.5);
    close(&split["proportional"]["mean_sojourn"], 3.0 / 8.0);
    let seconds = json("split --arrival-rate 8/s --rates 10/s,5/s,1/s");
    close(&seconds["proportional"]["mean_sojourn"], 375.0);
}

#[test]
fn queues_of_shared_servers_oscillate_if_clients_are_blind() {
    let most = |more: &str| {
        let asked = "fluid --service 4ms,4ms,4ms --network 250us --for 500ms";
        let queues = json(&format!("{asked}{more}"));
        assert_eq!((&queues["unit"], &queues["duration"]), (&"ms".into(), &500.0.into()));
        queues["servers"][0]["most"].as_f64().expect("a queue")
    };
    assert!(most("") < 3.0 && most(" --blind") > 5.0);
}

#[test]
fn rates_are_estimated_from_logs_and_compared_with_a_model() {
    let regular: String = (0..20).map(|i| format!("{}s {}s\n", 2 * i, 2 * i + 1)).collect();
    let overload: String = (0..20).map(|i| format!("{i} {}\n", 2 * i + 2)).collect();
    let folder = folder(&[("regular", &regular), ("overload", &overload)]);
    let log = json_in(folder.path(), "log regular");
    close(&log["service_rate"]["value"], 1.0);
    close(&log["mean_service"]["value"], 1000.0);
    assert_eq!(
        (&log["starts_logged"], &log["predicted"]["wait"]["mean"]),
        (&false.into(), &0.0.into())
    );
    let log = json_in(folder.path(), "log overload");
    close(&log["utilization"]["value"], 2.0);
    assert!(log["predicted"].is_null());
    assert!(log["unpredicted"].as_str().is_some_and(|why| why.contains("without end")));
}

#[test]
fn the_bottleneck_is_named_first() {
    let rows = "name,visits,service,servers\nweb,1,2ms,4\ndisk,0.2,8ms,1\n";
    let folder = folder(&[("system.csv", rows)]);
    let found = json_in(folder.path(), "bottleneck system.csv --throughput 1000");
    assert_eq!(found["bottleneck"], "disk");
    close(&found["max_throughput"], 625.0);
    close(&found["components"][0]["utilization"], 1.6);
    close(&found["components"][1]["utilization"], 0.5);
}

fn refused(folder: &Path, cases: &[(&str, &str)]) {
    words::refused(folder, "model", cases);
}

#[test]
fn bad_numbers_are_rejected_with_the_fix() {
    let cases = [
        ("queue", "--arrival-rate <RATE>|--utilization <U>"),
        ("queue --utilization 80", "write a fraction above 0 and below 1, such as 0.8"),
        ("queue --utilization 1", "without end"),
        // In floating point the product is slightly below 1.
        ("queue --arrival-rate 200 --service-time exp:5ms", "the utilization is 1, so the queue"),
        ("queue --arrival-rate 300 --service-time exp:5ms", "the utilization is 1.5, so"),
        ("queue --utilization -0.5", "'-0.5' for '--utilization <U>'"),
        ("queue --utilization 0.5 --arrival-rate 1", "cannot be used with"),
        ("queue --arrival-rate 0", "write a rate above 0, such as 0.8 or 100/s"),
        ("queue --arrival-rate 1/day", "write its unit as one of"),
        ("queue --arrival-rate 5/s", "--arrival-rate 5/s has a unit and the times have none"),
        ("queue --utilization 0.5 --servers 0", "0 is not in 1..=1000000"),
        ("queue --utilization 0.5 --servers -1", "'-1' for '--servers <K>'"),
        ("queue --utilization 0.5 --arrival-scv -1", "a number of 0 or more"),
        (
            "queue --utilization 0.5 --percentiles 50,50",
            "--percentiles 50: another one is also called p50",
        ),
        ("queue --utilization 0.5 --service-time norm:1", "`norm` is not a distribution"),
        ("queue --utilization 0.5 --service-time det:0", "its mean is 0"),
        ("queue --utilization 0.5 --service-time pareto:1:1", "its mean is infinite"),
        (
            "queue --utilization 0.5 --service-time pareto:2:1",
            "--service-time pareto:2:1: the squared",
        ),
        ("queue --utilization 0.5 --model mm2", "[possible values: auto, mm1"),
        ("queue --utilization 0.5 --model md1", "--model md1 takes a service that is constant"),
        ("queue --utilization 0.5 --model mg1 --servers 2", "has one server, not 2"),
        ("queue --utilization 0.5 --model mm1 --arrival-scv 2", "drop --arrival-scv 2"),
        ("queue --gaps h2:2:2 --arrival-scv 2", "cannot be used with"),
        ("queue --gaps h2:2:2 --utilization 0.5", "cannot be used with"),
        ("queue --gaps h2:2ms:2", "--gaps h2:2ms:2: the service is exp:1; give both units or none"),
        ("queue --gaps det:0", "--gaps det:0: its mean is 0; give gaps"),
        ("queue --gaps pareto:2.2:1 --model h2h21", "or use gg1"),
        ("queue --gaps h2:1:2", "the utilization is 1, so the queue grows"),
        ("queue --gaps h2:2:2 --model mm1", "drop --gaps h2:2:2, or use gg1"),
        ("queue --gaps pareto:2:1", "--gaps pareto:2:1: the squared"),
        (
            "queue --gaps h2:2:2 --service-time gamma:1:0.5 --model h2h21",
            "--service-time gamma:1:0.5: its squared coefficient of variation is 0.25, and a hyper-",
        ),
        (
            "queue --utilization 0.5 --arrival-scv 0.5 --model h2h21",
            "--arrival-scv 0.5: a hyper-exponential has 1 or more; or use gg1",
        ),
        (
            "queue --gaps h2:5:2 --service-time pareto:2.05:0.5 --model h2h21",
            "infinite, and a hyper",
        ),
        ("variability --utilization 0.5 --reduce 1.5", "write a fraction above 0 and up to 1"),
        ("variability --utilization 0.5 --service-time det:1", "its variance is 0"),
        ("variability --utilization 0.5 --service-time pareto:2:1", "pareto:2:1: the squared"),
        ("variability --utilization 1", "without end"),
        ("unloaded --shards 0", "'0' for '--shards <N>'"),
        ("unloaded --shards 5 --copies 1,0", "'0' for '--copies <N,…>'"),
        ("unloaded --shards 5 --service-time det:1", "--service-time det:1 is not exponential"),
        ("unloaded --shards 5 --jitter exp:1", "bimodal:PROB:VALUE"),
        ("unloaded --shards 5 --jitter bimodal:0.1:15ms", "give both units or none"),
        ("fork-join --shards 5 --utilization 0.5 --service-time h2:1:2", "is not exponential"),
        ("split --arrival-rate 1 --rates 10,-5", "'-5' for '--rates <RATE,…>'"),
        ("split --arrival-rate 1/s --rates 10", "give all a unit, such as 100/s, or none"),
        ("fluid --service 4ms,1 --network 1ms --for 1s", "some times have units"),
        ("fluid --service 4ms --network 1ns --for 1s", "the duration is 1000"),
    ];
    refused(Path::new("."), &cases);
}

#[test]
fn bad_files_are_rejected_with_line_and_fix() {
    let folder = folder(&[
        ("word", "1\n2\nfast\n"),
        ("zero", "# two\n1\n0\n"),
        ("few", "1ms\n2ms\n"),
        ("three", "1 2 3\n"),
        ("negative", "load latency\n-1 2\n1 2\n2 3\n3 4\n4 6\n"),
        ("mixed", "1 2\n2 3ms\n"),
        ("flat", "1 2\n2 2\n3 2\n4 2\n"),
        ("early", &("0 1\n".repeat(10) + "5 4\n")),
        ("overtaken", &("0 10\n".to_owned() + &"1 2\n".repeat(10))),
        ("overlap", &(0..12).map(|i| format!("{i} {i} {}\n", i + 5)).collect::<String>()),
        ("semicolons", "web;1;2ms;4\n"),
        ("nameless", ",1,2ms,4\n"),
        ("escape", "a\u{1b}[31m,1,2ms,4\n"),
        ("visits", "web,1,2ms,4\ndisk,-1,8ms,1\n"),
        ("servers", "web,1,2ms,4\ndisk,1,8ms,few\n"),
        ("idle", "web,0,2ms,4\n"),
    ]);
    let cases = [
        ("fit /nowhere", "/nowhere"),
        ("fit /dev/null", "contains no sample"),
        ("fit word", "word:3: `fast` is not a sample"),
        ("fit zero", "zero:3: this sample is 0, as is more than one sample in a hundred"),
        ("fit few", "few: there are 2 samples; at least 10"),
        ("curve /nowhere", "cannot read /nowhere"),
        ("curve /dev/null", "write lines of LOAD LATENCY"),
        ("curve three", "three:1: `1 2 3` is not LOAD LATENCY; write it as `100 6ms`"),
        ("curve negative", "negative:2: this point has load -1"),
        ("curve mixed", "mixed:2: `3ms`: some times have units"),
        ("curve flat", "flat: latency does not rise"),
        ("curve flat --slo 5ms", "--slo 5ms: give it a unit if"),
        ("curve flat --slo -5", "--slo -5: give a time above 0"),
        ("curve flat --slo 1e300ms", "below 292 years"),
        ("curve flat --slo fast", "write a decimal number"),
        ("log few", "few:1: `1ms` is not ARRIVAL END"),
        ("log three", "three: there is 1 request; at least 10"),
        ("log early", "early:11: this request ends at 4"),
        ("log overtaken", "overtaken:2: this request ends at 2, before it could start at 10"),
        ("log overlap", "overlap:2: "),
        ("log overlap --servers 4", "overlap:5: "),
        ("log overlap --servers 4", "--servers N"),
        ("bottleneck semicolons", "`web;1;2ms;4`, was read as column names"),
        ("bottleneck nameless", "nameless:1: a component has an empty name"),
        ("bottleneck escape", r"escape:1: the name `a\u{1b}[31m`"),
        ("bottleneck visits", "visits:2: disk has visits -1"),
        ("bottleneck servers", "servers:2: `few` is not a number of servers"),
        ("bottleneck idle", "idle: no component has work"),
    ];
    refused(folder.path(), &cases);
}

#[test]
fn figures_have_four_digits_and_separate_columns() {
    let folder = folder(&[("regular", &(10..30).map(|i| format!("{i}\n")).collect::<String>())]);
    let fits = model(folder.path(), "fit regular").out;
    let rest = fits.split("coefficient of variation is ").nth(1).expect("it is too regular");
    let digits = rest.split(',').next().expect("a number");
    assert_eq!(digits, "0.08744", "{fits}");
    let table = model(
        folder.path(),
        "queue --utilization 0.5 --percentiles 99,99.9999999999,99.99999999999",
    )
    .out;
    let head = table.lines().find(|line| line.contains("p99")).expect("a head");
    let words: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(words, ["mean", "p99", "p99.9999999999", "p99.99999999999"]);
    let ends = |line: &str| line.trim_end().chars().count();
    let row = table.lines().find(|line| line.starts_with("wait")).expect("a row");
    let figures = row.strip_suffix("exact").unwrap_or(row);
    assert_eq!(ends(figures), ends(head), "{table}");
}

/// A file that never ends.
#[cfg(target_os = "linux")]
#[test]
fn files_without_an_end_are_refused() {
    for verb in ["fit", "curve", "log", "bottleneck"] {
        model(Path::new("."), &format!("{verb} /dev/zero")).fails(2, "/dev/zero has more than");
    }
}

/// Every command in the manual prints the text below it.
#[cfg(target_os = "linux")]
#[test]
fn the_manual_shows_what_is_printed() {
    words::manual_shows_what_is_printed(include_str!("../../../../docs/model.md"), 9);
}
