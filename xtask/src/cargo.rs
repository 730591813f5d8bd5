//! Running cargo as if it had been typed.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result};

use crate::page::{self, Ran};

/// `cargo ARGS…` in the root of the repository.
///
/// Cargo tells a program that it runs which package the program is from. Handed on, these
/// variables would make an inner cargo rebuild what depends on them, so they are removed.
pub(crate) fn command(root: &Path, args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root);
    // A seed that somebody replays would leave one world of a test's many.
    let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CURTAIL_"];
    forget(&mut command, |name| ours.iter().any(|start| name.starts_with(start)));
    command
}

/// Leaves variables out of a command's environment.
pub(crate) fn forget(command: &mut Command, which: impl Fn(&str) -> bool) {
    for (name, _) in std::env::vars_os() {
        if which(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
}

/// Runs the command with its output shown; whether it succeeded. How it failed is printed, because a process that
/// is killed prints nothing.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        println!("{} ended with {status}", command.get_program().display());
    }
    Ok(status.success())
}

/// Runs the command to its end, and copies its output line by line, as bytes: a program may print
/// anything.
pub(crate) fn follow(
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

/// Runs the command unseen and returns what it printed; an error repeats what it said.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?} failed: {}", said.trim());
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed no text"))
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder(root: &Path) -> Result<PathBuf> {
    let args = ["metadata", "--format-version", "1", "--no-deps"];
    let metadata: serde_json::Value = serde_json::from_str(&output(&mut command(root, &args))?)?;
    let folder = metadata["target_directory"].as_str().context("cargo names no target folder")?;
    Ok(folder.into())
}

/// Builds the `curtail` binary and says where it is; `CURTAIL_BINARY` names one that is there.
pub(crate) fn curtail(root: &Path) -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("CURTAIL_BINARY") {
        return std::path::absolute(binary).context("CURTAIL_BINARY is no path");
    }
    let args = ["build", "--quiet", "-p", "curtail-cli", "--release"];
    anyhow::ensure!(succeeds(&mut command(root, &args))?, "curtail does not build");
    Ok(target_folder(root)?.join("release/curtail"))
}

/// Runs commands of a page with our programs, in a folder that is emptied before.
pub(crate) fn run_page(root: &Path, commands: &[String], folder: &Path) -> Result<Vec<Ran>> {
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
