//! Programs that are started, and what they say.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::cargo;

/// An example of the load generator, built for speed.
pub(super) fn example(root: &Path, name: &str) -> Result<PathBuf> {
    let mut build = cargo::command(
        root,
        &["build", "--release", "--quiet", "-p", "curtail-load", "--example", name],
    );
    anyhow::ensure!(cargo::succeeds(&mut build)?, "the example {name} does not compile");
    Ok(cargo::target_folder(root)?.join("release/examples").join(name))
}

/// A server that says where it listens, and says the rest when its standard input ends.
pub(super) struct Server {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
    pub(super) address: String,
}

impl Server {
    pub(super) fn start(program: &Path, arguments: &[&str]) -> Result<Server> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let mut said = BufReader::new(child.stdout.take().context("it has no output")?);
        let mut line = String::new();
        said.read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
        anyhow::ensure!(!address.is_empty(), "{} says `{}`", program.display(), line.trim());
        Ok(Server { child, said, address })
    }

    /// Ends it, and returns what it says last.
    pub(super) fn finish(mut self) -> Result<String> {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.said.read_to_string(&mut rest)?;
        self.child.wait()?;
        Ok(rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended, or nobody needs it any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program prints as JSON. Its exit code may say that its verdict is negative.
pub(super) fn json(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Result<Value> {
    let output = Command::new(program.as_ref()).args(arguments).output()?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{} {}: {}", program.as_ref().to_string_lossy(), arguments.join(" "), said.trim())
    })
}

/// A figure of a document, by its path.
pub(super) fn number(document: &Value, path: &[&str]) -> f64 {
    let found = path.iter().fold(document, |value, key| &value[*key]);
    found.as_f64().unwrap_or(f64::NAN)
}

/// The middle one of some figures.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
