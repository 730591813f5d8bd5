//! The `curtail` binary: argument types, and what people see. Everything else is in the crates.
//!
//! Exit codes: 0 done; 1 done, and the verdict is negative; 2 bad input; 3 the environment lacks
//! something; 130 interrupted.

mod child;
mod demo;
mod exit;
mod leaf;
mod load;
mod progress;
mod proxy;
mod root;
mod signals;
mod soak;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use exit::Stop;

/// Cut the tail latency of replicated services: measure, decide, act.
#[derive(Parser)]
#[command(name = "curtail", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Watch a real search service lose its tail, policy by policy
    Demo(demo::Args),
    /// Put a proxy in front of a replicated service
    Proxy(proxy::Args),
    /// Send requests at a fixed rate and report honest latencies
    Load(load::Args),
    #[command(hide = true)]
    Leaf(leaf::Args),
    #[command(hide = true)]
    Root(root::Args),
    #[command(hide = true)]
    Soak(soak::Args),
}

fn main() -> ExitCode {
    // Clap exits with 2 on bad usage, as we do on bad input.
    let done = match Args::parse().verb {
        Verb::Proxy(args) => proxy::run(&args),
        Verb::Load(args) => load::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Leaf(args) => leaf::run(&args),
        Verb::Root(args) => root::run(&args),
        Verb::Soak(args) => soak::run(&args),
    };
    exit::code(done)
}

/// A runtime on all cores.
fn runtime() -> Result<tokio::runtime::Runtime, Stop> {
    let building = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    building.map_err(|error| Stop::Lacking(format!("no runtime: {error}")))
}

/// A runtime for one of many processes on a machine.
fn small_runtime() -> Result<tokio::runtime::Runtime, Stop> {
    let building = tokio::runtime::Builder::new_current_thread().enable_all().build();
    building.map_err(|error| Stop::Lacking(format!("no runtime: {error}")))
}

/// A value as people and programs can read it.
fn json(value: &impl serde::Serialize) -> Result<String, Stop> {
    serde_json::to_string_pretty(value)
        .map_err(|error| Stop::Lacking(format!("cannot write JSON: {error}")))
}
