//! The parameters of an experiment from the command line and from a file, and their combination.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::builder::RangedU64ValueParser;
use clap::value_parser;
use curtail_config::{Given, Report, closest, deserialize, read_text};
use curtail_kernel::Policy;
use curtail_sim::{
    Candidate, Error, Experiment, JitterOf, Parameters, UNIT_NS, UtilizationOf, allowed, sweep,
};
use serde::{Deserialize, Serialize};

use crate::args::{Effort, Json, Percentiles, ServiceTimes, of_flag, within};
use crate::exit::{Stop, bad};

/// Flags of an experiment. A flag overrides the same parameter in the file.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Service")]
pub(crate) struct ExperimentArgs {
    /// Read the experiment from a TOML file
    #[arg(long, value_name = "FILE", help_heading = "Experiment")]
    pub(crate) file: Option<PathBuf>,
    /// Number of shards that every request queries [default: 50]
    #[arg(long, value_name = "N", value_parser = within(&allowed::SHARDS))]
    pub(crate) shards: Option<u32>,
    /// Number of replicas of each shard [default: 2]
    #[arg(long, value_name = "N", value_parser = within(&allowed::REPLICAS))]
    pub(crate) replicas: Option<u32>,
    /// Number of queries that a replica serves at once [default: 1]
    #[arg(long, value_name = "N", value_parser = within(&allowed::SLOTS))]
    pub(crate) slots: Option<u32>,
    #[command(flatten)]
    pub(crate) times: ServiceTimes,
    /// Whether each copy has its own jitter (copy), or all copies of a query share it (query)
    /// [default: copy]
    #[arg(long, value_name = "WHOSE", value_parser = jitter_of)]
    pub(crate) jitter_of: Option<JitterOf>,
    /// Give each query a hint of its P, which is P · exp(SD · Z) with a standard normal Z; if SD is
    /// 0, hints are exact [default: no hints]
    #[arg(long, value_name = "SD")]
    pub(crate) hint_error: Option<f64>,
    /// Maximum number of queries that wait per shard, or of copies that wait at its replicas; a run
    /// that exceeds the maximum is unstable
    #[arg(long, value_name = "N", value_parser = within(&allowed::QUEUE))]
    pub(crate) queue: Option<u32>,
    /// One-way latency between balancer and replica [default: none]
    #[arg(long, value_name = "DIST")]
    pub(crate) network: Option<String>,
    /// Speed of each replica, such as 1,1,0.5 [default: all 1]
    #[arg(long, value_name = "SPEED,…", value_delimiter = ',')]
    pub(crate) speeds: Option<Vec<f64>>,
    /// Slow periods of each replica: EVERY/LASTS/SPEED; a SPEED of 0 is a pause
    #[arg(long, value_name = "DIST/DIST/SPEED")]
    pub(crate) slowdown: Option<String>,
    /// Interval and length of each replica's failures: EVERY/LASTS
    #[arg(long, value_name = "DIST/DIST")]
    pub(crate) outage: Option<String>,
    /// Time that a replica needs to stop a copy [default: 0]
    #[arg(long, value_name = "TIME")]
    pub(crate) cancel_cost: Option<String>,
    /// Policy to simulate, as in the proxy (repeatable); `idealized` and the bound `o1` exist only
    /// here [default: psq, laedge, idealized, o1; with --servers c3, prequal, least-outstanding,
    /// oracle]
    #[arg(long = "policy", value_name = "POLICY", help_heading = "Policies")]
    pub(crate) policies: Vec<String>,
    /// Offered utilization of the replicas, a fraction [default: 0.3]
    #[arg(long, value_name = "U", help_heading = LOAD)]
    pub(crate) utilization: Option<f64>,
    /// Definition of the utilization: mean (λ·P̄, without jitter) or total (λ·S̄) [default: mean]
    #[arg(long, value_name = "WHAT", value_parser = utilization_of, help_heading = LOAD)]
    pub(crate) utilization_of: Option<UtilizationOf>,
    /// Arrival process: poisson, constant, mmpp:FACTOR:SHARE:LENGTH, on-off:SHARE:LENGTH,
    /// trace:PATH
    #[arg(long, value_name = "PROCESS", help_heading = LOAD)]
    pub(crate) arrivals: Option<String>,
    /// Change a parameter during the run with jitter=DIST, service=DIST or speeds=SPEED,…
    /// (repeatable)
    #[arg(long, value_name = "KEY=VALUE", help_heading = LOAD)]
    pub(crate) change: Option<Vec<String>>,
    /// First request after the change, counted from 0 [default: the first measured one]
    #[arg(long, value_name = "N", help_heading = LOAD)]
    pub(crate) change_at: Option<u64>,
    /// Number of requests per replication [default: 100000]
    #[arg(short = 'n', long, value_name = "N", value_parser = requests(), help_heading = SIMULATION)]
    pub(crate) requests: Option<u64>,
    /// Fraction of requests at the start of a run that are not measured [default: 0.1]
    #[arg(long = "warmup", alias = "warm-up", value_name = "SHARE", help_heading = SIMULATION)]
    pub(crate) warm_up: Option<f64>,
    /// Number of independent replications, for the confidence intervals [default: 6]
    #[arg(long, value_name = "N", value_parser = within(&allowed::REPLICATIONS), help_heading = SIMULATION)]
    pub(crate) replications: Option<u32>,
    /// Seed of all random draws; the same seed gives the same run [default: 42]
    #[arg(long, value_name = "N", help_heading = SIMULATION)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    #[command(flatten)]
    pub(crate) effort: Effort,
    #[command(flatten)]
    pub(crate) percentiles: Percentiles,
    /// Report latencies in windows of N requests, starting at the change
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(allowed::WINDOW), help_heading = "Output")]
    pub(crate) window: Option<u64>,
    #[command(flatten)]
    pub(crate) output: Json,
}

