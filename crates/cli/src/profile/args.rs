//! The arguments of `curtail profile`.

use std::path::PathBuf;

use super::traces::TraceArgs;
use crate::args::{Json, Seed};
use crate::load::span;

/// Find the stage behind the tail latency: which stage varies, why it probably does, and which knob
/// to turn.
///
/// A request passes through stages: the network stack, the wait for a thread, parsing, the work,
/// the response. The stage with the largest mean is often not the cause of the tail; the stage with
/// the largest variance is. Stages are therefore ranked by their share of the variance of the
/// total, including covariance, and the mean is shown next to it. For the top stages, the report
/// lists likely causes and the knobs that may help. Turn one knob, profile again, and compare: a
/// knob for a different cause makes the tail worse.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail profile --port 11211 --out before
  curtail profile --pid 4711 --app httpd --duration 30s --sampling 1/1
  curtail profile --traces spans.jsonl --out before
  curtail profile --otlp 127.0.0.1:4318 --duration 60s
  curtail profile --show before
  curtail profile --compare before after
  curtail sim --shards 5 --utilization 0.3 --service-time file:before/total.txt

Exit codes of --compare: 1 if p99 of the total is worse beyond chance, else 0.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) measure: super::measure::ServerArgs,
    #[command(flatten)]
    pub(super) traces: TraceArgs,
    /// How long to profile [default: 10s after calibration for a server, until Ctrl-C for --otlp]
    #[arg(short, long, value_name = "SPAN", value_parser = positive, conflicts_with = "traces")]
    pub(super) duration: Option<u64>,
    /// Show a saved profile: the profile.json that --out wrote, or its directory
    #[arg(long, value_name = "PROFILE", conflicts_with_all = ["compare", "pid", "port", "duration"], help_heading = SAVED)]
    pub(super) show: Option<PathBuf>,
    /// Compare two profiles: the ratio of each figure, B over A, with its interval
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["out", "pid", "port", "duration"], help_heading = SAVED)]
    pub(super) compare: Option<Vec<PathBuf>>,
    /// Write results to this directory: profile.json (for --show and --compare), profile.html,
    /// stages.svg, requests.csv, and the samples total.txt and stage-NAME.txt (which curtail sim
    /// and curtail model read as file:PATH)
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(super) out: Option<PathBuf>,
    /// Overwrite a profile in the directory
    #[arg(long, requires = "out", help_heading = "Output")]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) seed: Seed,
    #[command(flatten)]
    pub(super) output: Json,
}

fn positive(text: &str) -> Result<u64, String> {
    span(text).and_then(|ns| match ns {
        0 => Err("must be above 0; write 10s, for example".to_owned()),
        ns => Ok(ns),
    })
}

const SAVED: &str = "Saved profiles";
