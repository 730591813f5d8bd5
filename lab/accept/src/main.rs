//! Runs and judges the lines that define a capability, the benchmarks, and the comparisons with
//! papers and with real services. `cargo xtask accept`, `bench` and `eval` run this program.
//!
//! A line is judged only by what it runs at that moment; no earlier results are used. Lines take
//! minutes, and some need an otherwise idle machine. To add a line, write a function that takes a
//! [`Lab`](lab::Lab), and list it in the constant `LINES` of its file.

mod bench;
mod c3;
mod cassandra;
mod das;
mod decide;
mod envoy;
mod figures;
mod flow;
mod install;
mod lab;
mod library;
mod line;
mod main_proxy;
mod measure;
mod papers;
mod profile;
mod proxies;
mod rescue;
mod rivals;
mod search;
mod simulation;
mod verdict;
mod wire;
mod worlds;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand, ValueEnum};
use line::{Line, Options};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Args {
    /// Run and judge the lines that define a capability, and print each with its figure and verdict
    Accept {
        /// Capability to judge
        name: Capability,
        /// Run only these lines
        #[arg(long = "line", value_delimiter = ',', value_name = "N,…")]
        lines: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Run benchmarks, which measure costs and judge them where a bound is known
    Bench {
        /// Lines to run
        #[arg(required_unless_present = "list")]
        names: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Compare published experiments with ours, and compare real services with their simulations
    Eval {
        #[command(subcommand)]
        what: Eval,
    },
}

/// The capabilities that can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Capability {
    /// LÆDGE in front of a real sharded search service, in one command
    Main,
    /// The simulator, the models and the advisor
    Decide,
    /// Our own policy: second copies for stuck queries
    Rescue,
    /// The load generator and IQ-jitter
    Measure,
    /// Duplicates that cannot hurt
    Das,
    /// End-to-end flow control in graphs of services (002, chapter 5)
    Flow,
    /// The profiler that finds which stage of a request varies in its duration (004, part 2);
    /// requires root privileges
    Profile,
    /// HTTP/2, gRPC and TLS: conformance suites, costs and request smuggling
    Wire,
    /// The library over any tower services, and policies of one's own
    Library,
    /// Curtail inside Envoy, as a dynamic module
    Envoy,
}

/// The comparisons.
#[derive(Clone, Subcommand)]
enum Eval {
    /// Run 002 Chapter 4 on five real Cassandra nodes: C3 compared with the driver and the snitch;
    /// requires JDK 17, Maven and root privileges
    Cassandra {
        /// Lines of lab/accept/src/cassandra.rs
        #[arg(default_value = "disturbed")]
        names: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Reproduce claims, figures and tables of documents 000, 001 and 002 by simulation
    Papers {
        /// Lines of lab/accept/src/papers. `measuring` is 000 Chapter 3, in which a network function
        /// is measured by four methods under four configurations. It takes 15 minutes and requires
        /// root privileges
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Run our own policy in hundreds of worlds: is it ever worse than per-shard queuing? Half an
    /// hour
    Rescue {
        /// Lines of lab/accept/src/worlds.rs
        #[arg(default_value = "study")]
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

/// Files of lines by name.
const FILES: &[(&str, &[Line])] = &[
    ("main", main_proxy::LINES),
    ("decide", decide::LINES),
    ("rescue", rescue::LINES),
    ("papers", papers::LINES),
    ("worlds", worlds::LINES),
    ("cassandra", &cassandra::LINES),
    ("das", &das::LINES),
    ("flow", &flow::LINES),
    ("measure", measure::LINES),
    ("profile", profile::LINES),
    ("wire", wire::LINES),
    ("library", library::LINES),
    ("envoy", envoy::LINES),
    ("bench", bench::LINES),
];

fn main() -> ExitCode {
    let args = Args::parse();
    match repository().and_then(|root| run(args, root)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Returns false if the run completed with a negative verdict.
fn run(args: Args, root: &Path) -> Result<bool> {
    let lines = |file: &str, names: &[String], options: &Options| {
        let found = FILES.iter().find(|(name, _)| *name == file);
        let (_, lines) = found.with_context(|| format!("no lines of {file}"))?;
        line::run(root, file, lines, names, options)
    };
    match args {
        Args::Accept { name, lines: names, options } => {
            lines(&format!("{name:?}").to_lowercase(), &names, &options)
        }
        Args::Bench { names, options } => lines("bench", &names, &options),
        Args::Eval { what } => match what {
            Eval::Cassandra { names, options } => lines("cassandra", &names, &options),
            Eval::Papers { names, options } => lines("papers", &names, &options),
            Eval::Rescue { names, options } => lines("worlds", &names, &options),
            Eval::Rivals(args) => rivals::run(root, &args),
            Eval::Search(args) => search::run(root, &args),
        },
    }
}

/// Returns the root of the repository in which this program was built.
fn repository() -> Result<&'static Path> {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    lab.and_then(Path::parent).context("the lab is not inside a repository")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_takes_at_most_half_an_hour_and_quick_five_minutes() {
        for name in ["main", "decide", "rescue", "measure"] {
            let Some((_, lines)) = FILES.iter().find(|(file, _)| *file == name) else { continue };
            let [whole, quick] = line::plan(lines);
            assert!(whole <= 1_800 && quick <= 300, "{name}: {whole} s, {quick} s");
        }
    }
}
