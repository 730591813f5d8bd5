//! `cargo xtask python`: the Python package, from nothing to its tests.
//!
//! A fresh virtual environment gets the package by one command, which compiles it; then its tests
//! run, and compare it with the command line. What is compiled goes to the folder where everything
//! else does, in the profile of tests.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cargo::{self, Profile};

/// The oldest Python that the package is for.
const OLDEST: (u32, u32) = (3, 10);

/// Something small, to see whether packages can be fetched at all.
const PROBE: &str = "iniconfig";

/// What came of it.
#[derive(Debug)]
pub(crate) enum Ran {
    /// The tests ran.
    Tested {
        passed: bool,
        /// What pytest closes with.
        closing: String,
    },
    /// The package cannot be installed, or its sources are not in order.
    Failed(&'static str),
    /// What it takes is not here: said which.
    Lacking(String),
}

/// Runs all of it, with its output shown.
pub(crate) fn run(root: &Path) -> Result<Ran> {
    if let Some(why) = lacking() {
        return Ok(Ran::Lacking(why));
    }
    let target = cargo::target_folder(root)?;
    let venv = target.join("python-venv");
    if venv.exists() {
        std::fs::remove_dir_all(&venv).context("cannot remove the last environment")?;
    }
    let mut making = Command::new("python3");
    if let Err(error) = cargo::output(making.args(["-m", "venv"]).arg(&venv)) {
        return Ok(Ran::Lacking(format!("no virtual environment: {error:#}")));
    }
    let python = venv.join("bin").join("python");
    if let Err(error) = cargo::output(&mut probe(&python, &target)) {
        return Ok(Ran::Lacking(format!("no package registry: {}", last_line(&error))));
    }
    for (args, what) in CHECKS {
        if !cargo::succeeds(&mut cargo::command(root, args))? {
            return Ok(Ran::Failed(what));
        }
    }
    if !cargo::succeeds(&mut install(root, &python, &target))? {
        return Ok(Ran::Failed("the package does not install"));
    }
    let curtail = cargo::curtail(root, Profile::Dev)?;
    test(root, &python, &curtail)
}

/// The sources of the compiled part; the checks of the main workspace do not see them.
const CHECKS: [(&[&str], &str); 2] = [
    (&["fmt", "--check", "--manifest-path", MANIFEST], "the sources are not formatted"),
    (
        &[
            "clippy",
            "--quiet",
            "--target-dir",
            "target",
            "--manifest-path",
            MANIFEST,
            "--",
            "-D",
            "warnings",
        ],
        "clippy has warnings",
    ),
];

const MANIFEST: &str = "python/Cargo.toml";

/// What is missing before anything can be tried; none if nothing is.
fn lacking() -> Option<String> {
    let asks = ["-c", "import sys, venv, ensurepip; print(*sys.version_info[:2])"];
    let said = match cargo::output(Command::new("python3").args(asks)) {
        Ok(said) => said,
        Err(error) => return Some(format!("no python3 with venv: {}", last_line(&error))),
    };
    let mut numbers = said.split_whitespace().map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (major, minor) = OLDEST;
    (version < OLDEST)
        .then(|| format!("python3 is {}.{}, not {major}.{minor}", version.0, version.1))
}

fn last_line(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().last().unwrap_or_default().trim().to_owned()
}

fn probe(python: &Path, target: &Path) -> Command {
    let mut command = pip(python, "download");
    command.args(["--no-deps", "--no-cache-dir", "--dest"]).arg(target.join("python-probe"));
    command.arg(PROBE);
    command
}

/// The one command.
fn install(root: &Path, python: &Path, target: &Path) -> Command {
    let mut command = pip(python, "install");
    command.args(["./python", "-r", "python/requirements-test.txt"]).current_dir(root);
    command.env("CARGO_TARGET_DIR", target).env("MATURIN_PEP517_ARGS", "--profile dev");
    command
}

fn pip(python: &Path, verb: &str) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--disable-pip-version-check", verb, "--quiet"]);
    command
}

fn test(root: &Path, python: &Path, curtail: &Path) -> Result<Ran> {
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "-v", "-p", "no:cacheprovider"]).current_dir(root.join("python"));
    command.env("CURTAIL_BINARY", curtail).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut closing = String::new();
    let passed = cargo::followed(&mut command, |line| {
        if let Some(line) = closing_line(line) {
            line.clone_into(&mut closing);
        }
    })?;
    Ok(Ran::Tested { passed, closing })
}

/// Of `==== 84 passed, 1 skipped in 74.31s ====` what is between the bars.
fn closing_line(line: &str) -> Option<&str> {
    let inner = line.trim().strip_prefix("==")?.strip_suffix("==")?.trim_matches('=').trim();
    (inner.contains(" in ") && inner.starts_with(|c: char| c.is_ascii_digit())).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_is_found() {
        let line = "=================== 84 passed, 1 skipped in 74.31s (0:01:14) ===========\n";
        assert_eq!(closing_line(line), Some("84 passed, 1 skipped in 74.31s (0:01:14)"));
        for other in ["", "== test session starts ==", "==== slowest durations ====", "1 in 2"] {
            assert_eq!(closing_line(other), None, "{other}");
        }
    }
}
