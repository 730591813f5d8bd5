//! `curtail model`: the closed forms and fits of `curtail-queueing`, for people and scripts.

mod bottleneck;
mod curve;
mod fan_out;
mod fit;
mod fluid;
mod log;
mod pick;
mod prediction;
mod queue;
mod rows;
mod service;
mod split;
mod values;
mod variability;

use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;

use crate::exit::Stop;
use crate::say;

/// Evaluate queueing models, which give answers instantly, without simulation.
///
/// Each figure is marked as exact (for its model), an approximation, or a bound. Times may have a
/// unit (5ms): rates are then per second, and results in milliseconds. Without units, all times and
/// rates refer to a time unit of your choice.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    subcommand_required = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  curtail model queue --service-time exp:5ms --utilization 0.8
  curtail model variability --service-time h2:5ms:2 --utilization 0.7
  curtail model unloaded --shards 50 --jitter bimodal:0.001:15
  curtail model fit service-times.txt
  curtail model log requests.txt --servers 4 --json

For everything else (policies, hedges, faults, percentiles of other services) use curtail sim."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    question: Question,
    /// Print one JSON document on stdout
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
}

#[derive(Subcommand)]
enum Question {
    Queue(queue::Args),
    Variability(variability::Args),
    Unloaded(fan_out::UnloadedArgs),
    ForkJoin(fan_out::ForkJoinArgs),
    Fit(fit::Args),
    Curve(curve::Args),
    Split(split::Args),
    Log(log::Args),
    Bottleneck(bottleneck::Args),
    Fluid(fluid::Args),
}

/// A model's result: serialized for programs, formatted for people.
trait ModelResult: Serialize {
    fn text(&self) -> String;
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let json = args.json;
    match &args.question {
        Question::Queue(args) => print_result(json, &queue::compute(args)?),
        Question::Variability(args) => print_result(json, &variability::compute(args)?),
        Question::Unloaded(args) => print_result(json, &fan_out::unloaded(args)?),
        Question::ForkJoin(args) => print_result(json, &fan_out::under_load(args)?),
        Question::Fit(args) => print_result(json, &fit::compute(args)?),
        Question::Curve(args) => print_result(json, &curve::compute(args)?),
        Question::Split(args) => print_result(json, &split::compute(args)?),
        Question::Log(args) => print_result(json, &log::compute(args)?),
        Question::Bottleneck(args) => print_result(json, &bottleneck::compute(args)?),
        Question::Fluid(args) => print_result(json, &fluid::compute(args)?),
    }
}

fn print_result(json: bool, result: &impl ModelResult) -> Result<ExitCode, Stop> {
    let text = || say::plain(result.text().trim_end());
    say::result(if json { crate::json(result)? } else { text() })?;
    Ok(ExitCode::SUCCESS)
}

/// Reports a model's error as bad input.
fn refused(error: impl std::fmt::Display) -> Stop {
    Stop::BadInput(error.to_string())
}
