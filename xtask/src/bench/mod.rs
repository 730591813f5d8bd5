//! `cargo xtask bench …`: what things cost. Nothing here is a test.

pub(crate) mod kernel;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

/// What to measure.
#[derive(Clone, Copy, Subcommand)]
pub(crate) enum Bench {
    /// Instructions and nanoseconds per query in the kernel
    Kernel,
}

/// Measures; false if a bound is not met.
pub(crate) fn run(bench: Bench, root: &Path) -> Result<bool> {
    match bench {
        Bench::Kernel => kernel::run(root),
    }
}
