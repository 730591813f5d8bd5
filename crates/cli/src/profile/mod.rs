//! `curtail profile`: finds the stage that varies, finds its likely causes, and shows whether a
//! knob helped.

mod compare;
mod files;
mod measure;
mod page;
mod table;
mod traces;

use std::path::PathBuf;
use std::process::ExitCode;

use curtail_probe::profile::{Lost, Profile, Traced};
use curtail_probe::rank::{Guide, Ranking, rank};
use serde::Serialize;
use traces::TraceArgs;

use crate::args::{Json, Seed, span_from};
use crate::exit::{Stop, Typed, lacking};
use crate::out::Folder;
use crate::say;

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
    measure: measure::ServerArgs,
    #[command(flatten)]
    traces: TraceArgs,
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
    span_from(1, "must be above 0; write 10s, for example", text)
}

const SAVED: &str = "Saved profiles";

/// The error if no source is given.
const WAYS: &str = "name what to profile: a running server (--pid PID or --port PORT) or traces \
                    (--traces FILE… or --otlp IP:PORT); --show PROFILE shows a saved profile \
                    again, --compare A B compares two";

/// Default duration for a server.
const SERVER_NS: u64 = 10_000_000_000;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    if let Some([a, b]) = args.compare.as_deref() {
        return compare::run(a, b, args);
    }
    if let Some(path) = &args.show {
        let profile = files::profile(path)?;
        let folder = files::prepare(args, Some(path))?;
        return conclude(&profile, args, folder);
    }
    let is_server = args.measure.is_given();
    if !is_server && !args.traces.is_given() {
        return Err(Stop::BadInput(WAYS.to_owned()));
    }
    // Prepare the directory first, so that a bad `--out` does not waste a measurement.
    let folder = files::prepare(args, None)?;
    let (profile, is_interrupted) = match is_server {
        true => measure::measure(&args.measure, args.duration.unwrap_or(SERVER_NS))?,
        false => traces::profile(&args.traces, args.duration)?,
    };
    let code = conclude(&profile, args, folder)?;
    Ok(if is_interrupted { ExitCode::from(130) } else { code })
}

/// Ranks a finished profile, prints it, and writes the files of `--out`.
fn conclude(profile: &Profile, args: &Args, folder: Option<Folder>) -> Result<ExitCode, Stop> {
    let profile = &files::plain(profile.clone());
    profile.check().map_err(|why| lacking!("{}: {why}", profile.target))?;
    let ranking = rank(profile, args.seed.seed);
    if table::lost_count(profile) > ranking.requests / 10 {
        say::aside(
            "warning: much was not seen, and the rest may not be representative; see the end of \
             the report",
        );
    }
    // The result is printed even if the files cannot be written.
    let written = folder.map_or(Ok(()), |folder| files::write(folder, profile, &ranking));
    let document = Document::new(profile, &ranking);
    say::answer(args.output.json, &document, || table::text(profile, &ranking))?;
    written.map(|()| ExitCode::SUCCESS)
}

/// The document of `curtail profile`.
#[derive(Serialize)]
struct Document<'a> {
    target: &'a str,
    #[serde(flatten)]
    ranking: &'a Ranking,
    /// Whether mean and variance point to the same stage.
    verdict: Typed<Guide>,
    /// `None` for traces.
    cost: Option<Cost>,
    lost: u64,
    lost_by: &'a [Lost],
    /// For traces: the clocks, the uncertain times, and how the traces were interpreted.
    #[serde(skip_serializing_if = "Option::is_none")]
    traces: Option<&'a Traced>,
}

#[derive(Serialize)]
struct Cost {
    ns_per_request: f64,
    share: f64,
    sampling: String,
}

impl<'a> Document<'a> {
    fn new(profile: &'a Profile, ranking: &'a Ranking) -> Self {
        let cost = profile.cost.map(|of| Cost {
            ns_per_request: of.ns_per_request,
            share: of.share,
            sampling: format!("1/{}", of.one_in),
        });
        Document {
            target: &profile.target,
            ranking,
            verdict: Typed::new(ranking.guide.clone(), table::guide(ranking)),
            cost,
            lost: table::lost_count(profile),
            lost_by: &profile.lost,
            traces: profile.traces.as_ref(),
        }
    }
}
