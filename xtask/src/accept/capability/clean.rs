//! A clean clone, and what continuous integration says in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::accept::finding::Finding;
use crate::{cargo, ci};

const CI_MINUTES_MOST: f64 = 25.0;

/// A clone of what is committed, with nothing built. It is removed when this is dropped.
pub(super) struct Clone(PathBuf);

impl Clone {
    pub(super) fn fresh(root: &Path) -> Result<Self> {
        let folder = cargo::target_folder(root)?.join("accept").join("clone");
        let clone = Self(folder);
        clone.remove()?;
        if !git(root, &["status", "--porcelain"])?.is_empty() {
            eprintln!("note: only what is committed is judged; there are changes that are not");
        }
        let folder = clone.0.to_str().context("the target folder's name is not UTF-8")?;
        git(root, &["clone", "--quiet", "--no-hardlinks", ".", folder])?;
        Ok(clone)
    }

    /// `cargo ARGS…` in the clone, which builds in a folder of its own.
    pub(super) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = cargo::command(&self.0, args);
        command.env_remove("CARGO_TARGET_DIR");
        command
    }

    pub(super) fn json(&self, file: &str) -> Result<Value> {
        let path = self.0.join(file);
        let text = std::fs::read(&path).with_context(|| format!("cannot read {path:?}"))?;
        serde_json::from_slice(&text).with_context(|| format!("{path:?} is no JSON"))
    }

    fn remove(&self) -> Result<()> {
        match std::fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {:?}", self.0))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Clone {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("note: {error:#}");
        }
    }
}

pub(super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let clone = Clone::fresh(root)?;
    let start = Instant::now();
    let mut command = Command::new(clone.0.join(".ci/run"));
    // What the outer cargo tells this program must not change the inner one's mind.
    command.env_clear().envs(std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        let ours = name.starts_with("CARGO_") || name.starts_with("CURTAIL_");
        !ours || name == "CARGO_HOME"
    }));
    let mut skipped = Vec::new();
    let green = cargo::followed(&mut command, |line| {
        let step = ci::skipped(line);
        skipped.extend(step.map(|(name, why)| format!("{name} ({why})")));
    })?;
    Ok(vec![finding(green, start.elapsed(), &skipped)])
}

/// Green is what ran; a step that was skipped is named, for nobody has looked at what it checks.
fn finding(green: bool, took: Duration, skipped: &[String]) -> Finding {
    let minutes = took.as_secs_f64() / 60.0;
    let color = if green { "green" } else { "red" };
    let skipped = match skipped {
        [] => String::new(),
        steps => format!("; SKIPPED: {}", steps.join(", ")),
    };
    Finding::new(
        "`.ci/run` is green from a clean clone in under 25 minutes",
        format!("{color} in {minutes:.1} minutes on {} cores{skipped}", cores()),
        green && minutes < CI_MINUTES_MOST,
    )
}

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn git(root: &Path, args: &[&str]) -> Result<String> {
    cargo::output(Command::new("git").args(args).current_dir(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::finding::Verdict;

    #[test]
    fn steps_that_were_skipped_are_named() {
        let judged = |green, minutes: u64, skipped: &[String]| {
            finding(green, Duration::from_secs(minutes * 60), skipped)
        };
        let whole = judged(true, 24, &[]);
        assert_eq!(whole.verdict, Verdict::Holds);
        assert!(!whole.to_string().contains("SKIPPED"), "{whole}");
        let part = judged(true, 24, &["deny (it is not installed)".into(), "soak (why)".into()]);
        assert_eq!(part.verdict, Verdict::Holds);
        let end = " cores; SKIPPED: deny (it is not installed), soak (why)";
        assert!(part.to_string().ends_with(end), "{part}");
        assert_eq!(judged(false, 1, &[]).verdict, Verdict::Broken);
        assert_eq!(judged(true, 25, &[]).verdict, Verdict::Broken);
    }
}
