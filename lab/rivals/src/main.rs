//! Measures `curtail proxy` and other products that hedge, live and side by side. The products are
//! Envoy, failsafe-go and hedgedhttp.
//!
//! Each contender is a reverse proxy in front of the same four leaves. A leaf serves one query at a
//! time, first come, first served, and stops a query whose connection closes. `curtail load` sends
//! the same open loop to each contender. Contenders take turns, and every turn restarts the leaves
//! and the contender, so the first requests measure a cold start.
//!
//! Cost: the duration of a turn is the number of its requests divided by their rate, plus about a
//! second.

mod contender;
mod rounds;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;

/// The default contenders. Each product that has a fixed delay is measured with three delays. Names
/// without a delay are policies of `curtail proxy`, or `failsafe`.
const ALL: &str = "rescue,delayed:p95:cc+least-outstanding,psq,envoy:15ms,envoy:30ms,envoy:60ms,failsafe,\
                   hedgedhttp:15ms,hedgedhttp:30ms,hedgedhttp:60ms";

/// Measure curtail proxy and other products that hedge, live and side by side.
#[derive(Parser)]
#[command(name = "curtail-rivals")]
struct Args {
    #[arg(long, value_name = "FILE", default_value = "target/release/curtail")]
    curtail: PathBuf,
    #[arg(long, value_name = "FILE")]
    envoy: Option<PathBuf>,
    /// Folder for built programs, files and logs
    #[arg(long, value_name = "DIR", default_value = "out/rivals")]
    dir: PathBuf,
    /// Contenders: `envoy:DELAY`, `hedgedhttp:DELAY`, `failsafe`, or a policy of `curtail proxy`
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", default_value = ALL)]
    contenders: Vec<String>,
    /// Requests per second. Four leaves could serve 400 per second without hiccups, and serve fewer
    /// with hiccups
    #[arg(long, value_delimiter = ',', value_name = "RATE,…", default_value = "120,230")]
    rates: Vec<u32>,
    /// Number of cold starts of each contender at each rate
    #[arg(long, default_value_t = 5)]
    starts: usize,
    /// Number of first requests after a start, which measure the cold start
    #[arg(long, value_name = "REQUESTS", default_value_t = 2_000)]
    cold: usize,
    /// Number of requests after those that measure the cold start
    #[arg(long, value_name = "REQUESTS", default_value_t = 2_000)]
    warm: usize,
    /// Start each contender once for a short time, to check that it can be measured. The resulting
    /// figures are meaningless
    #[arg(long)]
    smoke: bool,
    /// Print one JSON document, and the table to stderr
    #[arg(long)]
    json: bool,
}

/// A program that is missing on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Lacking(String);

fn main() -> ExitCode {
    let mut args = Args::parse();
    if args.smoke {
        (args.starts, args.cold, args.warm) = (1, 200, 100);
    }
    let Err(error) = run(&args) else { return ExitCode::SUCCESS };
    let kind = if error.is::<Lacking>() { "SKIPPED" } else { "error" };
    eprintln!("{kind}: {error:#}");
    ExitCode::from(3)
}

fn run(args: &Args) -> Result<()> {
    ensure!(args.starts > 0 && args.cold > 0, "--starts and --cold: must be at least 1");
    std::fs::create_dir_all(&args.dir)?;
    let rows = rounds::measure(args, &contender::Programs::find(args)?)?;
    let table = rounds::table(&rows);
    if args.json {
        eprint!("{table}");
        println!("{:#}", serde_json::json!({ "contenders": rows }));
    } else {
        print!("{table}");
    }
    Ok(())
}
