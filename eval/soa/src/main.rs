//! Experiments of document 002, chapter 5, that a file for `curtail graph` cannot express.
//!
//! - `hotrod`: services in Go behind sidecars, live;
//! - `layers`: the cost per hop of the `curtail-flow` layers;
//! - `live`: the same files as real processes, over gRPC;
//! - `traces`: the HotROD services, which `curtail profile` ranks by their share of the variance;
//! - `settle`: how fast the rates settle after a step in capacity or demand, depending on the depth
//!   and width of the graph.

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
    /// Measure the cost of the flow-control layers per hop
    Layers(layers::Args),
    /// Run a graph as real processes, over gRPC
    Live(live::Args),
    /// Run HotROD behind sidecars, with three tenants and a fourth that floods the services
    Hotrod(hotrod::Args),
    /// Rank HotROD's services by their share of the variance in traces, both unmodified and after
    /// another service was made to vary
    Traces(traces::Args),
    /// Measure how fast rates settle after a step
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
