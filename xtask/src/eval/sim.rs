//! `curtail sim`, as a program runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::cargo;

/// The simulator, with the flags that all experiments share.
#[derive(Clone, Debug)]
pub(crate) struct Simulator {
    curtail: PathBuf,
    shared: Vec<String>,
}

/// What one policy came to.
#[derive(Clone, Debug)]
pub(crate) struct Outcome(Value);

impl Simulator {
    /// Builds it. `shared` stands before the flags of each experiment.
    pub(crate) fn new(root: &Path, shared: &[&str]) -> Result<Self> {
        let shared = shared.iter().map(ToString::to_string).collect();
        Ok(Self { curtail: cargo::curtail(root)?, shared })
    }

    /// Simulates policies at a utilization, on common random numbers.
    pub(crate) fn at(
        &self,
        utilization: f64,
        policies: &[&str],
        flags: &[&str],
    ) -> Result<Vec<Outcome>> {
        let utilization = utilization.to_string();
        self.run(policies, &[&["--utilization", &utilization], flags].concat())
    }

    /// Simulates policies, on common random numbers.
    pub(crate) fn run(&self, policies: &[&str], flags: &[&str]) -> Result<Vec<Outcome>> {
        let mut command = Command::new(&self.curtail);
        command.args(["sim", "--json"]).args(&self.shared).args(flags);
        for policy in policies {
            command.args(["--policy", policy]);
        }
        let printed = cargo::output(&mut command)?;
        let all: Vec<Value> = serde_json::from_str(&printed).context("sim prints JSON")?;
        Ok(all.into_iter().map(Outcome).collect())
    }
}

impl Outcome {
    /// The value at a path, as `/request/p99`.
    pub(crate) fn number(&self, path: &str) -> Result<f64> {
        let found = self.0.pointer(path).and_then(Value::as_f64);
        found.with_context(|| format!("{} has no {path}", self.0["policy"]))
    }
}
