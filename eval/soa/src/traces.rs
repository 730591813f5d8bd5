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
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::child::Child;
use crate::hotrod::{Programs, build, spawn, start};

/// The time until exporters have sent their last spans. The exporters send every second.
const FLUSH_S: u32 = 4;
/// The time from the start of the profile to the start of the load.
const LEAD_S: u32 = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    programs: Programs,
    /// Requests per second. The database can serve 3.3
    #[arg(long, default_value_t = 0.8)]
    rate: f64,
    #[arg(long, default_value_t = 240)]
    seconds: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
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
struct Outcome {
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

/// Starts HotROD and its profile. Both must stay alive during the run; the profile prints the
/// result.
fn begin(args: &Args, program: &Path, run: &Run) -> Result<(Child, Child)> {
    let at = |offset: u16| (run.port + offset).to_string();
    let collector = format!("127.0.0.1:{}", at(9));
    let all = LEAD_S + args.seconds + FLUSH_S;
    let mut profile = start(&args.programs.curtail);
    profile.args(["profile", "--json", "--otlp", &collector, "--duration", &format!("{all}s")]);
    let profile = spawn(profile.stdout(Stdio::piped()), run.port + 9)?;
    let mut hotrod = start(program);
    hotrod.args(["all", "-f", &at(0), "-c", &at(1), "-d", &at(2), "-r", &at(3)]);
    hotrod.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}"));
    hotrod.envs(run.environment.iter().copied());
    Ok((spawn(&mut hotrod, run.port)?, profile))
}

fn load(args: &Args, run: &Run) -> Command {
    let url = format!("http://127.0.0.1:{}/dispatch?customer=123", run.port);
    let mut load = start(&args.programs.curtail);
    load.args(["load", &url, "--warmup", "0s", "--rate", &args.rate.to_string()]);
    load.args(["--duration", &format!("{}s", args.seconds)]);
    load
}

fn outcome(run: &Run, profile: &mut Child) -> Result<Outcome> {
    let stdout = profile.stdout.take().context("the profile has no output")?;
    let document: Value = serde_json::from_reader(stdout).context("the profile printed no JSON")?;
    ensure!(profile.wait()?.success(), "the profile failed");
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

pub(crate) fn run(args: &Args) -> Result<()> {
    let program = build(args.programs.hotrod.as_deref(), &args.programs.dir)?;
    let begun: Result<Vec<_>> = RUNS.iter().map(|run| begin(args, &program, run)).collect();
    let mut begun = begun?;
    thread::sleep(Duration::from_secs(LEAD_S.into()));
    let loads: Result<Vec<_>> = RUNS.iter().map(|run| Child::spawn(&mut load(args, run))).collect();
    loads?.iter_mut().try_for_each(|load| load.wait().map(drop))?;
    let outcomes: Result<Vec<Outcome>> =
        RUNS.iter().zip(&mut begun).map(|(run, (_, profile))| outcome(run, profile)).collect();
    let outcomes = outcomes?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
        return Ok(());
    }
    for Outcome { hotrod, requests, first, longest, stages, .. } in &outcomes {
        println!("{hotrod}: {requests} traces; most variance: {first}; largest mean: {longest}");
        for (name, stage) in stages {
            let number = |field: &str| stage[field].as_f64().unwrap_or(f64::NAN);
            let (ms, share) = (number("mean_ns") / 1e6, number("variance_share"));
            println!("{name:>52}{ms:>9.1} ms{share:>8.3} of the variance");
        }
    }
    Ok(())
}
