//! `cargo xtask eval …`: compares published figures with figures of this project, and simulated
//! figures with measured ones.

mod rivals;
mod search;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

use crate::accept::{self, Options};

/// The evaluations.
#[derive(Clone, Subcommand)]
pub(crate) enum Eval {
    /// Reproduce claims, figures and tables of documents 000, 001 and 002 by simulation
    Papers {
        /// Lines of xtask/capabilities/papers.toml. `measuring` is 000 Chapter 3, in which a
        /// network function is measured by four methods under four configurations. It takes 15
        /// minutes and requires root privileges
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Run our own policy in hundreds of worlds: is it ever worse than per-shard queuing? Half an
    /// hour
    Rescue {
        /// Lines of xtask/capabilities/worlds.toml
        #[arg(default_value = "study")]
        names: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Run 002 Chapter 4 on five real Cassandra nodes: C3 compared with the driver and the snitch;
    /// requires JDK 17, Maven and root privileges
    Cassandra {
        /// Lines of xtask/capabilities/cassandra.toml
        #[arg(default_value = "disturbed")]
        names: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Run Envoy, failsafe-go and hedgedhttp live alongside our policies, from cold starts.
    /// Requires Go and PyPI, and takes 40 minutes
    Rivals(rivals::Args),
    /// Measure the demo's search service and compare it with the simulator
    Search(search::Args),
}

/// Runs an evaluation. Returns false if figures that should agree do not.
pub(crate) fn run(eval: &Eval, root: &Path) -> Result<bool> {
    match eval {
        Eval::Papers { names, options } => accept::run(root, "papers", names, options),
        Eval::Rescue { names, options } => accept::run(root, "worlds", names, options),
        Eval::Cassandra { names, options } => accept::run(root, "cassandra", names, options),
        Eval::Rivals(args) => rivals::run(root, args),
        Eval::Search(args) => search::run(root, args),
    }
}
