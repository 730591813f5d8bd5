//! Document 002, chapter 5: what a file for `curtail graph` cannot say.
//!
//! - `hotrod`: services in Go behind sidecars, live;
//! - `layers`: what the layers of `curtail-flow` cost per hop;
//! - `live`: the same files as real processes, over gRPC;
//! - `traces`: which of the same services owns the variance, found by `curtail profile`;
//! - `settle`: how fast the rates settle after a step in capacity or demand, by the depth and width of the graph.

mod child;
mod hotrod;
mod layers;
mod live;
mod settle;
mod traces;

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
    /// What the layers cost per hop
    Layers(layers::Args),
    /// A graph as real processes, over gRPC
    Live(live::Args),
    /// HotROD behind sidecars: three tenants beside one that floods
    Hotrod(hotrod::Args),
    /// HotROD's traces: which service owns the variance, and after another one was made to vary
    Traces(traces::Args),
    /// How fast rates settle after a step
    Settle(settle::Args),
}

fn main() -> anyhow::Result<ExitCode> {
    let done = match Args::parse().what {
        What::Layers(args) => layers::run(&args),
        What::Live(args) => live::run(&args),
        What::Hotrod(args) => hotrod::run(&args),
        What::Traces(args) => traces::run(&args),
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
