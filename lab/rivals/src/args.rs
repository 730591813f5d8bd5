//! The command line, and what the machine may lack.

use std::path::PathBuf;

use clap::Parser;

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
    /// Folder for built programs, files and logs
    #[arg(long, value_name = "DIR", default_value = "out/rivals")]
    pub(crate) dir: PathBuf,
    /// Contenders: `envoy:DELAY`, `hedgedhttp:DELAY`, `failsafe`, or a policy of `curtail proxy`
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", default_value = ALL)]
    pub(crate) contenders: Vec<String>,
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

/// A program that is missing on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Lacking(pub(crate) String);
