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

/// Ask queueing theory: what follows from a few numbers, at once, without simulating.
///
/// Every figure comes with how far it is to be trusted: exact (for its model), an approximation, or a
/// bound. Times have a unit (5ms), and then rates are per second and results in milliseconds; or none,
/// and then everything is in multiples of a unit of time of your choice.
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

What no model knows (policies, hedges, faults, percentiles of odd services): curtail sim."
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

/// What a model says: for programs by its fields, for people in words.
trait Answer: Serialize {
    fn text(&self) -> String;
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let json = args.json;
    match &args.question {
        Question::Queue(args) => tell(json, &queue::answer(args)?),
        Question::Variability(args) => tell(json, &variability::answer(args)?),
        Question::Unloaded(args) => tell(json, &fan_out::unloaded(args)?),
        Question::ForkJoin(args) => tell(json, &fan_out::under_load(args)?),
        Question::Fit(args) => tell(json, &fit::answer(args)?),
        Question::Curve(args) => tell(json, &curve::answer(args)?),
        Question::Split(args) => tell(json, &split::answer(args)?),
        Question::Log(args) => tell(json, &log::answer(args)?),
        Question::Bottleneck(args) => tell(json, &bottleneck::answer(args)?),
        Question::Fluid(args) => tell(json, &fluid::answer(args)?),
    }
}

fn tell(json: bool, answer: &impl Answer) -> Result<ExitCode, Stop> {
    let text = || say::plain(answer.text().trim_end());
    say::result(if json { crate::json(answer)? } else { text() })?;
    Ok(ExitCode::SUCCESS)
}

/// What a model refuses is what it was asked.
fn refused(error: impl std::fmt::Display) -> Stop {
    Stop::BadInput(error.to_string())
}
