//! Document 002, chapter 5: what a file for `curtail graph` cannot say.
//!
//! - `hotrod`: services in Go behind sidecars, live.
//! - `settle`: how fast the rates settle after a step in capacity or demand, by the depth and width of the graph.

mod hotrod;
mod settle;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Graphs of services: experiments of document 002, chapter 5")]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// HotROD behind sidecars: three tenants beside one that floods
    Hotrod(hotrod::Args),
    /// How fast rates settle after a step
    Settle(settle::Args),
}

fn main() -> anyhow::Result<ExitCode> {
    let done = match Args::parse().what {
        What::Hotrod(args) => hotrod::run(&args),
        What::Settle(args) => settle::run(&args),
    };
    match done {
        Err(error) if error.is::<hotrod::Lacking>() => {
            eprintln!("{error}");
            Ok(ExitCode::from(3))
        }
        done => done.map(|()| ExitCode::SUCCESS),
    }
}
