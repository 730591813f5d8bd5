//! `cargo xtask eval …`: published figures beside ours, and simulated ones beside measured ones.

mod search;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use clap::Subcommand;

use crate::accept::{self, Options};
use crate::cargo;

/// What to evaluate.
#[derive(Clone, Subcommand)]
pub(crate) enum Eval {
    /// Claims, figures and tables of documents 000 and 001, by simulation
    Papers {
        /// Which lines of xtask/capabilities/papers.toml; or `measuring`: 000 Chapter 3, a network
        /// function by four methods and under four configurations; 15 minutes, as root
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Our own policy in hundreds of worlds: never worse than per-shard queuing? Half an hour
    Rescue {
        /// Which lines of xtask/capabilities/worlds.toml
        #[arg(default_value = "study")]
        names: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// The search service of the demo, measured beside the simulator
    Search(search::Args),
}

/// Evaluates; false if figures that should agree do not.
pub(crate) fn run(eval: &Eval, root: &Path) -> Result<bool> {
    match eval {
        Eval::Papers { names, options } if names == &["measuring"] => measuring(root, options),
        Eval::Papers { names, options } => accept::run(root, "papers", names, options),
        Eval::Rescue { names, options } => accept::run(root, "worlds", names, options),
        Eval::Search(args) => search::run(root, args),
    }
}

/// Chapter 3 of document 000: a program of its own. It measures, so it takes the place of this one: nothing
/// waits beside it, and its exit code is ours.
fn measuring(root: &Path, options: &Options) -> Result<bool> {
    let package = ["build", "--quiet", "--release", "--locked", "-p", "curtail-measuring"];
    ensure!(
        cargo::succeeds(&mut cargo::command(root, &package))?,
        "curtail-measuring does not build"
    );
    let folder = if options.quick { "measuring-smoke" } else { "measuring" };
    let mut command = Command::new(cargo::target_folder(root)?.join("release/curtail-measuring"));
    command.arg("--out").arg(root.join("out/papers").join(folder));
    command.args(options.quick.then_some("--smoke")).args(options.json.then_some("--json"));
    bail!("cannot run {command:?}: {}", command.exec())
}
