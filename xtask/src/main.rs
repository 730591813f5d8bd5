//! Recipes of the repository: what a person runs is what continuous integration runs.
#![forbid(unsafe_code)]

mod accept;
mod cargo;
mod ci;
mod eval;
mod page;
mod process;
mod reprint;
mod soak;
mod test;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};

/// Recipes of the repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    recipe: Recipe,
}

#[derive(Clone, Subcommand)]
enum Recipe {
    /// Run all tests, documentation included; the last line counts them
    Test,
    /// Run every check that `.ci/run` runs, and sum them up
    Ci {
        /// Only these steps
        #[arg(long = "step", value_delimiter = ',', value_name = "NAME,…")]
        steps: Vec<String>,
        /// Set a variable of xtask/capabilities/ci.toml, as soak_minutes=10
        #[arg(long = "set", value_name = "NAME=VALUE", value_parser = accept::pair)]
        set: Vec<(String, String)>,
    },
    /// Check that the kernel has no clock, no sockets, no threads and no unordered maps
    Purity,
    /// Check the repository's own rules: sizes, leftovers, documents
    Tidy,
    /// Print how heavy the tree is: lines, files, words, and what the ratchets of tidy count
    Weight,
    /// Measure what things cost: lines of xtask/capabilities/bench.toml
    Bench {
        /// Which lines
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        options: accept::Options,
    },
    /// Run the experiments of the sources beside ours, and services beside their simulations
    Eval {
        #[command(subcommand)]
        what: eval::Eval,
    },
    /// Feed what parses bytes from outside with made-up input
    Fuzz {
        /// Cases per property
        #[arg(long, default_value_t = 100_000)]
        cases: u32,
    },
    /// Put the proxy under kills, pauses, black holes, slow URLs, poison requests and clients that do not
    /// read, and see that nothing is lost
    Soak(soak::Args),
    /// Run the commands of pages of measurements, and put what they print into the pages
    Reprint {
        /// Pages, as docs/chain.md
        #[arg(default_values = ["docs/chain.md", "docs/load.md", "docs/jitter.md"])]
        pages: Vec<String>,
    },
    /// Install the Python package into a fresh virtual environment, and run its tests
    Python,
    /// Print every line that a capability is done by, with its figure and verdict
    Accept {
        /// Which capability
        name: accept::Capability,
        /// Only these lines
        #[arg(long = "line", value_delimiter = ',', value_name = "N,…")]
        lines: Vec<String>,
        #[command(flatten)]
        options: accept::Options,
    },
}

fn main() -> ExitCode {
    let recipe = Args::parse().recipe;
    match repository().and_then(|root| run(recipe, root)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            // What was asked for could not be done at all: something is missing here.
            ExitCode::from(3)
        }
    }
}

/// Runs a recipe; false if it was done and its verdict is negative.
fn run(recipe: Recipe, root: &Path) -> Result<bool> {
    match recipe {
        Recipe::Test => test::run(root),
        Recipe::Ci { steps, set } => {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            ci::run(root, &steps, &set)
        }
        Recipe::Purity => ci::run(root, &["purity"], &[]),
        Recipe::Tidy => tidy::run(root),
        Recipe::Weight => tidy::weight::run(root),
        Recipe::Bench { names, options } => accept::run(root, "bench", &names, &options),
        Recipe::Eval { what } => eval::run(&what, root),
        Recipe::Accept { name, lines, options } => {
            accept::run(root, &name.file(), &lines, &options)
        }
        Recipe::Reprint { pages } => reprint::run(root, &pages),
        Recipe::Fuzz { cases } => {
            ci::run(root, &["fuzz"], &[("cases".to_owned(), cases.to_string())])
        }
        Recipe::Python => ci::run(root, &["python"], &[]),
        Recipe::Soak(args) => soak::run(root, &args),
    }
}

/// The root of the repository that this program was built in.
fn repository() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is not inside a repository")
}
