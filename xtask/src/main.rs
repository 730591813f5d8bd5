//! The repository's recipes, which are the same for developers and for continuous integration.
#![forbid(unsafe_code)]

mod ci;
mod reprint;
mod soak;
mod test;
mod tidy;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

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
        #[command(flatten)]
        settings: ci::Settings,
    },
    /// Check that the kernel has no clock, no sockets, no threads and no unordered maps
    Purity,
    /// Check the repository's own rules: sizes, leftovers, documents
    Tidy,
    /// Print the size of the tree (lines, files, words) and the counts that tidy limits
    Weight,
    /// Run benchmarks: `bench --list` lists them
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Compare published experiments with ours, and compare real services with their simulations
    #[command(disable_help_flag = true)]
    Eval {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
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
    #[command(disable_help_flag = true)]
    Accept {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
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
        Recipe::Ci { steps, settings } => {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            ci::run(root, &steps, &settings)
        }
        Recipe::Purity => ci::run(root, &["purity"], &ci::Settings::default()),
        Recipe::Tidy => tidy::run(root),
        Recipe::Weight => tidy::weight::run(root),
        Recipe::Bench { args } => lab(root, "bench", &args),
        Recipe::Eval { args } => lab(root, "eval", &args),
        Recipe::Accept { args } => lab(root, "accept", &args),
        Recipe::Reprint { pages } => reprint::run(root, &pages),
        Recipe::Fuzz { cases } => {
            let settings = ci::Settings { cases: cases.to_string(), ..ci::Settings::default() };
            ci::run(root, &["fuzz"], &settings)
        }
        Recipe::Package => ci::run(root, &["package"], &ci::Settings::default()),
        Recipe::Python => ci::run(root, &["python"], &ci::Settings::default()),
        Recipe::Soak(args) => soak::run(root, &args),
    }
}

/// Runs the program of the lab that judges capabilities. Exits with its code.
fn lab(root: &Path, command: &str, args: &[OsString]) -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut run = Command::new(cargo);
    // `CURTAIL_BINARY` names the binary that lines use.
    xtask::cargo::forget(&mut run, |name| {
        name.starts_with("CARGO_") && xtask::cargo::is_of_this_program(name)
    });
    run.args(["run", "--quiet", "--manifest-path", "lab/Cargo.toml", "-p", "accept"]);
    let status = run.arg("--").arg(command).args(args).current_dir(root).status()?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        code => std::process::exit(code.unwrap_or(1)),
    }
}

/// Returns the root of the repository in which this program was built.
fn repository() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is not inside a repository")
}