/// The default policies if clients share servers.
const SHARED_POLICIES: &[&str] = &["c3", "prequal", "least-outstanding", "oracle"];

const LOAD: &str = "Load";
const SIMULATION: &str = "Simulation";

fn requests() -> RangedU64ValueParser {
    value_parser!(u64).range(allowed::REQUESTS)
}

pub(crate) fn utilization_of(text: &str) -> Result<UtilizationOf, String> {
    match text {
        "mean" => Ok(UtilizationOf::Mean),
        "total" => Ok(UtilizationOf::Total),
        _ => Err("write mean or total".to_owned()),
    }
}

fn jitter_of(text: &str) -> Result<JitterOf, String> {
    match text {
        "copy" => Ok(JitterOf::Copy),
        "query" => Ok(JitterOf::Query),
        _ => Err("write copy or query".to_owned()),
    }
}

/// A file with an experiment.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    policies: Option<Given<Vec<String>>>,
    percentiles: Option<Vec<f64>>,
    experiment: Parameters,
    grid: BTreeMap<String, Given<sweep::Written>>,
}

/// An axis of a grid that a file defines.
#[derive(Debug)]
pub(crate) struct Varied {
    pub(crate) key: String,
    pub(crate) values: sweep::Written,
    /// The position of the axis: the file and the line.
    pub(crate) place: String,
}

/// The combination of file and flags. The parameters are not checked yet.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) parameters: Parameters,
    /// The names and values of the parameters that are given as flags.
    pub(crate) given: Vec<(String, String)>,
    /// The axes of the grid, in the order of the file.
    pub(crate) grid: Vec<Varied>,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) percentiles: Vec<f64>,
    pub(crate) threads: usize,
}

/// A checked experiment.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) experiment: Experiment,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) percentiles: Vec<f64>,
    pub(crate) threads: usize,
}

