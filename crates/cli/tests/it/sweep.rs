//! Runs sweeps that are killed and resumed, that use any number of threads, or that have bad input.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::harness::words::{Ran, read, run};
use crate::harness::{CURTAIL, signal, until, wait};
use rustix::process::Signal;

/// Twelve points that take a few milliseconds each.
const SMALL: &str = "--shards 3 --requests 2000 --replications 2 --jitter bimodal:{p}:15 \
    --grid utilization=0.1..0.4:0.1 --grid p=1e-3..1e-1:3:log --policy psq --policy laedge";

fn command(line: &str, out: &Path) -> Command {
    let mut command = Command::new(CURTAIL);
    command.arg("sweep").args(line.split_whitespace()).arg("--out").arg(out).stdin(Stdio::null());
    command
}

/// Runs a sweep that succeeds.
fn done(line: &str, out: &Path) -> Ran {
    run(&mut command(line, out)).ends(0)
}

/// Runs a sweep that is rejected.
fn refused(line: &str, out: &Path, code: i32, words: &str) {
    let ran = run(&mut command(line, out)).ends(code).warns([words]);
    assert!(ran.err.starts_with("error: "), "{line}: {}", ran.err);
}

fn with(some: &str, more: &str) -> String {
    format!("{some} {more}")
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    (folder, out)
}

fn results(out: &Path) -> String {
    fs::read_to_string(out.join("results.jsonl")).unwrap_or_default()
}

fn csv(out: &Path) -> String {
    read(out.join("results.csv"))
}

/// Starts a sweep, and returns when it has finished some points but is far from done.
fn begun(out: &Path) -> (String, Child) {
    let args = with(&SMALL.replace("2000", "8000"), "--grid seed=1..4:1 --threads 1");
    let mut command = command(&args, out);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the binary starts");
    until("some points are done", || results(out).lines().count() > 3);
    (args, child)
}

#[test]
fn a_killed_sweep_resumes_with_the_same_results() {
    let (_folder, out) = folder();
    let (args, mut child) = begun(&out);
    child.kill().expect("a child of ours");
    child.wait().expect("a child of ours");
    let there = results(&out).matches('\n').count();
    let is_early = there < 48 && !out.join("results.csv").exists();
    assert!(is_early, "the sweep ended before it could be interrupted");
    // The state of the results after a kill in the middle of a line.
    let torn = results(&out) + "{\"point\":77,\"grid\":{\"util";
    fs::write(out.join("results.jsonl"), torn).expect("a file");
    done(&args, &out).warns([&format!("{there} of 48 points are in")]);
    assert_eq!(results(&out).lines().count(), 48);

    let whole = out.with_file_name("whole");
    done(&args, &whole);
    assert_eq!(csv(&out), csv(&whole));
}

#[test]
fn a_signal_keeps_the_finished_points() {
    let (_folder, out) = folder();
    let (_, mut child) = begun(&out);
    signal(&child, Signal::TERM);
    let message = std::io::read_to_string(child.stderr.take().expect("piped")).expect("text");
    assert_eq!(wait(&mut child), Some(130), "{message}");
    assert!(
        message.contains("of 48 points are in") && message.contains("the same command continues"),
        "{message}"
    );
    assert!(results(&out).ends_with('\n') && !out.join("results.csv").exists());
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let (_folder, one) = folder();
    let many = one.with_file_name("many");
    done(&with(SMALL, "--threads 1"), &one);
    // There are more threads than runs per point, so several points run in parallel.
    let threads = "--threads 9 --json";
    let output = done(&with(SMALL, threads), &many);
    assert_eq!(csv(&one), csv(&many));
    assert_eq!(csv(&one).lines().count(), 1 + 12 * 2);
    let header = "point,utilization,p,policy,trained,stable,unit,utilization.offered,";
    assert!(csv(&one).starts_with(header), "{}", csv(&one));
    let page = |out: &Path| read(out.join("results.html"));
    assert_eq!(page(&one), page(&many));
    let xml = page(&one).split_once('\n').expect("lines").1.to_owned();
    let document = roxmltree::Document::parse(&xml).expect("well-formed");
    let plots = document
        .descendants()
        .filter(|node| node.attribute("class").is_some_and(|class| class.starts_with("plot")));
    assert_eq!(plots.count(), 3 + 1, "lines by p, and a map of the second policy");
    assert!(!one.join("results.svg").exists(), "there is more than one chart");

    let list = output.json();
    let list = list.as_array().expect("a list");
    assert_eq!(list.len(), 12);
    assert_eq!(list[4]["grid"], serde_json::json!({"utilization": 0.2, "p": 0.01}));
    assert_eq!(list[4]["outcomes"][1]["policy"], "laedge");
    let p99 = &list[4]["outcomes"][1]["request"]["p99"];
    assert!(csv(&one).lines().nth(10).expect("a row").contains(&format!(",{p99},")), "{p99}");
}

