//! `cargo xtask eval …`: published figures beside ours, and simulated ones beside measured ones.

pub(crate) mod papers;
pub(crate) mod rescue;
pub(crate) mod search;
pub(crate) mod sim;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

/// What to evaluate.
#[derive(Clone, Subcommand)]
pub(crate) enum Eval {
    /// Claims, figures and tables of documents 000 and 001, by simulation
    Papers(papers::Args),
    /// Our own policy in hundreds of worlds: never worse than per-shard queuing? Half an hour
    Rescue(rescue::Args),
    /// The search service of the demo, measured beside the simulator
    Search(search::Args),
}

/// Evaluates; false if figures that should agree do not.
pub(crate) fn run(eval: &Eval, root: &Path) -> Result<bool> {
    match eval {
        Eval::Papers(args) => papers::run(root, args),
        Eval::Rescue(args) => rescue::run(root, args),
        Eval::Search(args) => search::run(root, args),
    }
}
