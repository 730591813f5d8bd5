//! Runs `curtail profile` on saved profiles, and tests what it shows, writes and compares, and its
//! errors.

use std::fs;
use std::path::Path;

use curtail_probe::profile::{Cost, Evidence, Lost, Profile, Whole};
use serde_json::Value;

use crate::harness::words::{curtail_in, folder, json_in, names, read, refused};

/// The profile of a server in which parsing is long but steady, and reading varies. The variation
/// comes from waiting for a thread, and `times` scales it. The requests are made up: they vary like
/// the fractional parts of n·φ.
fn server(times: f64) -> Profile {
    let stages = ["parse", "data ready to read", "respond"].map(str::to_owned).to_vec();
    let mut profile = Profile {
        target: "memcached <7>".to_owned(),
        stages,
        evidence: vec![Evidence::Wakeup],
        cost: Some(Cost { ns_per_request: 1_234.0, share: 0.021, one_in: 8 }),
        lost: vec![Lost { reason: "map full".to_owned(), count: 17 }],
        ..Profile::default()
    };
    for at in 0..12 {
        let mut window = profile.window(at * 100_000_000, 100_000_000);
        for n in 0..200 {
            let unit = ((at * 200 + n) as f64 * 0.618_034).fract();
            let wait = -20_000.0 * times * (1.0 - unit).ln();
            let stages =
                [80_000.0 + 900.0 * unit, 2_000.0 + wait, 5_000.0 + (n % 7) as f64 * 100.0];
            let total: f64 = stages.iter().sum();
            window.moments.record(&[&stages[..], &[wait, total]].concat());
            let durations = stages.iter().chain([&total]).zip(&mut window.histograms);
            durations.for_each(|(&ns, histogram)| histogram.record(ns as u64));
            let whole = || Whole {
                start_ns: at * 100_000_000 + n * 500_000,
                stages_ns: stages.map(|ns| ns as u64).to_vec(),
                evidence: vec![wait as u64],
            };
            if unit > 0.98 {
                profile.slow.push(whole());
            }
            if n % 10 == 0 {
                profile.sampled.push(whole());
            }
        }
        profile.push(window);
    }
    profile
}

fn text(profile: &Profile) -> String {
    serde_json::to_string(profile).expect("JSON")
}

fn printed(folder: &Path, line: &str, code: i32) -> (String, String) {
    let ran = curtail_in(folder, line).ends(code);
    (ran.out, ran.err)
}

#[test]
fn the_report_shows_what_varies_its_causes_and_knobs() {
    let folder = folder(&[("profile.json", &text(&server(1.0)))]);
    let (out, err) = printed(folder.path(), "profile --show profile.json", 0);
    let text = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "memcached <7>: 2,400 requests, 108 µs on average",
        "The mean points at parse (75 % of it), the variance at data ready to read (99 % of it): \
         start with data",
        "data ready to read, likely causes: - 100 % of its variance: it takes longer the longer its sleeping thread",
        "* busy polling: poll before sleeping: sysctl net.core.busy_poll=50",
        "curtail profile --compare before after",
        "stamping cost 1234 ns per stamped request, 2.1 % of the median time over all (1 slice of time in 8 was",
        "not seen: 17 (map full)",
    ] {
        assert!(text.contains(words), "no {words} in {text}");
    }
    let place =
        |name: &str| out.find(&format!("\n{name}")).unwrap_or_else(|| panic!("{name}: {out}"));
    assert!(
        place("data ready to read ") < place("parse ") && place("parse ") < place("total "),
        "{out}"
    );
    assert!(err.is_empty() && !out.contains("NaN") && !out.contains("inf"), "{err}{out}");
}

