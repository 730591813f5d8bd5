//! Document 003 on real systems: duplicates that cannot hurt, with a disk, a network or a processor
//! as the bottleneck.
//!
//! Each verb creates its test environment in network namespaces and control groups of this machine,
//! measures, prints the results, and leaves nothing behind. `cargo xtask accept das` runs the verbs
//! and judges their output.

mod common;
mod dpnet;
mod environment;
mod hdfs;
mod ids;
mod knee;
mod price;
mod turns;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// DAS on real systems: HDFS, a data-parallel network, an intrusion detection system, and a
/// throttler.
#[derive(Parser)]
#[command(name = "curtail-das")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Read from HDFS with slow disks (Figures 1, 6 and 7)
    Hdfs(hdfs::Args),
    /// Request flows from nine servers with slow links (Figure 8)
    Net(dpnet::Args),
    /// Measure the cost of prioritization for primaries, on a link and at a disk (Figure 10)
    Price(price::Args),
    /// Send packets through two Suricata nodes, each with a duplicate instance (Figure 9)
    Ids(ids::Args),
    /// Test whether the throttler finds and follows the knee of three servers
    Knee(knee::Args),
}

fn main() -> ExitCode {
    let done = match Args::parse().verb {
        Verb::Hdfs(args) => hdfs::run(&args),
        Verb::Net(args) => dpnet::run(&args),
        Verb::Price(args) => price::run(&args),
        Verb::Ids(args) => ids::run(&args),
        Verb::Knee(args) => knee::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}
