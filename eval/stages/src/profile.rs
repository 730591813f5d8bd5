//! Profiles of both sides by `curtail profile`, and how it compares them.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::rounds::Case;

const SECONDS: f64 = 10.0;

/// What `curtail profile --json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Profiles {
    before: Value,
    after: Value,
    compared: Value,
}

/// Profiles both, each under its load, and compares them.
pub(crate) fn both(
    curtail: &Path,
    case: &Case,
    pids: [u32; 2],
    load: impl Fn(usize, f64) -> Result<()>,
) -> Result<Profiles> {
    let folder = tempfile::tempdir()?;
    let out = |at: usize| folder.path().join(["before", "after"][at]);
    let mut profiles = [Value::Null, Value::Null];
    for (at, pid) in pids.into_iter().enumerate() {
        let mut command = Command::new(curtail);
        command.args([
            "profile",
            "--json",
            "--pid",
            &pid.to_string(),
            "--app",
            case.server.app.name(),
        ]);
        command.args(["--duration", &format!("{SECONDS}s"), "--out"]).arg(out(at));
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.with_context(|| format!("cannot run {}", curtail.display()))?;
        // Longer, so that there are requests until it ends.
        load(at, SECONDS + 3.0)?;
        profiles[at] = document(&child.wait_with_output()?)?;
    }
    let mut command = Command::new(curtail);
    command.args(["profile", "--json", "--compare"]).arg(out(0)).arg(out(1));
    let [before, after] = profiles;
    Ok(Profiles { before, after, compared: document(&command.output()?)? })
}

fn document(out: &std::process::Output) -> Result<Value> {
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "curtail profile: {}", said.trim());
    serde_json::from_slice(&out.stdout).context("what curtail profile printed")
}