impl ExperimentArgs {
    /// Reads the file, applies the flags, and checks the result. `policies` are the default
    /// policies.
    pub(crate) fn ready(&self, policies: &[&str]) -> Result<Ready, Stop> {
        let Written { parameters, grid, candidates, percentiles, threads, .. } =
            self.written(policies)?;
        if !grid.is_empty() {
            let why = "the file has a [grid]; run it with curtail sweep".to_owned();
            return Err(Stop::BadInput(why));
        }
        let experiment = parameters.experiment().map_err(Stop::bad)?;
        Ok(Ready { experiment, candidates, percentiles, threads })
    }

    /// Reads the file and applies the flags.
    pub(crate) fn written(&self, policies: &[&str]) -> Result<Written, Stop> {
        let (file, grid) = self.file.as_deref().map(read).transpose()?.unwrap_or_default();
        let mut parameters = file.experiment;
        let given = self.apply(&mut parameters);
        let flags = Some(self.policies.clone()).filter(|list| !list.is_empty());
        let named = flags.or(file.policies.map(Given::into_inner));
        let policies = if parameters.servers.is_some() { SHARED_POLICIES } else { policies };
        let named = named.unwrap_or_else(|| policies.iter().map(ToString::to_string).collect());
        Ok(Written {
            parameters,
            given,
            grid,
            candidates: candidates(&named)?,
            percentiles: self.percentiles.checked(file.percentiles)?,
            threads: self.effort.threads(),
        })
    }

    /// Applies the flags. Returns the names and values of those that are given.
    fn apply(&self, to: &mut Parameters) -> Vec<(String, String)> {
        let mut given = Vec::new();
        macro_rules! apply {
            ($of:expr; $($name:ident),*) => {$(
                if let Some(value) = &$of.$name {
                    given.push((stringify!($name).replace('_', "-"), shown(value)));
                    to.$name = value.clone().into();
                }
            )*};
        }
        apply!(self; shards, replicas, slots, utilization, utilization_of, arrivals, requests);
        apply!(self; warm_up, replications, seed, queue, network, speeds, slowdown, outage);
        apply!(self; cancel_cost, jitter_of, change, change_at, window, hint_error);
        apply!(self.shared; servers, clients, client_slots, speed, demand, surge, turn, repair);
        apply!(self.shared; score_exponent, noise, chunk, load_window);
        apply!(self.times; jitter);
        if let Some(service) = &self.times.service_time {
            given.push(("service".to_owned(), service.clone()));
            to.service.clone_from(service);
        }
        let SharedArgs { stage, tune, queue_series, .. } = &self.shared;
        for (name, texts, to) in [("stage", stage, &mut to.stage), ("tune", tune, &mut to.tune)] {
            for text in texts.iter().flatten() {
                given.push((name.to_owned(), text.clone()));
                to.push(text.clone());
            }
        }
        to.queue_series |= queue_series;
        given
    }
}

/// Formats a value in the form that a flag takes.
fn shown(value: &impl Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    match &json {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(list) => list.iter().map(shown).collect::<Vec<_>>().join(","),
        // Formats a whole number as 1, not 1.0.
        other => match other.as_f64().filter(|_| other.is_f64()) {
            Some(number) => number.to_string(),
            None => other.to_string(),
        },
    }
}

/// Reads a file and the axes of its grid, in the file's order.
fn read(path: &Path) -> Result<(File, Vec<Varied>), Stop> {
    let text = read_text(path).map_err(Stop::config)?;
    let name = path.display().to_string();
    if text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#')) {
        return Err(bad!("{name} is empty; give it an [experiment], or drop it"));
    }
    let mut report = Report::new(&name, &text);
    let file: Option<File> = deserialize(&mut report);
    let mut grid = Vec::new();
    if let Some(File { policies, grid: axes, .. }) = &file {
        if let Some(given) = policies.as_ref().filter(|given| given.get().is_empty()) {
            report.error(&given.span(), "policies is empty", "name one, or remove the key");
        }
        let mut axes: Vec<_> = axes.iter().collect();
        axes.sort_by_key(|(_, values)| values.span().start);
        grid.extend(axes.into_iter().map(|(key, values)| Varied {
            key: key.clone(),
            values: values.get().clone(),
            place: report.place(&values.span()),
        }));
    }
    report.finish().map_err(Stop::config)?;
    Ok((file.expect("a file without errors has a value"), grid))
}

