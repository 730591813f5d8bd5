//! `cargo xtask eval …`: published figures beside ours, and simulated ones beside measured ones.

mod rivals;
mod search;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

use crate::accept::{self, Options};

/// What to evaluate.
#[derive(Clone, Subcommand)]
pub(crate) enum Eval {
    /// Claims, figures and tables of documents 000, 001 and 002, by simulation
    Papers {
        /// Which lines of xtask/capabilities/papers.toml; `measuring` is 000 Chapter 3, a network function
        /// by four methods and under four configurations: 15 minutes, as root
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
    /// 002 Chapter 4 on five real Cassandra nodes: C3 beside the driver and the snitch; needs JDK 17, Maven, root
    Cassandra {
        /// Which lines of xtask/capabilities/cassandra.toml
        #[arg(default_value = "disturbed")]
        names: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Envoy, failsafe-go and hedgedhttp live beside our policies, from cold starts; needs Go and PyPI. 40 minutes
    Rivals(rivals::Args),
    /// The search service of the demo, measured beside the simulator
    Search(search::Args),
}

/// Evaluates; false if figures that should agree do not.
pub(crate) fn run(eval: &Eval, root: &Path) -> Result<bool> {
    match eval {
        Eval::Papers { names, options } => accept::run(root, "papers", names, options),
        Eval::Rescue { names, options } => accept::run(root, "worlds", names, options),
        Eval::Cassandra { names, options } => accept::run(root, "cassandra", names, options),
        Eval::Rivals(args) => rivals::run(root, args),
        Eval::Search(args) => search::run(root, args),
    }
}
