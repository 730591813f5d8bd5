//! Tests that all verbs read files of times in the same way.

use std::path::Path;
use std::time::Duration;

use curtail_dist::LogWriter;

use crate::harness::words::{curtail_in, folder, json_in, refused};

/// A line of a log with 200 equal times, in milliseconds.
fn interval(ms: u64) -> String {
    let (mut text, mut counted) = (Vec::new(), curtail_load::histogram());
    counted.record_n(ms * 1_000_000, 200).expect("in range");
    let mut log = LogWriter::new(&mut text, "", Duration::ZERO).expect("a log");
    log.write(&counted, Duration::ZERO, Duration::from_secs(1)).expect("an interval");
    String::from_utf8(text).expect("text").lines().last().expect("a line").to_owned()
}

/// Command lines that read a file of times. The last ones take only a path.
const READERS: [&str; 7] = [
    "sim --shards 1 --requests 200 --replications 1 --service-time file:",
    "sweep --grid seed=1 --shards 1 --requests 200 --out swept --service-time file:",
    "advise --utilization 0.3 --service-time file:",
    "model queue --utilization 0.3 --service-time file:",
    "advise --simulate 0.15 --utilization 0.3 --samples ",
    "model fit ",
    "report ",
];

fn all_refuse(folder: &Path, readers: &[&str], path: &str, word: &str) {
    for reader in readers {
        refused(folder, "", &[(&format!("{reader}{path}"), word)]);
    }
}

#[test]
fn several_series_are_named_and_never_added_up() {
    let [reads, writes, whole] = [1, 9, 5].map(interval);
    let two = format!("Tag=reads,{reads}\nTag=writes,{writes}\n");
    let folder = folder(&[("two.hlog", &two), ("default.hlog", &format!("{two}{whole}\n"))]);
    let word =
        "two.hlog has several series (reads, writes) and none without a tag; keep the lines of one";
    all_refuse(folder.path(), &READERS, "two.hlog", word);
    // The series without a tag is the default.
    let reported = json_in(folder.path(), "report default.hlog");
    let p50 = reported["runs"][0]["latency_ns"]["p50"].as_f64().expect("a number");
    let line = format!("{}default.hlog --policy psq --utilization 0.001", READERS[0]);
    let simulated = json_in(folder.path(), &line.replace("requests 200", "requests 2000"));
    let simulated = simulated[0]["request"]["p50"].as_f64().expect("a number");
    assert!((p50 / 5e6 - 1.0).abs() < 1e-3, "{p50}");
    assert!((simulated / 5.0 - 1.0).abs() < 1e-3, "{simulated}");
}

#[test]
fn a_directory_is_rejected_and_its_files_of_times_are_named() {
    let times = "1ms\n".repeat(200);
    let folder = folder(&[("p.txt", &times), ("j.txt", &times), ("service.txt", &times)]);
    let word = ". is a folder; name the file with the times: ./j.txt, ./p.txt, ./service.txt";
    all_refuse(folder.path(), &READERS[..4], ".", word);
    all_refuse(folder.path(), &READERS[5..6], ".", word);
    // One verb accepts a directory, as written by curtail jitter.
    curtail_in(folder.path(), &format!("{}. --json", READERS[4])).ends(0);
}
