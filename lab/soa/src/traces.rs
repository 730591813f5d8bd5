//! Ranks the stages of HotROD's traces with `curtail profile --otlp`, for an unmodified HotROD and
//! for one in which another service was made to vary.
//!
//! Two HotRODs run side by side, each with all services in one process, under the same modest load.
//! One is unmodified: its database serves one query at a time, in a mean time of 300 ms with a
//! standard deviation of 30 ms. A Redis call takes 10 ms on average, with a standard deviation of
//! 2.5 ms. A request makes ten of them in turn, and every fifth fails after another 20 ms and is
//! repeated. On average, a request therefore makes 12.5 calls, which take 175 ms. In the other
//! HotROD, the time of a call is drawn from a normal distribution whose positive part has a mean of
//! 14 ms, and calls fail without a delay. 4 % of the calls take 326 ms and the others take no time,
//! which is again 175 ms per request.
//!
//! Cost: the run takes `--seconds` plus about 10 s, and two processes are mostly idle.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;
use xtask::process::{Process, tied};

use crate::hotrod::{Programs, build, silent, spawn};

/// The time until exporters have sent their last spans. The exporters send every second.
const FLUSH_S: u32 = 4;
/// The time from the start of the profile to the start of the load.
const LEAD_S: u32 = 2;
/// Requests per second. The database can serve 3.3.
const RATE: &str = "0.8";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    programs: Programs,
    #[arg(long, default_value_t = 240)]
    seconds: u32,
}

/// A HotROD.
struct Run {
    name: &'static str,
    /// The first of the ports that HotROD and the profile use.
    port: u16,
    environment: &'static [(&'static str, &'static str)],
}

const RUNS: [Run; 2] = [
    Run { name: "unmodified", port: 18480, environment: &[] },
    Run {
        name: "redis-varies",
        port: 18490,
        environment: &[
            ("HOTROD_REDIS_GET_DELAY", "-1374.4ms"),
            ("HOTROD_REDIS_GET_STD_DEV", "800ms"),
        ],
    },
];

#[derive(Serialize)]
pub(crate) struct Outcome {
    hotrod: &'static str,
    requests: Value,
    /// The stage with the largest share of the variance.
    first: String,
    /// The stage with the largest mean.
    longest: String,
    /// The profile's stages by name, with hyphens instead of spaces.
    stages: BTreeMap<String, Value>,
    lost: Value,
}

/// Starts a HotROD and its profile, which prints the result.
fn begin(args: &Args, program: &Path, run: &Run) -> Result<(Process, Process)> {
    let (name, dir) = (run.name, &args.programs.dir);
    let at = |offset: u16| (run.port + offset).to_string();
    let collector = format!("127.0.0.1:{}", at(9));
    let all = LEAD_S + args.seconds + FLUSH_S;
    let mut profile = tied(&args.programs.curtail);
    profile.args(["profile", "--json", "--otlp", &collector, "--duration", &format!("{all}s")]);
    let profile = spawn(&format!("{name}-profile"), profile, dir, run.port + 9)?;
    let mut hotrod = silent(program);
    hotrod.args(["all", "-f", &at(0), "-c", &at(1), "-d", &at(2), "-r", &at(3)]);
    hotrod.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}"));
    hotrod.envs(run.environment.iter().copied());
    Ok((spawn(name, hotrod, dir, run.port)?, profile))
}

fn load(args: &Args, run: &Run) -> Result<Process> {
    let url = format!("http://127.0.0.1:{}/dispatch?customer=123", run.port);
    let mut load = tied(&args.programs.curtail);
    load.args(["load", &url, "--warmup", "0s", "--rate", RATE]);
    load.args(["--duration", &format!("{}s", args.seconds)]);
    Process::start(&format!("{}-load", run.name), load, &args.programs.dir)
}

fn outcome(run: &Run, profile: Process) -> Result<Outcome> {
    let document: Value = profile.document()?;
    let stages = document["stages"].as_array().context("the profile has no stages")?;
    let name = |stage: &Value| stage["name"].as_str().unwrap_or_default().to_owned();
    let most = |field: &str| {
        let of = |stage: &&Value| stage[field].as_f64().unwrap_or(f64::NEG_INFINITY);
        stages.iter().max_by(|a, b| of(a).total_cmp(&of(b))).map(name).unwrap_or_default()
    };
    Ok(Outcome {
        hotrod: run.name,
        requests: document["requests"].clone(),
        first: most("variance_share"),
        longest: most("mean_ns"),
        stages: stages.iter().map(|of| (name(of).replace(' ', "-"), of.clone())).collect(),
        lost: document["lost_by"].clone(),
    })
}

pub(crate) fn run(args: &Args) -> Result<Vec<Outcome>> {
    let program = build(&args.programs.dir)?;
    let begun: Result<Vec<_>> = RUNS.iter().map(|run| begin(args, &program, run)).collect();
    let (_hotrods, profiles): (Vec<Process>, Vec<Process>) = begun?.into_iter().unzip();
    thread::sleep(Duration::from_secs(LEAD_S.into()));
    let loads: Result<Vec<_>> = RUNS.iter().map(|run| load(args, run)).collect();
    loads?.into_iter().try_for_each(|load| load.finish().map(drop))?;
    RUNS.iter().zip(profiles).map(|(run, profile)| outcome(run, profile)).collect()
}
