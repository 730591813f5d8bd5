//! Runs cargo as if the command had been typed in a shell.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result};

use crate::page::{self, Ran};

/// The variable that names a `curtail` binary to use in place of building one.
pub const BINARY: &str = "CURTAIL_BINARY";

/// Returns the command `cargo ARGS…` in the root of the repository.
///
/// Cargo sets variables that describe the package of the program that it runs. If an inner cargo
/// inherited them, it would rebuild whatever depends on them, so they are removed.
pub fn command(root: &Path, args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root);
    forget(&mut command, is_of_this_program);
    command
}

/// Whether a variable describes this program or its run. `CURTAIL_` variables do, because a seed that
/// was set for a replay would reduce a test from many worlds to one.
pub fn is_of_this_program(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CURTAIL_"].iter().any(|start| name.starts_with(start))
}

/// Removes variables from a command's environment.
pub fn forget(command: &mut Command, which: impl Fn(&str) -> bool) {
    for (name, _) in std::env::vars_os() {
        if which(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
}

/// Runs the command and shows its output. Returns true if it succeeded. The exit status of a
/// failure is printed, because a process that is killed prints nothing.
pub fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        println!("{} ended with {status}", command.get_program().display());
    }
    Ok(status.success())
}

/// Runs the command to completion and copies its output line by line. Output is copied as bytes,
/// because a program may print anything.
pub fn follow(
    command: &mut Command,
    shown: &mut dyn Write,
    mut line: impl FnMut(&str),
) -> Result<ExitStatus> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot run {command:?}"))?;
    let mut output = BufReader::new(child.stdout.take().context("it has no output")?);
    let mut bytes = Vec::new();
    while output.read_until(b'\n', &mut bytes).context("cannot read the output")? > 0 {
        shown.write_all(&bytes).context("cannot show the output")?;
        line(&String::from_utf8_lossy(&bytes));
        bytes.clear();
    }
    child.wait().context("it does not end")
}

/// Runs the command without showing it and returns its output. An error contains the command's
/// stderr.
pub fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?} failed: {}", stderr.trim());
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed no text"))
}

/// Returns the folder in which cargo puts build results.
pub fn target_folder(root: &Path) -> Result<PathBuf> {
    let args = ["metadata", "--format-version", "1", "--no-deps"];
    let metadata: serde_json::Value = serde_json::from_str(&output(&mut command(root, &args))?)?;
    let folder = metadata["target_directory"].as_str().context("cargo reports no target folder")?;
    Ok(folder.into())
}

/// Builds the `curtail` binary and returns its path. `CURTAIL_BINARY` names an existing binary to
/// use instead.
pub fn curtail(root: &Path) -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os(BINARY) {
        return std::path::absolute(binary).context("CURTAIL_BINARY is not a path");
    }
    let args = ["build", "--quiet", "-p", "curtail-cli", "--release"];
    anyhow::ensure!(succeeds(&mut command(root, &args))?, "curtail does not build");
    Ok(target_folder(root)?.join("release/curtail"))
}

/// Builds the example `calls`, and returns its path.
pub fn calls(root: &Path) -> Result<PathBuf> {
    let args = ["build", "--quiet", "-p", "xtask", "--release", "--example", "calls"];
    anyhow::ensure!(succeeds(&mut command(root, &args))?, "calls does not build");
    Ok(target_folder(root)?.join("release/examples/calls"))
}

/// Runs the commands of a page with the programs of this repository, in a folder that is emptied
/// first.
pub fn run_page(root: &Path, commands: &[String], folder: &Path) -> Result<Vec<Ran>> {
    let curtail = curtail(root)?;
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let programs = curtail.parent().context("a program is in a folder")?;
    Ok(page::run(commands, folder, programs)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_is_not_text_is_copied() {
        let (mut shown, mut lines) = (Vec::new(), Vec::new());
        let mut printf = Command::new("printf");
        let status = follow(printf.arg("\\377\\376\\nok\\n"), &mut shown, |line| {
            lines.push(line.to_owned());
        });
        assert!(status.expect("it runs").success());
        assert_eq!(shown, b"\xff\xfe\nok\n");
        assert_eq!(lines, ["\u{fffd}\u{fffd}\n", "ok\n"]);
    }
}