#[test]
fn programs_get_a_document() {
    let folder = folder(&[("profile.json", &text(&server(1.0)))]);
    let found = json_in(folder.path(), "profile --show .");
    assert_eq!((&found["requests"], &found["lost"]), (&2_400.into(), &17.into()));
    assert_eq!(
        found["cost"],
        serde_json::json!({"ns_per_request": 1234.0, "share": 0.021, "sampling": "1/8"})
    );
    let verdict = &found["verdict"];
    assert_eq!(
        [&verdict["kind"], &verdict["by_mean"], &verdict["by_variance"]],
        ["disagree", "parse", "data ready to read"]
    );
    assert!(verdict["text"].as_str().is_some_and(|text| text.contains("The mean points at")));
    let stages = found["stages"].as_array().expect("stages");
    let number = |of: &Value, key: &str| of[key].as_f64().expect("a number");
    assert_eq!(stages[0]["name"], "data ready to read");
    assert!((number(&stages[0], "mean_ns") - 22_000.0).abs() < 200.0, "{found}");
    assert!(
        number(&stages[0], "variance_share") > 0.9 && number(&stages[0], "cv") > 0.8,
        "{found}"
    );
    let [low, high] =
        [0, 1].map(|at| stages[0]["variance_share_ci95"][at].as_f64().expect("an end"));
    let share = number(&stages[0], "variance_share");
    assert!(low <= share && share <= high, "{found}");
    let sum: f64 = stages.iter().map(|of| number(of, "variance_share")).sum();
    assert!((sum - 1.0).abs() < 1e-9 && number(&found, "unattributed_share").abs() < 1e-9);
    let cause = &stages[0]["causes"][0];
    assert_eq!((&cause["kind"], &cause["longer_with_more"]), (&"wakeup".into(), &true.into()));
    assert_eq!(cause["knobs"][0]["name"], "busy polling");
    assert_eq!(stages[2]["causes"], serde_json::json!([]));
    // The seed affects only the intervals.
    let other = json_in(folder.path(), "profile --show . --seed 7");
    assert_eq!(other["stages"][0]["variance_share"], stages[0]["variance_share"]);
    assert_ne!(other["stages"][0]["variance_share_ci95"], stages[0]["variance_share_ci95"]);
}

