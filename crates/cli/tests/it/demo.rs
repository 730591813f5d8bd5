//! Tests an interrupted demo: it writes its files, does not touch any other files, and leaves no
//! process behind. Linux only, because there is no portable way to list other processes.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::harness::words::{folder, read};
use crate::harness::{CURTAIL, signal, until, wait};
use rustix::process::{Pid, Signal, kill_process};

/// Returns the command lines of processes that mention a path.
fn mentioning(path: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(path)).collect()
}

/// Returns the ids and command lines of a process's children.
fn children(of: &Child) -> Vec<(i32, String)> {
    let parent = format!("PPid:\t{}\n", of.id());
    let entries = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let mine = |path: &PathBuf| {
        fs::read_to_string(path.join("status")).is_ok_and(|status| status.contains(&parent))
    };
    let known = |path: PathBuf| {
        let id = path.file_name()?.to_str()?.parse().ok()?;
        let line = fs::read(path.join("cmdline")).ok()?;
        Some((id, String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    entries.filter(mine).filter_map(known).collect()
}

fn is_in_second_cell(demo: &Child) -> bool {
    let is_its_root = |line: &str| line.contains(" root ") && line.contains("laedge");
    children(demo).iter().any(|(_, line)| is_its_root(line))
}

/// A directory with texts, and the directory of `--out`.
fn place() -> (tempfile::TempDir, String, PathBuf) {
    let folder = folder(&[]);
    let texts = folder.path().join("texts");
    fs::create_dir(&texts).expect("a folder");
    for n in 0..40 {
        let text = format!("common words and word{n} in a text about subject{}", n % 7);
        fs::write(texts.join(format!("{n}.txt")), text.repeat(3)).expect("a file");
    }
    let out = folder.path().join("out");
    (folder, texts.display().to_string(), out)
}

fn demo(corpus: &str, out: &Path, requests: u32) -> Child {
    let line = format!("--loads 0.2 --policies psq,laedge --requests {requests} --pause 20:50ms");
    start(corpus, out, &(line + " --timings"))
}

fn start(corpus: &str, out: &Path, line: &str) -> Child {
    // If the tests run under `nohup`, the demo would inherit the setting to ignore SIGHUP.
    Command::new("env")
        .args(["--default-signal=HUP", CURTAIL])
        .args(["demo", "--corpus", corpus, "--out", &out.display().to_string(), "--json"])
        .args(["--shards", "2"])
        .args(line.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

/// Interrupts the demo and returns its stderr.
fn end(mut demo: Child, by: Signal) -> String {
    signal(&demo, by);
    assert_eq!(wait(&mut demo), Some(130));
    std::io::read_to_string(demo.stderr.take().expect("stderr is piped")).expect("text")
}

#[test]
fn an_interrupted_demo_writes_partial_results_and_leaves_no_process() {
    let (_folder, texts, out) = place();
    let path = out.display().to_string();
    fs::create_dir(&out).expect("a folder");
    fs::write(out.join("p99.svg"), "of an earlier run").expect("a file");
    // A cell takes a few seconds.
    let running = demo(&texts, &out, 200);
    until("the second cell begins", || is_in_second_cell(&running));
    // Its terminal closes.
    end(running, Signal::HUP);
    until("every leaf is gone", || mentioning(&path).is_empty());
    let results = read(out.join("results.json"));
    assert!(results.contains("\"partial\": true"), "{results}");
    assert!(out.join("report.html").exists());
    assert!(!out.join("p99.svg").exists(), "there are too few requests for this figure");
    let timings = read(out.join("timings.csv"));
    let rows: Vec<&str> = timings.lines().skip(1).collect();
    assert_eq!(rows.len(), 200 * 2, "one per request and shard");
    for row in rows {
        let fields: Vec<&str> = row.split(',').collect();
        assert_eq!(fields[..2], ["0.2", "psq"], "{row}");
        let ns = |at: usize| fields[at].parse::<u64>().expect("a time");
        let [latency, took, ran, served, drawn] = [3, 5, 6, 7, 8].map(ns);
        assert!(drawn <= served && served <= ran && ran <= took && took <= latency, "{row}");
    }
}

#[test]
fn a_policy_that_learns_keeps_its_root_from_load_to_load() {
    let (_folder, texts, out) = place();
    let line = "--loads 0.3,0.4 --policies psq,rescue --requests 100";
    let mut running = start(&texts, &out, line);
    let mut roots = [BTreeSet::new(), BTreeSet::new()];
    until("it ends", || {
        for (id, line) in children(&running).iter().filter(|(_, line)| line.contains(" root ")) {
            for (of, policy) in roots.iter_mut().zip(["--policy psq", "--policy rescue"]) {
                of.extend(line.contains(policy).then_some(*id));
            }
        }
        running.try_wait().expect("it is ours").is_some()
    });
    let [others, learned] = roots.map(|of| of.len());
    // A cell that other processes disturbed is measured again.
    assert!((2..=4).contains(&others) && learned == 1, "{others} {learned}");
    let results = read(out.join("results.json"));
    assert!(!results.contains("partial"), "{results}");
}

#[test]
fn a_leaf_that_dies_ends_the_demo_with_partial_results() {
    let (_folder, texts, out) = place();
    let mut running = demo(&texts, &out, 200);
    until("the second cell begins", || is_in_second_cell(&running));
    let mut leaves = children(&running).into_iter().filter(|(_, line)| line.contains(" leaf "));
    let leaf = leaves.next().and_then(|(id, _)| Pid::from_raw(id)).expect("there are four leaves");
    kill_process(leaf, Signal::KILL).expect("a grandchild of ours");
    assert_eq!(wait(&mut running), Some(3));
    let stderr = std::io::read_to_string(running.stderr.take().expect("piped")).expect("text");
    assert!(stderr.contains("has ended (signal: 9"), "{stderr}");
    let results = read(out.join("results.json"));
    assert!(results.contains("\"partial\": true"), "{results}");
    assert!(!results.contains("laedge\": ["), "a cell whose leaf ended is not reported: {results}");
}

#[test]
fn a_demo_without_a_cell_keeps_the_last_report() {
    let (_folder, texts, out) = place();
    fs::create_dir(&out).expect("a folder");
    let names = ["report.html", "results.json", "p99.svg", "timings.csv"];
    for name in names {
        fs::write(out.join(name), "of the last run").expect("a file");
    }
    let path = out.display().to_string();
    let running = demo(&texts, &out, 100_000);
    // These processes are the demo itself and four leaves.
    until("all leaves run", || mentioning(&path).len() >= 5);
    let stderr = end(running, Signal::INT);
    assert!(stderr.contains("interrupted before the first cell was measured"), "{stderr}");
    until("every leaf is gone", || mentioning(&path).is_empty());
    for name in names {
        assert_eq!(read(out.join(name)), "of the last run");
    }
}

#[test]
fn an_interrupted_index_leaves_no_files_and_cleans_up_after_a_killed_one() {
    let folder = folder(&[]);
    let (corpus, out) = (folder.path().join("corpus.jsonl"), folder.path().join("out"));
    // The corpus is large enough for its index to take a second.
    let line = |n: u32| {
        let body: String = (0..100).map(|i| format!("w{} ", (n * 7 + i * i) % 5_003)).collect();
        format!("{{\"title\": \"t{n}\", \"body\": \"{body}\"}}\n")
    };
    fs::write(&corpus, (0..6_000).map(line).collect::<String>()).expect("a file");
    let corpus = corpus.display().to_string();
    let building = || {
        let mut entries = fs::read_dir(&out).into_iter().flatten().flatten();
        entries.find(|entry| entry.file_name().to_string_lossy().contains(".building"))
    };
    let mut killed = demo(&corpus, &out, 100);
    until("the index is being built", || building().is_some());
    signal(&killed, Signal::KILL);
    wait(&mut killed);
    let left = building().expect("a killed process cannot clean up").path().join("left");
    fs::write(&left, "").expect("a file");

    let running = demo(&corpus, &out, 100);
    until("the next index is being built", || !left.exists() && building().is_some());
    let stderr = end(running, Signal::INT);
    assert!(stderr.contains("interrupted while the index was built"), "{stderr}");
    let entries: Vec<_> = fs::read_dir(&out).expect("the folder").collect();
    assert!(entries.is_empty(), "{entries:?}");
}
