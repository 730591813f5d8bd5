//! Document 002, chapter 5: what a file for `curtail graph` cannot say.
//!
//! - `settle`: how fast the rates settle after a step in capacity or demand, by the depth and width of the graph.

mod settle;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Graphs of services: experiments of document 002, chapter 5")]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// How fast rates settle after a step
    Settle(settle::Args),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().what {
        What::Settle(args) => settle::run(&args),
    }
}