#[test]
fn a_directory_has_files_for_other_verbs() {
    let folder = folder(&[("p.json", &text(&server(1.0)))]);
    let path = folder.path();
    let (_, err) = printed(path, "profile --show p.json --out made", 0);
    assert!(err.contains("the report is made/profile.html"), "{err}");
    let made = path.join("made");
    let mut expected = vec!["profile.html", "profile.json", "requests.csv"];
    if cfg!(feature = "parquet") {
        expected.push("requests.parquet");
    }
    expected.extend([
        "stage-data-ready-to-read.txt",
        "stage-parse.txt",
        "stage-respond.txt",
        "stages.svg",
        "total.txt",
    ]);
    assert_eq!(names(&made), expected);
    let read = |name: &str| read(made.join(name));
    // Saving a profile that was read does not change it.
    assert_eq!(read("profile.json").trim_end(), text(&server(1.0)));
    let rows = read("requests.csv");
    let head = "kind,start_ns,parse_ns,data ready to read_ns,respond_ns,total_ns,wakeup\nslow,";
    assert!(
        rows.starts_with(head) && rows.lines().count() == 1 + server(1.0).slow.len() + 240,
        "{}",
        rows.lines().count()
    );
    assert_eq!(read("total.txt").lines().count(), 1 + 240);
    let line = "sim --shards 2 --utilization 0.3 --requests 2000 --service file:made/total.txt";
    json_in(path, line);
    json_in(path, "model fit made/stage-parse.txt");

    let page = read("profile.html");
    for part in [
        "Figure 1.",
        "Figure 2.",
        "Figure 3.",
        "Figure 4.",
        "Table 1.",
        "busy polling",
        ">#20<",
        ">p50<",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    assert!(page.contains("memcached &lt;7&gt;") && !page.contains("<7>"), "names are escaped");
    assert!(!page.contains("NaN") && !page.contains("inf\""), "all figures are numbers");
    roxmltree::Document::parse(page.trim_start_matches("<!DOCTYPE html>")).expect("well-formed");

    // Nothing is overwritten without --force, and the shown profile never is.
    let (_, err) = printed(path, "profile --show p.json --out made", 2);
    assert!(err.contains("--out made: ") && err.contains("of another profile; give"), "{err}");
    fs::write(made.join("stage-old.txt"), "1ns\n").expect("a file");
    fs::write(made.join("mine.txt"), "").expect("a file");
    printed(path, "profile --show p.json --out made --force", 0);
    assert!(
        names(&made).contains(&"mine.txt".to_owned())
            && !names(&made).contains(&"stage-old.txt".to_owned())
    );
    let (_, err) = printed(path, "profile --show made --out made --force", 2);
    assert!(err.contains("the profile is read from it"), "{err}");
    let (_, err) = printed(path, "profile --show p.json --out p.json", 3);
    assert!(err.contains("--out p.json"), "{err}");
}

#[test]
fn a_knob_that_helped_differs_from_one_that_hurt_and_from_none() {
    let mut few = server(1.0);
    few.windows.truncate(4);
    few.cost = None;
    few.stages[0] = "decode".to_owned();
    let files = [("a", &server(1.0)), ("b", &server(0.7)), ("few", &few)];
    let files = files.map(|(name, profile)| (name, text(profile)));
    let folder = folder(&files.each_ref().map(|(name, text)| (*name, &text[..])));
    let path = folder.path();
    let (out, err) = printed(path, "profile --compare a b", 0);
    assert!(
        out.contains(": better.") && out.contains("── data ready to read") && err.is_empty(),
        "{out}{err}"
    );
    let (out, _) = printed(path, "profile --compare b a", 1);
    assert!(out.contains("p99 of the total: ") && out.contains(": worse."), "{out}");
    let found = json_in(path, "profile --compare a b");
    assert_eq!(
        (&found["verdict"]["kind"], &found["warnings"]),
        (&"better".into(), &serde_json::json!([]))
    );
    let stage = &found["stages"][1];
    assert_eq!(
        (&stage["name"], &stage["sd_ns"]["verdict"]),
        (&"data ready to read".into(), &"better".into())
    );
    let ratio = stage["sd_ns"]["ratio"].as_f64().expect("a ratio");
    assert!((ratio - 0.7).abs() < 0.01, "{stage}");
    let same = json_in(path, "profile --compare a a");
    assert_eq!(same["verdict"]["kind"], "no-difference");

    let (out, err) = printed(path, "profile --compare a few", 0);
    assert!(
        out.contains("only A has parse\nonly B has decode")
            && out.contains("too few windows to decide"),
        "{out}"
    );
    assert!(
        err.contains("warning: B has 800 requests") && err.contains("sampling differs"),
        "{err}"
    );
    let found = json_in(path, "profile --compare a few");
    assert_eq!(found["warnings"][1]["kind"], "sampling-differs");
}

/// Traces of a front end that calls a store. The store's clock is 7 ms ahead, and its third pod is
/// slow.
fn spans() -> String {
    let span = |at: u64, id: u64, kind: u32, name: &str, times: [u64; 2], pod: &str| {
        let [start, end] = times.map(|us| (1_700_000_000_000_000 + at * 100_000 + us) * 1_000);
        format!(
            r#"{{"traceId":"{:x}","spanId":"{id}","parentSpanId":"{}","kind":{kind},"name":"{name}","startTimeUnixNano":"{start}",
            "endTimeUnixNano":"{end}","attributes":[{{"key":"pod","value":{{"stringValue":"{pod}"}}}}]}}"#,
            at + 1,
            if id == 1 { String::new() } else { (id - 1).to_string() }
        )
    };
    let (mut front, mut store) = (Vec::new(), Vec::new());
    for at in 0..120 {
        let takes = 1_000 + at % 7 * 10 + if at % 5 == 2 { 4_000 } else { 0 };
        front.push(span(at, 1, 2, "GET /", [0, takes + 900], ""));
        front.push(span(at, 2, 3, "call", [200, takes + 700], ""));
        let pod = format!("store-{}\\u001b[2J", at % 5);
        store.push(span(at, 3, 2, "get", [7_450, 7_450 + takes], &pod));
    }
    let of = |service: &str, spans: &[String]| {
        format!(
            r#"{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"{service}"}}}}]}},"scopeSpans":[{{"spans":[{}]}}]}}"#,
            spans.join(",")
        )
    };
    format!(r#"{{"resourceSpans":[{},{}]}}"#, of("front", &front), of("store", &store))
}

#[test]
fn traces_show_clock_offsets_their_effect_and_the_slow_pod() {
    let folder = folder(&[("spans.json", &spans())]);
    let (out, _) = printed(folder.path(), "profile --traces spans.json --out made", 0);
    let (again, _) = printed(folder.path(), "profile --show made", 0);
    assert_eq!(out, again);
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Mean and variance both point at store: get",
        "Likely 100 %: 24 calls with pod = store-2\\u{1b}[2J take 5.029 ms on average, others 1.030 ms.",
        "clocks differ, and were corrected: store is 7.00 ms ahead of front (± 0.250 ms, 120 calls)",
        "the correction changes the variance of store: get (0 % without, 100 % with)",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let found = json_in(folder.path(), "profile --show made");
    let first = &found["stages"][0];
    assert_eq!(
        (&first["name"], &first["causes"][0]["kind"], &first["uncorrected_share"]),
        (&"store: get".into(), &"attribute".into(), &0.0.into())
    );
    assert_eq!(found["traces"]["clocks"][0]["ahead_ns"], 7_000_000);
    assert_eq!(found["traces"]["uncertain"], serde_json::json!([]));
}