#[test]
fn a_single_chart_is_a_file_of_its_own() {
    let (_folder, out) = folder();
    let line = "--requests=1000 --shards=2 --grid utilization=0.1,0.2,0.3 --policy=psq";
    done(line, &out);
    let picture = read(out.join("results.svg"));
    let document = roxmltree::Document::parse(&picture).expect("well-formed");
    assert!(document.root_element().has_tag_name(("http://www.w3.org/2000/svg", "svg")));
    assert!(picture.contains("<style>") && picture.contains("utilization"));
}

#[test]
fn the_reference_of_maps_may_change_after_a_sweep() {
    let (_folder, out) = folder();
    let small = with(SMALL, "--policy=laedge:cc");
    done(&small, &out);
    let page = || read(out.join("results.html"));
    let maps = |page: &str| page.matches("Gain of ").count();
    assert_eq!(maps(&page()), 2, "of two policies, relative to the first");
    let lines = results(&out);
    done(&with(&small, "--versus psq --versus laedge"), &out);
    assert_eq!(maps(&page()), 3);
    assert!(page().contains("Gain of LÆDGE CC relative to LÆDGE"), "{}", page());
    assert_eq!(results(&out), lines, "nothing is simulated again");
}

#[test]
fn another_plan_needs_another_directory_or_a_restart() {
    let (_folder, out) = folder();
    done(SMALL, &out);
    let before = csv(&out);
    done(SMALL, &out).warns(["12 of 12 points"]);
    assert_eq!(csv(&out), before);
    let other = with(SMALL, "--seed 7");
    refused(
        &other,
        &out,
        2,
        "contains another sweep: seed is 42 there and 7 here; give another --out",
    );
    refused(&with(SMALL, "--grid queue=9"), &out, 2, "grid queue is nothing there and [9]");
    refused(&with(SMALL, "--policy random"), &out, 2, "policies is [\"psq\",\"laedge\"]");
    fs::write(out.join("results.svg"), "the chart of a sweep that had one").expect("a file");
    done(&with(&other, "--force"), &out);
    assert!(!out.join("results.svg").exists(), "not beside results of another sweep");
    assert_ne!(csv(&out), before);
    refused(SMALL, &out, 2, "seed is 7 there and 42 here");
}

#[test]
fn files_that_are_not_of_a_sweep_are_not_overwritten() {
    let (_folder, out) = folder();
    fs::create_dir(&out).expect("a folder");
    fs::write(out.join("results.csv"), "mine\n").expect("a file");
    refused(SMALL, &out, 2, "it has no readable sweep.json; give another --out");
    assert_eq!(csv(&out), "mine\n");
    fs::remove_file(out.join("results.csv")).expect("a file");
    for mine in ["{\"speed\": 1}", "mine"] {
        fs::write(out.join("sweep.json"), mine).expect("a file");
        refused(SMALL, &out, 2, "its sweep.json is not the plan of a sweep; give another --out");
        assert_eq!(read(out.join("sweep.json")), mine);
        assert!(!out.join("results.jsonl").exists(), "nothing is left behind");
    }
}

