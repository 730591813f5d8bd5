//! The `curtail` binary: argument types, and the output that people see. Everything else is in the
//! library crates.
//!
//! Exit codes: 0 done; 1 done, and the verdict is negative; 2 bad input; 3 the environment lacks
//! something; 130 interrupted.
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic; `say` does not

mod advise;
mod agent;
mod args;
mod child;
mod demo;
mod envoy;
mod exit;
mod files;
mod graph;
mod jitter;
mod leaf;
mod load;
mod model;
mod out;
#[cfg(test)]
mod page_check;
mod profile;
mod proxy;
mod report;
mod root;
mod run;
mod say;
mod sim;
mod stage;
mod sweep;
mod usage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use exit::Stop;
use mimalloc::MiMalloc;

/// The messages of many streams arrive together, and the system's allocator keeps only a few blocks of each size at
/// hand. Huge pages are off: with them, line 7 of `cargo xtask accept wire` exceeds its bound for memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Cut the tail latency of replicated services: measure, decide, act.
#[derive(Parser)]
#[command(
    name = "curtail",
    version,
    arg_required_else_help = true,
    after_help = "\
Exit codes of all verbs:
  0    done; also if the verdict is no (advise), or a policy is unstable (sim, sweep)
  1    done, and the verdict is negative: an invalid run (load), a missed rate (jitter), a profile
       that compares worse (profile), connections that were cut at the end of a drain (proxy, stage)
  2    bad input; the message names the value and the fix
  3    the environment lacks something: a place to write, a port, memory, a reader of stdout
  130  interrupted; results up to then are written (servers end with 0: leaf, agent, proxy, stage)"
)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

// The doc comment of each verb's `Args` is its help text. Do not add doc comments here: they would
// take precedence over that text.
#[derive(Subcommand)]
enum Verb {
    Demo(demo::Args),
    Advise(advise::Args),
    Sim(sim::Args),
    Sweep(sweep::Args),
    Graph(graph::Args),
    Model(model::Args),
    Proxy(proxy::Args),
    Envoy(envoy::Args),
    Stage(stage::Args),
    Load(load::Args),
    Agent(agent::Args),
    Report(report::Args),
    Jitter(jitter::Args),
    Profile(profile::Args),
    Leaf(leaf::Args),
    Completions(usage::CompletionsArgs),
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
        Verb::Envoy(args) => envoy::run(&args),
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
        Verb::Completions(args) => usage::completions::<Args>(&args),
        Verb::Root(args) => root::run(&args),
    };
    code(done)
}

/// Prints an error and returns its exit code.
fn code(done: Result<ExitCode, Stop>) -> ExitCode {
    let (code, message) = match done {
        Ok(code) => return code,
        Err(Stop::BadInput(why)) => (2, format!("error: {why}")),
        Err(Stop::BadConfig(why)) => (2, format!("error: the configuration is invalid:\n{why}")),
        Err(Stop::Lacking(why)) => (3, format!("error: {why}")),
        Err(Stop::Unread) => return ExitCode::from(3),
        Err(Stop::Interrupted(when)) => (130, format!("interrupted {when}")),
    };
    say::aside(message);
    ExitCode::from(code)
}
