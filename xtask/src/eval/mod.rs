//! `cargo xtask eval …`: experiments with published figures beside ours.

pub(crate) mod papers;
mod sim;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

/// What to evaluate.
#[derive(Clone, Subcommand)]
pub(crate) enum Eval {
    /// Claims, figures and tables of documents 000 and 001, by simulation
    Papers(papers::Args),
}

/// Evaluates; false if a published figure is not met.
pub(crate) fn run(eval: &Eval, root: &Path) -> Result<bool> {
    match eval {
        Eval::Papers(args) => papers::run(root, args),
    }
}
