//! `cargo xtask bench …`: what things cost. Nothing here is a test.

pub(crate) mod kernel;
pub(crate) mod proxy;
pub(crate) mod sim;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

/// What to measure.
#[derive(Clone, Subcommand)]
pub(crate) enum Bench {
    /// Instructions and nanoseconds per query in the kernel
    Kernel,
    /// The p99 and the CPU time of the proxy beside those of others, on the same leaves
    Proxy(proxy::Args),
    /// Queries per second in the simulator, beside the practical limit
    Sim,
}

/// Measures; false if a bound is not met.
pub(crate) fn run(bench: Bench, root: &Path) -> Result<bool> {
    match bench {
        Bench::Kernel => kernel::run(root),
        Bench::Proxy(args) => proxy::run(root, args),
        Bench::Sim => sim::run(root),
    }
}
