//! Document 003 on real systems: duplicates that cannot hurt, where a disk, a network or a processor is the bottleneck.
//!
//! Each verb sets up what it measures in network namespaces and control groups of this machine, measures, prints, and
//! leaves nothing behind. `cargo xtask accept das` runs them and judges what they print.

mod dpnet;
mod hdfs;
mod ids;
mod knee;
mod place;
mod price;
mod turns;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// DAS on real systems: HDFS, a data-parallel network, an intrusion detection system, a throttler.
#[derive(Parser)]
#[command(name = "curtail-das")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Reads from HDFS whose disks are slow (Figures 1, 6 and 7)
    Hdfs(hdfs::Args),
    /// Flows from nine servers whose links are slow (Figure 8)
    Net(dpnet::Args),
    /// What prioritization costs primaries, on a link and at a disk (Figure 10)
    Price(price::Args),
    /// Packets through two nodes of Suricata, each with a duplicate instance (Figure 9)
    Ids(ids::Args),
    /// The throttler before three servers: the knee, found and followed
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
