//! Repeats chapter 4 of document 002 on real Cassandra: five nodes run on this machine, and clients
//! choose replicas by C3 or by the driver's own policy, or leave the choice to Cassandra's dynamic
//! snitch.
//!
//! `cargo xtask accept cassandra` runs it and judges its output. `nodes` runs the cluster and `run`
//! measures: contenders take turns on the same nodes and are compared round by round.
//!
//! Deviations from the source: there are five nodes on one machine instead of 15. Latencies are
//! open-loop and free of coordinated omission, whereas YCSB's are closed-loop (throughput is
//! closed-loop here, too). C3 runs in the clients, whereas in the source it runs in the
//! coordinators. Cassandra does not send queue lengths to clients, so C3 ranks servers by what the
//! clients measure.

mod client;
mod disturb;
mod nodes;
mod rounds;
mod servers;
mod workload;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

/// Replica selection on real Cassandra.
#[derive(Parser)]
#[command(name = "curtail-cassandra")]
struct Args {
    /// Folder for the nodes, which need 4 GB for a million records
    #[arg(long, value_name = "DIR", global = true, default_value = "out/cassandra/nodes")]
    dir: PathBuf,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Start five nodes, fill them if they are empty, and stop them when stdin ends. They yield the
    /// processor to `run` if both are started from the same shell
    Nodes(nodes::Args),
    /// Measure the contenders in turn, and print the results
    Run(rounds::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = || -> Result<()> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let dir = std::path::absolute(&args.dir)?;
        match &args.verb {
            Verb::Nodes(of) => hold(of, &dir, &runtime),
            Verb::Run(of) => rounds::run(of, &dir, &runtime),
        }
    };
    match done() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Runs the nodes until stdin ends.
fn hold(args: &nodes::Args, dir: &Path, runtime: &Runtime) -> Result<()> {
    let _nodes = nodes::start(dir)?;
    runtime.block_on(nodes::fill(dir, args.records))?;
    let addresses: Vec<String> = (0..nodes::NODES).map(nodes::address).collect();
    println!("listening on {}", addresses.join(" "));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
