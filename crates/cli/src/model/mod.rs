//! `curtail model`: the closed forms and fits of `curtail-queueing`, for people and scripts.

mod capacity;
mod fan_out;
mod input;
mod measured;
mod prediction;
mod station;
mod variability;

use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;

use crate::args::Json;
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
    mut_arg("json", |arg| arg.global(true)),
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
    #[command(flatten)]
    output: Json,
}

#[derive(Subcommand)]
enum Question {
    Queue(station::QueueArgs),
    Variability(variability::Args),
    Unloaded(fan_out::UnloadedArgs),
    ForkJoin(fan_out::ForkJoinArgs),
    Fit(measured::FitArgs),
    Curve(measured::CurveArgs),
    Split(capacity::SplitArgs),
    Log(measured::LogArgs),
    Bottleneck(capacity::BottleneckArgs),
    Fluid(capacity::FluidArgs),
}

/// A model's result: serialized for programs, formatted for people.
trait ModelResult: Serialize {
    fn text(&self) -> String;
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let json = &args.output;
    match &args.question {
        Question::Queue(args) => print_result(json, &station::queue(args)?),
        Question::Variability(args) => print_result(json, &variability::compute(args)?),
        Question::Unloaded(args) => print_result(json, &fan_out::unloaded(args)?),
        Question::ForkJoin(args) => print_result(json, &fan_out::under_load(args)?),
        Question::Fit(args) => print_result(json, &measured::fit(args)?),
        Question::Curve(args) => print_result(json, &measured::curve(args)?),
        Question::Split(args) => print_result(json, &capacity::split(args)?),
        Question::Log(args) => print_result(json, &measured::log(args)?),
        Question::Bottleneck(args) => print_result(json, &capacity::bottleneck(args)?),
        Question::Fluid(args) => print_result(json, &capacity::fluid(args)?),
    }
}

fn print_result(output: &Json, result: &impl ModelResult) -> Result<ExitCode, Stop> {
    say::answer(output.json, result, || say::plain(result.text().trim_end()))?;
    Ok(ExitCode::SUCCESS)
}