#[test]
fn bad_input_names_the_file_and_the_fix() {
    let good = text(&server(1.0));
    let none = text(&Profile { windows: Vec::new(), ..server(1.0) });
    let mut other = server(1.0);
    other.stages.push("more".to_owned());
    let other = text(&other);
    let nan = good.replacen("1234.0", "NaN", 1);
    let null = good.replacen("1234.0", "null", 1);
    let huge = good.replacen("1234.0", "1e999", 1);
    let mean = server(1.0).windows[0].moments.mean(0).to_string();
    let mean = good.replacen(&mean, "1e300", 1);
    let apart = ["a", "b", "c"].map(str::to_owned).to_vec();
    let apart = text(&Profile { stages: apart, ..server(0.5) });
    let folder = folder(&[
        ("good", &good),
        ("apart", &apart),
        ("none", &none),
        ("other", &other),
        ("nan", &nan),
        ("null", &null),
        ("huge", &huge),
        ("mean", &mean),
        ("cut", &good[..good.len() / 2]),
        ("text", "p99 is bad\n"),
        ("kind", r#"{"valid": true, "requests": 5}"#),
        ("list", "[]"),
    ]);
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    let cases = [
        ("", "--show PROFILE shows a saved profile again, --compare A B compares two"),
        ("--show nowhere", "cannot read nowhere"),
        ("--show empty", "empty: it contains no profile.json"),
        ("--show text", "text: it is not a profile: "),
        ("--show kind", "missing field `target`"),
        ("--show list", "give the output of curtail profile --out"),
        ("--show cut", "cut: it is not a profile: EOF"),
        ("--show nan", "nan: it is not a profile: "),
        ("--show null", "null: it is not a profile: "),
        ("--show huge", "huge: it is not a profile: number out of range"),
        ("--show other", "windows[0] does not fit its 4 stages"),
        ("--show mean", "windows[0] does not fit its 3 stages"),
        ("--show none", "none: it has no windows, so it has no requests"),
        ("--compare good", "2 values required"),
        (
            "--compare good apart",
            "good and apart have no stage in common, so they cannot be compared: good has parse",
        ),
        ("--compare good none", "none: it has no windows"),
        ("--compare good good --out x", "cannot be used with"),
        ("--show good --compare good good", "cannot be used with"),
        ("--show good --force", "--out <DIR>"),
        ("--show good --port 1", "cannot be used with"),
        ("--port 1 --duration 0s", "must be above 0"),
        ("--port 1 --slice 1ms", "at least 10ms"),
    ];
    refused(folder.path(), "profile", &cases);
}

#[test]
fn warnings_about_a_result_come_before_it() {
    let mut lossy = server(1.0);
    lossy.lost.push(Lost { reason: "others".to_owned(), count: u64::MAX });
    let folder = folder(&[("lossy", &text(&lossy)), ("good", &text(&server(1.0)))]);
    let err = |line| printed(folder.path(), line, 0).1;
    assert!(err("profile --show lossy").contains("warning: much was not seen"));
    assert!(err("profile --show good").is_empty());
    assert!(err("profile --compare good good").contains("A and B are the same profile"));
}

/// Figures that no server produces, but that may occur in a file.
#[test]
fn extreme_figures_do_no_harm() {
    let good = text(&server(1.0));
    let mut still = server(0.0);
    still.slow.clear();
    still.sampled.clear();
    let long = good.replace("\"length_ns\":100000000", "\"length_ns\":18446744073709551615");
    let mut vast = server(1.0);
    vast.slow[0].stages_ns = vec![u64::MAX; 3];
    let mut zero = Profile { stages: vec!["\u{1b}[31m".to_owned()], ..Profile::default() };
    let mut window = zero.window(0, 0);
    window.moments.record(&[0.0, 0.0]);
    zero.push(window);
    let (still, vast, zero) = (text(&still), text(&vast), text(&zero));
    let files = [("long", &long), ("vast", &vast), ("zero", &zero), ("still", &still)];
    let folder = folder(&files.map(|(name, text)| (name, &text[..])));
    for (name, _) in files {
        let (out, err) =
            printed(folder.path(), &format!("profile --show {name} --out {name}.out"), 0);
        assert!(!err.contains("panicked") && !out.contains('\u{1b}'), "{out}{err}");
        let page = read(folder.path().join(format!("{name}.out/profile.html")));
        assert!(!page.contains("NaN"), "{name}");
        curtail_in(folder.path(), &format!("profile --compare long {name} --json"));
    }
}
