//! Chapter 3 of document 000: how far to believe what measures microseconds.
//!
//! The experiment is a program in a workspace of its own, `eval/measuring`: only who measures with AF_XDP
//! compiles it. It takes the place of this one: nothing waits beside it, and its exit code is ours.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Error, anyhow};

use crate::cargo;

/// Its manifest.
pub(crate) const MANIFEST: &str = "eval/measuring/Cargo.toml";

/// Builds it and becomes it; so it returns only if that fails.
pub(crate) fn run(root: &Path, smoke: bool, json: bool) -> Error {
    let mut command = match built(root) {
        Ok(command) => command,
        Err(error) => return error,
    };
    let folder = if smoke { "measuring-smoke" } else { "measuring" };
    command.arg("--out").arg(root.join("out/papers").join(folder));
    command.args(smoke.then_some("--smoke")).args(json.then_some("--json"));
    anyhow!("cannot run {command:?}: {}", command.exec())
}

fn built(root: &Path) -> anyhow::Result<Command> {
    let target = cargo::target_folder(root)?;
    let mut build = cargo::command(root, &["build", "--quiet", "--release", "--locked"]);
    build.args(["--manifest-path", MANIFEST, "--target-dir"]).arg(&target);
    anyhow::ensure!(cargo::succeeds(&mut build)?, "{MANIFEST} does not build");
    Ok(Command::new(target.join("release/curtail-measuring")))
}
