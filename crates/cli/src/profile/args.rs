//! The arguments of `curtail profile`.

use std::path::PathBuf;

use super::traces::TraceArgs;
use crate::args::{Json, Seed};
use crate::load::span;

/// Find the stage that makes the tail: what varies, what likely causes that, and which knob to turn.
///
/// A request passes stages: the network stack, the wait for a thread, parsing, the work, the response. The stage that
/// takes the longest on average is often not the one to blame for the tail; that is the one that varies. So stages are
/// ranked by their share of the variance of the total, covariance included, and the mean stands beside it. For the
/// top stages there are likely causes, and knobs that may help. Turn one, profile again, and compare: a knob that fits
/// another cause hurts.
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

Exit codes of --compare: 0 where p99 of the total is better, or no difference is beyond chance; 1 where
it is worse.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) measure: super::measure::ServerArgs,
    #[command(flatten)]
    pub(super) traces: TraceArgs,
    /// Profile for so long [default: a server 10s, after calibration; traces that arrive until Ctrl-C]
    #[arg(short, long, value_name = "SPAN", value_parser = positive, conflicts_with = "traces")]
    pub(super) duration: Option<u64>,
    /// Show a profile again: profile.json of --out, or its directory
    #[arg(long, value_name = "PROFILE", conflicts_with_all = ["compare", "pid", "port", "duration"], help_heading = SAVED)]
    pub(super) show: Option<PathBuf>,
    /// Compare two profiles, each figure of B over that of A with its interval: did the knob help?
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["out", "pid", "port", "duration"], help_heading = SAVED)]
    pub(super) compare: Option<Vec<PathBuf>>,
    /// Write a directory: profile.json (for --show and --compare), profile.html, stages.svg,
    /// requests.csv, and the samples total.txt and stage-NAME.txt (for file: of curtail sim and model)
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(super) out: Option<PathBuf>,
    /// Overwrite the profile that is in the directory
    #[arg(long, requires = "out", help_heading = "Output")]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) seed: Seed,
    #[command(flatten)]
    pub(super) output: Json,
}

fn positive(text: &str) -> Result<u64, String> {
    span(text).and_then(|ns| match ns {
        0 => Err("it takes some time; write 10s, say".to_owned()),
        ns => Ok(ns),
    })
}

const SAVED: &str = "Saved profiles";
