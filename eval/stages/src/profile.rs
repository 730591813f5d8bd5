//! Profiles both sides with `curtail profile`, which also compares the profiles.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::server::App;

/// The length of a profile, and the number of attempts. Profiles are short, and the one with the
/// lowest variance counts, because hiccups of the machine can only add to the variance.
const SECONDS: f64 = 2.0;
const TRIES: usize = 5;

/// The output of `curtail profile --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Profiles {
    before: Value,
    after: Value,
    compared: Value,
}

/// Profiles both sides, each under its load, and compares them.
pub(crate) fn both(
    curtail: &Path,
    app: App,
    pids: [u32; 2],
    load: impl Fn(usize, f64) -> Result<()>,
) -> Result<Profiles> {
    let folder = tempfile::tempdir()?;
    let mut sides = Vec::new();
    for (at, pid) in pids.into_iter().enumerate() {
        let mut tries = Vec::new();
        for _ in 0..TRIES {
            let out = folder.path().join(format!("{at}-{}", tries.len()));
            let (seconds, path) = (format!("{SECONDS}s"), out.to_str().context("not text")?);
            let child = start(curtail, app, pid, &["--duration", &seconds, "--out", path])?;
            // The load lasts longer than the profile, so that there are requests until the profile
            // ends.
            load(at, SECONDS + 3.0)?;
            tries.push((finish(child)?, out));
        }
        let sd = |of: &(Value, PathBuf)| of.0["total"]["sd_ns"].as_f64().unwrap_or(f64::INFINITY);
        tries.sort_by(|a, b| sd(a).total_cmp(&sd(b)));
        sides.push(tries.swap_remove(0));
    }
    let mut command = Command::new(curtail);
    command.args(["profile", "--json", "--compare"]).args(sides.iter().map(|side| &side.1));
    let compared = document(&command.output()?)?;
    let [before, after] = [0, 1].map(|at| sides[at].0.clone());
    Ok(Profiles { before, after, compared })
}

/// Builds `curtail` with its profiler, which is a feature that is off by default, and copies the
/// binary to `target`.
pub(crate) fn build(target: &Path) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--release", "-p", "curtail-cli", "--features", "ebpf"]);
    ensure!(command.current_dir(&folder).status()?.success(), "curtail cannot be built");
    std::fs::create_dir_all(target)?;
    let built = folder.join("target/release/curtail");
    let kept = target.join("curtail");
    std::fs::copy(&built, &kept).with_context(|| format!("no {}", built.display()))?;
    Ok(kept)
}

/// Starts to profile a server.
pub(crate) fn start(curtail: &Path, app: App, pid: u32, more: &[&str]) -> Result<Child> {
    let (pid, app) = (pid.to_string(), app.name());
    let mut command = Command::new(curtail);
    command.args(["profile", "--json", "--pid", &pid, "--app", app]).args(more);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    child.with_context(|| format!("cannot run {}", curtail.display()))
}

/// Waits for the end and returns the document that was printed.
pub(crate) fn finish(child: Child) -> Result<Value> {
    document(&child.wait_with_output()?)
}

fn document(out: &std::process::Output) -> Result<Value> {
    let stderr = String::from_utf8_lossy(&out.stderr);
    // Exit code 1 means that the second profile is worse.
    let is_done = matches!(out.status.code(), Some(0 | 1));
    ensure!(is_done, "curtail profile ended with {}: {}", out.status, stderr.trim());
    serde_json::from_slice(&out.stdout).context("what curtail profile printed")
}
