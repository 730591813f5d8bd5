//! The command line, and what the machine may lack.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// The default contenders. Each product that has a fixed delay is measured with three delays. Names
/// without a delay are policies of `curtail proxy`, or `failsafe`.
const ALL: &str = "rescue,delayed:p95:cc+least-outstanding,psq,envoy:15ms,envoy:30ms,envoy:60ms,failsafe,\
                   hedgedhttp:15ms,hedgedhttp:30ms,hedgedhttp:60ms";

/// Measure curtail proxy and other products that hedge, live and side by side.
#[derive(Parser)]
#[command(name = "curtail-rivals")]
pub(crate) struct Args {
    #[arg(long, value_name = "FILE", default_value = "target/release/curtail")]
    pub(crate) curtail: PathBuf,
    #[arg(long, value_name = "FILE")]
    pub(crate) envoy: Option<PathBuf>,
    /// The library that runs Curtail inside Envoy, for the contenders `module:POLICY`
    #[arg(long, value_name = "FILE")]
    pub(crate) module: Option<PathBuf>,
    /// Folder for built programs, files and logs
    #[arg(long, value_name = "DIR", default_value = "out/rivals")]
    pub(crate) dir: PathBuf,
    /// Contenders: `envoy:DELAY`, `envoy:none` (no hedge), `module:POLICY` (Curtail inside Envoy),
    /// `hedgedhttp:DELAY`, `failsafe`, or a policy of `curtail proxy`
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", default_value = ALL)]
    pub(crate) contenders: Vec<String>,
    /// Service times of the leaves
    #[arg(long, value_enum, default_value_t)]
    pub(crate) service: Service,
    /// Number of processes of a contender, before the same leaves. Each gets an equal share of the
    /// requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) proxies: usize,
    /// Requests per second. Four leaves could serve 400 per second without hiccups, and serve fewer
    /// with hiccups
    #[arg(long, value_delimiter = ',', value_name = "RATE,…", default_value = "120,230")]
    pub(crate) rates: Vec<u32>,
    /// Number of cold starts of each contender at each rate
    #[arg(long, default_value_t = 5)]
    pub(crate) starts: usize,
    /// Number of first requests after a start, which measure the cold start
    #[arg(long, value_name = "REQUESTS", default_value_t = 2_000)]
    pub(crate) cold: usize,
    /// Number of requests after those that measure the cold start
    #[arg(long, value_name = "REQUESTS", default_value_t = 2_000)]
    pub(crate) warm: usize,
    /// Start each contender once for a short time, to check that it can be measured. The resulting
    /// figures are meaningless
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Print one JSON document, and the table to stderr
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the time of a query on a leaf is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Service {
    /// 10 ms ± 5 %, and 200 ms more in 2 % of the executions
    #[default]
    Hiccups,
    /// Exponential, with a mean of 10 ms
    Exponential,
}

/// A program that is missing on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Lacking(pub(crate) String);
