//! The repository's recipes, which are the same for developers and for continuous integration.
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
    /// Run all tests, including those in documentation. The last line counts them
    Test,
    /// Run every check that `.ci/run` runs, and print a summary
    Ci {
        /// Run only these steps
        #[arg(long = "step", value_delimiter = ',', value_name = "NAME,…")]
        steps: Vec<String>,
        /// Set a variable of xtask/capabilities/ci.toml, such as soak_minutes=10
        #[arg(long = "set", value_name = "NAME=VALUE", value_parser = accept::pair)]
        set: Vec<(String, String)>,
    },
    /// Check that the kernel has no clock, no sockets, no threads and no unordered maps
    Purity,
    /// Check the repository's own rules: sizes, leftovers, documents
    Tidy,
    /// Print the size of the tree (lines, files, words) and the counts that tidy limits
    Weight,
    /// Run the benchmarks of xtask/capabilities/bench.toml
    Bench {
        /// Lines to run
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        options: accept::Options,
    },
    /// Compare published experiments with ours, and compare real services with their simulations
    Eval {
        #[command(subcommand)]
        what: eval::Eval,
    },
    /// Run the property tests of everything that parses bytes from outside
    Fuzz {
        /// Cases per property
        #[arg(long, default_value_t = 100_000)]
        cases: u32,
    },
    /// Run the proxy under kills, pauses, black holes, slow URLs, poison requests and clients that
    /// do not read, and check that nothing is lost
    Soak(soak::Args),
    /// Run the commands on pages that contain measurements, and put their output into the pages
    Reprint {
        /// Pages, such as docs/chain.md
        #[arg(default_values = ["docs/chain.md", "docs/load.md", "docs/jitter.md"])]
        pages: Vec<String>,
    },
    /// Build the binary for packages, optimized for what a proxy under load executes. Takes half an hour
    Package,
    /// Install the Python package into a fresh virtual environment, and run its tests
    Python,
    /// Run and judge the lines that define a capability, and print each with its figure and verdict
    Accept {
        /// Capability to judge
        name: accept::Capability,
        /// Run only these lines
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
            // The recipe could not run at all, because a requirement is missing on this machine.
            ExitCode::from(3)
        }
    }
}

/// Runs a recipe. Returns false if the recipe completed with a negative verdict.
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
        Recipe::Package => ci::run(root, &["package"], &[]),
        Recipe::Python => ci::run(root, &["python"], &[]),
        Recipe::Soak(args) => soak::run(root, &args),
    }
}

/// Returns the root of the repository in which this program was built.
fn repository() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is not inside a repository")
}
