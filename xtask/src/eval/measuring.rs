//! Chapter 3 of document 000: how far to believe what measures microseconds.
//!
//! The experiment is a program of its own, `eval/measuring`. It measures, so it takes the place of this
//! one: nothing waits beside it, and its exit code is ours.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Error, anyhow};

use crate::cargo;

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
    let package = ["build", "--quiet", "--release", "--locked", "-p", "curtail-measuring"];
    let mut build = cargo::command(root, &package);
    anyhow::ensure!(cargo::succeeds(&mut build)?, "curtail-measuring does not build");
    Ok(Command::new(target.join("release/curtail-measuring")))
}