#[test]
fn corrupt_results_are_named() {
    let (_folder, out) = folder();
    done(SMALL, &out);
    let good = results(&out);
    let lines: Vec<&str> = good.lines().collect();
    let double = format!("{}\n{}\n", lines[0], lines[0]);
    let foreign = good.replacen("\"utilization\":0.1", "\"utilization\":0.15", 1);
    for (bad, words) in [
        (format!("{}\nnonsense\n", lines[0]), "results.jsonl:2: "),
        (double, "results.jsonl:2: point 0 occurs twice"),
        (foreign, "results.jsonl:1: the values of point 0 are"),
        (good.replacen("\"stable\":true", "\"stable\":7", 1), "results.jsonl:1: stable is 7"),
    ] {
        fs::write(out.join("results.jsonl"), bad).expect("a file");
        refused(SMALL, &out, 2, words);
    }
    fs::write(out.join("results.jsonl"), &good).expect("a file");
    fs::remove_file(out.join("sweep.json")).expect("a file");
    refused(SMALL, &out, 2, "no readable sweep.json");
}

#[test]
fn a_grid_in_a_file_is_overridden_by_flags() {
    let (folder, out) = folder();
    let file = folder.path().join("grid.toml");
    let text = "policies = [\"psq\"]\npercentiles = [50]\n[experiment]\nshards = 2\nrequests = 500\n\
        replications = 1\njitter = \"bimodal:{p}:{d}\"\n[grid]\nutilization = [0.1, 0.2]\n\
        p = { from = 0.001, to = 0.1, count = 3, scale = \"log\" }\nd = [\"15\"]\n\
        replicas = [2]\nspeeds = [[1, 1], \"1,0.5\"]\n";
    fs::write(&file, text).expect("a file");
    let file = file.display().to_string();
    done(&format!("--file {file} --grid utilization=0.3 --grid slots=1,2"), &out);
    let csv = csv(&out);
    let mut rows = csv.lines();
    let header = "point,utilization,p,d,replicas,speeds,slots,policy";
    assert!(rows.next().expect("a header").starts_with(header), "{csv}");
    assert!(rows.nth(3).expect("a row").starts_with("3,0.3,0.001,15,2,\"1,0.5\",2,psq,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 12);
    let mut sim = Command::new(CURTAIL);
    run(sim.args(["sim", "--file", &file])).ends(2).warns(["curtail sweep"]);
    for (line, words) in [
        ("p = 0.1", "grid.toml:2: 0.1: p is one number; give a list, such as [0.1]"),
        ("p = [true]", "grid.toml:2: true: p must be a number or a string; "),
        ("\n\nshards = [1.5]", "grid.toml:4: grid shards: 1.5 is not valid"),
        (
            "seed = [1]\nutilizaton = [1]",
            "grid.toml:3: grid utilizaton: no parameter has this name",
        ),
        ("utilization = \"much\"", "grid.toml:2: grid utilization: much is not valid; use numbers"),
        ("p = { from = 1, to = 2 }", "either a step or a count"),
        (
            "p = { from = 1, to = 2, stop = 1 }",
            "grid.toml:2: stop: unknown key; did you mean step?",
        ),
    ] {
        fs::write(&file, format!("[grid]\n{line}\n")).expect("a file");
        refused(&format!("--file {file}"), &out, 2, words);
    }
}

#[test]
fn a_file_has_ranges_as_flags_have() {
    let (folder, out) = folder();
    let file = folder.path().join("grid.toml");
    let text = "policies = [\"psq\"]\n[experiment]\nshards = 1\nrequests = 500\nreplications = 1\n\
        [grid]\nutilization = \"0.1..0.3:0.1\"\nservice = \"exp:1\"\n";
    fs::write(&file, text).expect("a file");
    done(&format!("--file {}", file.display()), &out);
    let rows: Vec<String> = csv(&out).lines().map(|row| row[..13].to_owned()).collect();
    assert_eq!(rows[1..], ["0,0.1,exp:1,p", "1,0.2,exp:1,p", "2,0.3,exp:1,p"]);
}

#[test]
fn a_flag_that_the_grid_varies_is_rejected() {
    let (folder, out) = folder();
    let flags = "--grid utilization=0.1 --utilization 0.3";
    let words = "--utilization 0.3: the grid varies utilization, so each point has its own; drop the \
                 flag, or give --grid utilization=0.3 in place";
    refused(flags, &out, 2, words);
    let file = folder.path().join("grid.toml");
    fs::write(&file, "[grid]\nwarm-up = [0.1, 0.2]\n").expect("a file");
    let file = file.display().to_string();
    refused(
        &format!("--file {file} --warmup 0.3"),
        &out,
        2,
        "--warm-up 0.3: the grid varies warm-up",
    );
    let flags = "--grid speeds=1 --replicas=2 --speeds 1,0.5";
    refused(flags, &out, 2, "--speeds 1,0.5: the grid varies speeds");
}

#[test]
fn seeds_are_exact_up_to_the_largest() {
    let (_folder, out) = folder();
    let small = "--requests=500 --shards=1 --replications=1 --policy=psq";
    let output = done(&with(small, "--grid seed=0,18446744073709551615 --json"), &out);
    let list = output.json();
    assert_eq!(list[1]["grid"]["seed"], u64::MAX);
    assert!(csv(&out).contains("\n1,18446744073709551615,psq,"), "{}", csv(&out));
    done(&with(small, "--grid seed=0,18446744073709551615"), &out).warns(["2 of 2 points"]);
    let one = out.with_file_name("one");
    let ran = done(&with(small, "--grid seed=1"), &one);
    assert!(ran.out.starts_with("1 point × 1 policy\n"), "{}", ran.out);
}

#[test]
fn plots_name_the_reason_if_everything_is_unstable() {
    let (_folder, out) = folder();
    let line = "--requests=1000 --shards=2 --grid utilization=2,3,4 --policy=psq";
    done(line, &out).prints(["every policy is unstable at every point"]);
    let picture = read(out.join("results.svg"));
    assert!(picture.contains(">every policy is unstable here</text>"), "{picture}");
    let page = read(out.join("results.html"));
    assert!(page.contains("Every policy is unstable at every point"), "{page}");
    let some = out.with_file_name("some");
    let line = "--requests=1000 --grid=utilization=0.3,3,4 --grid=shards=1,2 --policy=psq";
    done(line, &some);
    let page = read(some.join("results.html"));
    assert!(!page.to_lowercase().contains("every policy is unstable"), "{page}");
}

#[test]
fn bad_input_exits_with_2_and_writes_no_files() {
    let (_folder, out) = folder();
    for (args, words) in [
        ("--grid utilization", "write KEY=VALUES"),
        ("--grid utilization=", "the list is empty"),
        ("--grid utilization=0.1 --grid utilization=0.2", "has utilization twice"),
        ("--grid utilization=0.5,-1", "at utilization = -1: utilization is -1"),
        ("--grid slots=1,3 --policy bounded:2", "at slots = 3: bounded:2: "),
        ("--service exp:{stable} --grid stable=1,2", "rename the key"),
        ("--grid seed=1 --percentiles 50,50", "is also called p50"),
        ("--grid seed=1..1000:1 --requests 100000000", "--yes"),
        ("--grid seed=1 --versus clone", "--versus clone: give a policy of the sweep"),
        ("--grid seed=1 --policy=psq --versus psq", "no policy follows it"),
    ] {
        refused(args, &out, 2, words);
    }
    let left = fs::read_dir(&out).map_or(0, |files| {
        files
            .filter(|file| file.as_ref().expect("a file").metadata().expect("it is").len() > 0)
            .count()
    });
    assert_eq!(left, 0, "a sweep that is refused leaves no plan");
}

#[test]
fn a_lacking_environment_exits_with_3() {
    let (folder, out) = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file");
    refused(SMALL, &file.join("out"), 3, "cannot be written");
    refused(SMALL, &file, 3, "give a directory as --out");
    if cfg!(not(feature = "parquet")) {
        let words = "cargo build --release --features parquet";
        refused(&with(SMALL, "--parquet"), &out, 3, words);
    }
    let (_, mut child) = begun(&out);
    refused(SMALL, &out, 3, "another sweep is writing this file");
    child.kill().expect("a child of ours");
    child.wait().expect("a child of ours");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_has_the_rows_of_the_table() {
    let (_folder, out) = folder();
    done(&with(SMALL, "--parquet"), &out);
    let bytes = fs::read(out.join("results.parquet")).expect("a file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let again = out.with_file_name("again");
    done(&with(SMALL, "--threads 1"), &again);
    assert!(fs::read(again.join("results.parquet")).expect("a file") == bytes);
}
