//! Profiles both sides with `curtail profile`, which also compares the profiles.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;
use xtask::cargo;
use xtask::process::{Process, tied};

use crate::server::{ROOT, Server};

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
    servers: [&Server; 2],
    load: impl Fn(usize, f64) -> Result<()>,
) -> Result<Profiles> {
    let folder = tempfile::tempdir()?;
    let mut compare = tied(curtail);
    compare.args(["profile", "--json", "--compare"]);
    let mut profiles = Vec::new();
    for (at, server) in servers.into_iter().enumerate() {
        let mut tries = Vec::new();
        for number in 0..TRIES {
            let out = folder.path().join(format!("{at}-{number}"));
            let (seconds, path) = (format!("{SECONDS}s"), out.to_str().context("not text")?);
            let profile = start(curtail, server, &["--duration", &seconds, "--out", path])?;
            // The load lasts longer than the profile, so that there are requests until the profile
            // ends.
            load(at, SECONDS + 3.0)?;
            tries.push((profile.document::<Value>()?, out));
        }
        let sd = |of: &Value| of["total"]["sd_ns"].as_f64().unwrap_or(f64::INFINITY);
        tries.sort_by(|a, b| sd(&a.0).total_cmp(&sd(&b.0)));
        let (profile, out) = tries.swap_remove(0);
        profiles.push(profile);
        compare.arg(out);
    }
    let compared = Process::start("compare", compare, folder.path())?.document()?;
    let [before, after] = [0, 1].map(|at| profiles[at].take());
    Ok(Profiles { before, after, compared })
}

/// Builds `curtail`.
pub(crate) fn build() -> Result<PathBuf> {
    let root = Path::new(ROOT);
    let args = ["build", "--quiet", "--release", "-p", "curtail-cli"];
    ensure!(cargo::succeeds(&mut cargo::command(root, &args))?, "curtail cannot be built");
    Ok(cargo::target_folder(root)?.join("release/curtail"))
}

/// Starts to profile a server.
pub(crate) fn start(curtail: &Path, server: &Server, more: &[&str]) -> Result<Process> {
    let (pid, app) = (server.process.id().to_string(), server.app.name());
    let mut command = tied(curtail);
    command.args(["profile", "--json", "--pid", &pid, "--app", app]).args(more);
    Process::start("profile", command, server.folder.path())
}
