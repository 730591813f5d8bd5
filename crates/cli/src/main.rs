//! The `curtail` binary: argument types, and what people see. Everything else is in the crates.
//!
//! Exit codes: 0 done; 1 done, and the verdict is negative; 2 bad input; 3 the environment lacks
//! something; 130 interrupted.
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic; `say` does not

mod advise;
mod agent;
mod args;
mod child;
mod completions;
mod demo;
mod digits;
mod exit;
mod files;
mod graph;
mod jitter;
mod leaf;
mod load;
mod model;
mod profile;
mod progress;
mod proxy;
mod report;
mod root;
mod say;
mod signals;
mod sim;
mod stage;
mod sweep;
mod table;
mod usage;
mod verdict;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use curtail_plot as plot;
use exit::Stop;
use tokio::runtime::{Builder, Runtime};

/// Cut the tail latency of replicated services: measure, decide, act.
#[derive(Parser)]
#[command(
    name = "curtail",
    version,
    arg_required_else_help = true,
    after_help = "\
Exit codes, of every verb:
  0    done; also where the answer is no (advise), or a policy is unstable (sim, sweep)
  1    done, and the verdict is negative: a run of load that is invalid, a proxy that ended before
       all connections had, a profile that compares worse
  2    bad input; the message names the value and the fix
  3    the environment lacks something: a place to write, a port, memory, who reads stdout
  130  interrupted; what there was is written (servers end with 0: leaf, agent, proxy and stage,
       which drain first, and end with 1 where they had to cut connections)"
)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

// What they do is said where their arguments are: a comment here would hide all but its first line.
#[derive(Subcommand)]
enum Verb {
    Demo(demo::Args),
    Advise(advise::Args),
    Sim(sim::Args),
    Sweep(sweep::Args),
    Graph(graph::Args),
    Model(model::Args),
    Proxy(proxy::Args),
    Stage(stage::Args),
    Load(load::Args),
    Agent(agent::Args),
    Report(report::Args),
    Jitter(jitter::Args),
    Profile(profile::Args),
    Leaf(leaf::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Root(root::Args),
}

fn main() -> ExitCode {
    let args: Args = match usage::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(other) => return code(usage::print(&other)),
    };
    files::allow_many();
    let done = match args.verb {
        Verb::Proxy(args) => proxy::run(&args),
        Verb::Stage(args) => stage::run(&args),
        Verb::Load(args) => load::run(&args),
        Verb::Agent(args) => agent::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Jitter(args) => jitter::run(&args),
        Verb::Profile(args) => profile::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Advise(args) => advise::run(&args),
        Verb::Sim(args) => sim::run(&args),
        Verb::Sweep(args) => sweep::run(&args),
        Verb::Graph(args) => graph::run(&args),
        Verb::Model(args) => model::run(&args),
        Verb::Leaf(args) => leaf::run(&args),
        Verb::Completions(args) => completions::run(&args),
        Verb::Root(args) => root::run(&args),
    };
    code(done)
}

/// Says what went wrong, and turns it into an exit code.
fn code(done: Result<ExitCode, Stop>) -> ExitCode {
    let (code, said) = match done {
        Ok(code) => return code,
        Err(Stop::BadInput(why)) => (2, format!("error: {why}")),
        Err(Stop::BadConfig(why)) => (2, format!("error: this configuration is refused:\n{why}")),
        Err(Stop::Lacking(why)) => (3, format!("error: {why}")),
        Err(Stop::Unread) => return ExitCode::from(3),
        Err(Stop::Interrupted(when)) => (130, format!("interrupted {when}")),
    };
    say::aside(said);
    ExitCode::from(code)
}

/// A runtime on all cores.
fn runtime() -> Result<Runtime, Stop> {
    let building = Builder::new_multi_thread().enable_all().build();
    building.map_err(|error| Stop::Lacking(format!("no runtime: {error}")))
}

/// A runtime on all cores but these, which threads that send are to have.
fn runtime_off(processors: &curtail_jitter::machine::Processors) -> Result<Runtime, Stop> {
    processors.reserve().map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => {
            Stop::BadInput(format!("--processors: {error}; choose among those"))
        }
        _ => Stop::Lacking(format!("the system binds no thread to a processor: {error}")),
    })?;
    runtime()
}

/// Runs one of many processes on a machine.
fn run_small(work: impl Future<Output = Result<ExitCode, Stop>>) -> Result<ExitCode, Stop> {
    let building = Builder::new_current_thread().enable_all().build();
    let runtime = building.map_err(|error| Stop::Lacking(format!("no runtime: {error}")))?;
    let done = runtime.block_on(work);
    // A thread of it may be reading a stdin that never ends.
    runtime.shutdown_background();
    done
}

/// A value as people and programs can read it.
fn json(value: &impl serde::Serialize) -> Result<String, Stop> {
    serde_json::to_string_pretty(value)
        .map_err(|error| Stop::Lacking(format!("cannot write JSON: {error}")))
}
