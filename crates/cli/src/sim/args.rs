//! The parameters of an experiment on the command line and in a file, and how they combine.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::builder::{RangedI64ValueParser, RangedU64ValueParser};
use clap::value_parser;
use curtail_sim::{
    Candidate, Experiment, JitterOf, PERCENTILES, Parameters, UNIT_NS, UtilizationOf, allowed,
    check_percentiles,
};
use serde::{Deserialize, Serialize};
use toml::{Spanned, Value};

use super::length::check_length;
use crate::exit::Stop;
use crate::files;

/// The experiment: each parameter may come from a file, and a flag overrides it.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ExperimentArgs {
    /// Read the experiment from a TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Shards that every request asks [default: 50]
    #[arg(long, value_name = "N", value_parser = within(&allowed::SHARDS))]
    pub(crate) shards: Option<u32>,
    /// Replicas of each shard [default: 2]
    #[arg(long, value_name = "N", value_parser = within(&allowed::REPLICAS))]
    pub(crate) replicas: Option<u32>,
    /// Queries that a replica serves at once [default: 1]
    #[arg(long, value_name = "N", value_parser = within(&allowed::SLOTS))]
    pub(crate) slots: Option<u32>,
    /// Offered utilization of the replicas, a fraction [default: 0.3]
    #[arg(long, value_name = "U")]
    pub(crate) utilization: Option<f64>,
    /// Of what: mean (λ·P̄, without jitter) or total (λ·S̄) [default: mean]
    #[arg(long, value_name = "WHAT", value_parser = utilization_of)]
    pub(crate) utilization_of: Option<UtilizationOf>,
    /// P, a query's own service time, the same for all of its copies [default: exp:1]
    #[arg(long, value_name = "DIST")]
    pub(crate) service: Option<String>,
    /// J, what each copy adds: hiccups, as bimodal:0.001:15 [default: none]
    #[arg(long, value_name = "DIST")]
    pub(crate) jitter: Option<String>,
    /// Whose jitter it is: of each copy, or of the query, whose copies then share it [default: copy]
    #[arg(long, value_name = "WHOSE", value_parser = jitter_of)]
    pub(crate) jitter_of: Option<JitterOf>,
    /// Each query comes with a hint of its P, which is off by a factor of exp(SD · Z); 0 is exact
    /// [default: no hints]
    #[arg(long, value_name = "SD")]
    pub(crate) hint_error: Option<f64>,
    /// Arrivals: poisson, constant, mmpp:FACTOR:SHARE:LENGTH, on-off:SHARE:LENGTH, trace:PATH
    #[arg(long, value_name = "PROCESS")]
    pub(crate) arrivals: Option<String>,
    /// Requests of each replication [default: 100000]
    #[arg(long, value_name = "N", value_parser = requests())]
    pub(crate) requests: Option<u64>,
    /// The share of them that is not measured [default: 0.1]
    #[arg(long, value_name = "SHARE")]
    pub(crate) warm_up: Option<f64>,
    /// Independent replications, for the confidence intervals [default: 6]
    #[arg(long, value_name = "N", value_parser = within(&allowed::REPLICATIONS))]
    pub(crate) replications: Option<u32>,
    /// Decides every draw [default: 42]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Queries that may wait per shard, or copies at its replicas; beyond it a run is unstable
    /// [default: 100000]
    #[arg(long, value_name = "N", value_parser = within(&allowed::QUEUE))]
    pub(crate) queue: Option<u32>,
    /// Latency between balancer and replica, one way [default: none]
    #[arg(long, value_name = "DIST")]
    pub(crate) network: Option<String>,
    /// The speed of each replica, as 1,1,0.5 [default: all 1]
    #[arg(long, value_name = "SPEED,…", value_delimiter = ',')]
    pub(crate) speeds: Option<Vec<f64>>,
    /// Slow stretches of each replica: EVERY/LASTS/SPEED; a SPEED of 0 is a pause
    #[arg(long, value_name = "DIST/DIST/SPEED")]
    pub(crate) slowdown: Option<String>,
    /// Failures of each replica: EVERY/LASTS
    #[arg(long, value_name = "DIST/DIST")]
    pub(crate) outage: Option<String>,
    /// How long a replica needs to stop a copy [default: no time]
    #[arg(long, value_name = "TIME")]
    pub(crate) cancel_cost: Option<String>,
    /// What is different from a request on: jitter=DIST, service=DIST or speeds=SPEED,…; may be
    /// repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) change: Option<Vec<String>>,
    /// That request, counted from 0 [default: the first one that is measured]
    #[arg(long, value_name = "N")]
    pub(crate) change_at: Option<u64>,
    /// Tell latencies in windows of so many requests from there on
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(allowed::WINDOW))]
    pub(crate) window: Option<u64>,
    /// A policy, as in the proxy; may be repeated. `idealized` and the bound `o1` exist here only
    /// [default: psq, laedge, idealized, o1]
    #[arg(long = "policy", value_name = "POLICY")]
    pub(crate) policies: Vec<String>,
    /// Percentiles to tell [default: 50,95,99,99.9]
    #[arg(long, value_name = "P,…", value_delimiter = ',')]
    pub(crate) percentiles: Option<Vec<f64>>,
    /// Threads; the figures do not depend on them [default: all cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Go on although it takes more than an hour
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Whole numbers of a range.
pub(crate) fn within(range: &RangeInclusive<u32>) -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(i64::from(*range.start())..=i64::from(*range.end()))
}

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
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    policies: Option<Vec<String>>,
    percentiles: Option<Vec<f64>>,
    experiment: Parameters,
    grid: BTreeMap<String, Spanned<Value>>,
}

