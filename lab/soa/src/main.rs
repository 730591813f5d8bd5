//! Experiments of document 002, chapter 5, that a file for `curtail graph` cannot express.
//!
//! - `hotrod`: services in Go behind sidecars, live;
//! - `layers`: the cost per hop of the `curtail-flow` layers;
//! - `live`: the same files as real processes, over gRPC;
//! - `traces`: the HotROD services, which `curtail profile` ranks by their share of the variance;
//! - `settle`: how fast the rates settle after a step in capacity or demand, depending on the depth
//!   and width of the graph.

mod hotrod;
mod layers;
mod live;
mod settle;
mod traces;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde::Serialize;

#[derive(Parser)]
#[command(about = "Graphs of services: experiments of document 002, chapter 5")]
struct Args {
    #[command(subcommand)]
    what: What,
    /// Print the JSON document on one line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Measure the cost of the flow-control layers per hop
    Layers,
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

fn main() -> Result<ExitCode> {
    let Args { what, json } = Args::parse();
    match run(what, json) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::from(1)),
        Err(error) if error.is::<hotrod::Lacking>() => {
            eprintln!("{error}");
            Ok(ExitCode::from(3))
        }
        Err(error) => Err(error),
    }
}

/// Runs an experiment and prints its result. Returns whether the result is valid.
fn run(what: What, json: bool) -> Result<bool> {
    match what {
        What::Layers => print(&layers::run()?, json)?,
        What::Hotrod(args) => print(&hotrod::run(&args)?, json)?,
        What::Traces(args) => print(&traces::run(&args)?, json)?,
        What::Settle(args) => print(&settle::run(&args)?, json)?,
        What::Live(args) => {
            let outcomes = live::run(&args)?;
            print(&outcomes, json)?;
            if outcomes.iter().any(|of| !of.valid) {
                eprintln!("not valid: the machine was too busy, or calls failed");
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn print(result: &impl Serialize, json: bool) -> Result<()> {
    let text = match json {
        true => serde_json::to_string(result),
        false => serde_json::to_string_pretty(result),
    };
    println!("{}", text?);
    Ok(())
}