/// Parses the policies, and suggests a name for an unknown one.
fn candidates(names: &[String]) -> Result<Vec<Candidate>, Stop> {
    Candidate::parse_all(names, UNIT_NS).map_err(|error| {
        let Error::UnknownPolicy { name, .. } = &error else { return of_flag(error) };
        let forms = [Policy::forms(), Candidate::SIMULATED.to_vec()].concat();
        match closest(name, &forms).filter(|close| close != name) {
            Some(close) => {
                bad!("--policy {name}: unknown policy {name:?}; did you mean {close}?")
            }
            None => of_flag(error),
        }
    })
}

const HEADING: &str = "Servers that clients share";

/// Flags for servers that clients share. They replace shards that have servers of their own.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct SharedArgs {
    /// Number of servers that clients share; a request goes to one group of --replicas neighbors
    #[arg(long, value_name = "N", help_heading = HEADING)]
    pub(crate) servers: Option<u32>,
    /// Number of clients, each of which picks servers on its own [default: 1]
    #[arg(long, value_name = "N", help_heading = HEADING)]
    pub(crate) clients: Option<u32>,
    /// Slots of a server in each client's configuration [default: --slots]
    #[arg(long, value_name = "N", value_parser = within(&allowed::SLOTS), help_heading = HEADING)]
    pub(crate) client_slots: Option<u32>,
    /// Every T, each server draws a new speed, 1 or D; the utilization refers to the mean speed
    /// [default: all 1]
    #[arg(long, value_name = "D:T", help_heading = HEADING)]
    pub(crate) speed: Option<String>,
    /// The fraction A of the clients generates the fraction B of the demand [default: all alike]
    #[arg(long, value_name = "A:B", help_heading = HEADING)]
    pub(crate) demand: Option<String>,
    /// At the time AT, N of the clients raise the utilization to U
    #[arg(long, value_name = "AT:N:U", help_heading = HEADING)]
    pub(crate) surge: Option<String>,
    /// Speed of the first server, which is FROM until the time AT and TO afterward; with a speed of
    /// 0 the server is down
    #[arg(long, value_name = "AT:FROM:TO", help_heading = HEADING)]
    pub(crate) turn: Option<String>,
    /// Fraction of requests that all servers of the group serve, as in read repair [default: 0]
    #[arg(long, value_name = "SHARE", help_heading = HEADING)]
    pub(crate) repair: Option<f64>,
    /// Exponent b of the queue in C3's score, 1 to 8: a higher exponent avoids long queues more
    /// strongly [default: 3]
    #[arg(long, value_name = "B", help_heading = HEADING)]
    pub(crate) score_exponent: Option<u32>,
    /// Change a parameter of adaptive policies, for example initial-rate=5 (repeatable)
    #[arg(long, value_name = "NAME=VALUE", help_heading = HEADING)]
    pub(crate) tune: Option<Vec<String>>,
    /// Add a stage behind the servers' own stage, at every server or every client; it has strict
    /// priority and purges copies, unless it is a legacy stage (repeatable, in order)
    #[arg(long, value_name = "NAME[@client][/legacy]:DIST", help_heading = HEADING)]
    pub(crate) stage: Option<Vec<String>>,
    /// Delay added to each response, such as bimodal:0.1:5ms; it does not occupy the server
    /// [default: none]
    #[arg(long, value_name = "DIST", help_heading = HEADING)]
    pub(crate) noise: Option<String>,
    /// Preempt das duplicates only between chunks of this length [default: at any time]
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    pub(crate) chunk: Option<String>,
    /// Length of the windows in which the load of each server is counted [default: 100ms]
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    pub(crate) load_window: Option<String>,
    /// With --json: report the queue and the load of the first server per window
    #[arg(long, requires = "json", help_heading = HEADING)]
    pub(crate) queue_series: bool,
}