/// What a file says that is varied.
#[derive(Debug)]
pub(crate) struct Varied {
    pub(crate) key: String,
    pub(crate) value: Value,
    /// Where it says so: the file and the line.
    pub(crate) place: String,
}

/// What file and flags say together. The parameters are not checked.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) parameters: Parameters,
    /// In the order of the file.
    pub(crate) grid: Vec<Varied>,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) percentiles: Vec<f64>,
    pub(crate) threads: usize,
}

/// An experiment that can be run.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) experiment: Experiment,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) percentiles: Vec<f64>,
    pub(crate) threads: usize,
}

impl ExperimentArgs {
    /// Reads the file, lets the flags override it, and checks the whole. `policies` are taken where
    /// none are given.
    pub(crate) fn ready(&self, policies: &[&str]) -> Result<Ready, Stop> {
        let Written { parameters, grid, candidates, percentiles, threads } =
            self.written(policies)?;
        if !grid.is_empty() {
            let why = "the file has a [grid]; run it with curtail sweep".to_owned();
            return Err(Stop::BadInput(why));
        }
        let experiment =
            parameters.experiment().map_err(|error| Stop::BadInput(error.to_string()))?;
        Ok(Ready { experiment, candidates, percentiles, threads })
    }

    /// Reads the file and lets the flags override it.
    pub(crate) fn written(&self, policies: &[&str]) -> Result<Written, Stop> {
        let (file, grid) = self.file.as_deref().map(read).transpose()?.unwrap_or_default();
        let mut parameters = file.experiment;
        self.override_(&mut parameters);
        let flags = Some(self.policies.clone()).filter(|list| !list.is_empty());
        let named = flags.or(file.policies);
        let named = named.unwrap_or_else(|| policies.iter().map(ToString::to_string).collect());
        let percentiles = self.percentiles.clone().or(file.percentiles);
        let percentiles = percentiles.unwrap_or_else(|| PERCENTILES.to_vec());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Written {
            parameters,
            grid,
            candidates: Candidate::parse_all(&named, UNIT_NS).map_err(of_flag)?,
            percentiles: checked(percentiles)?,
            threads: self.threads.unwrap_or(cores).clamp(1, 1024),
        })
    }

    fn override_(&self, parameters: &mut Parameters) {
        macro_rules! plain {
            ($($name:ident),*) => {$(
                if let Some(value) = &self.$name {
                    parameters.$name = value.clone();
                }
            )*};
        }
        macro_rules! optional {
            ($($name:ident),*) => {$(
                if self.$name.is_some() {
                    parameters.$name = self.$name.clone();
                }
            )*};
        }
        plain!(shards, replicas, slots, utilization, utilization_of, service, arrivals, requests);
        plain!(jitter_of, warm_up, replications, seed, queue, speeds, change);
        optional!(jitter, network, slowdown, outage, cancel_cost, change_at, window);
        optional!(hint_error);
    }

    /// The parameters that flags give: their names, and what was written.
    pub(crate) fn given(&self) -> Vec<(String, String)> {
        let mut given = Vec::new();
        macro_rules! given {
            ($($name:ident),*) => {$(
                if let Some(value) = &self.$name {
                    given.push((stringify!($name).replace('_', "-"), shown(value)));
                }
            )*};
        }
        given!(shards, replicas, slots, utilization, utilization_of, service, jitter, arrivals);
        given!(requests, warm_up, replications, seed, queue, network, speeds, slowdown, outage);
        given!(cancel_cost, jitter_of, change, change_at, window, hint_error);
        given
    }

    /// Refuses work that takes long, unless it was asked for.
    pub(crate) fn check_length(&self, events: f64, speed: f64) -> Result<(), Stop> {
        if self.yes { Ok(()) } else { check_length(events, speed, "requests or replications") }
    }
}

/// A value as a flag has it.
fn shown(value: &impl Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    match &json {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(list) => list.iter().map(shown).collect::<Vec<_>>().join(","),
        // As 1, and not as 1.0.
        other => match other.as_f64().filter(|_| other.is_f64()) {
            Some(number) => number.to_string(),
            None => other.to_string(),
        },
    }
}

/// A file, and what it says that is varied, in its order.
fn read(path: &Path) -> Result<(File, Vec<Varied>), Stop> {
    let (mut file, text): (File, _) = files::toml_and_text(path)?;
    if file.policies.as_ref().is_some_and(Vec::is_empty) {
        let path = path.display();
        return Err(Stop::BadInput(format!("{path}: policies is empty; name one, or drop it")));
    }
    let mut grid: Vec<_> = std::mem::take(&mut file.grid).into_iter().collect();
    grid.sort_by_key(|(_, value)| value.span().start);
    let varied = |(key, value): (String, Spanned<Value>)| {
        let place = format!("{}:{}", path.display(), files::line(&text, value.span().start));
        Varied { key, value: value.into_inner(), place }
    };
    let grid = grid.into_iter().map(varied).collect();
    Ok((file, grid))
}

/// Percentiles of a flag.
pub(crate) fn checked(percentiles: Vec<f64>) -> Result<Vec<f64>, Stop> {
    check_percentiles(&percentiles).map_err(of_flag)?;
    Ok(percentiles)
}

/// What begins with the name of a flag.
fn of_flag(error: impl std::fmt::Display) -> Stop {
    Stop::BadInput(format!("--{error}"))
}
