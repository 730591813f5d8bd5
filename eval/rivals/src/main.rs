//! Rivals that hedge, live beside `curtail proxy`: Envoy, failsafe-go and hedgedhttp.
//!
//! Each contender is a reverse proxy before the same four leaves, which serve one query at a time, first come, first
//! served, and stop a query whose connection closes. `curtail load` sends the same open loop to each. Contenders take
//! turns, and every turn starts the leaves and the contender anew, so that the first requests measure a cold start.
//!
//! Cost: a turn takes its requests over their rate, and about a second.

mod contender;
mod figures;
mod process;
mod rounds;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;

/// Fixed delays are tried three each. Names without a delay are policies of `curtail proxy`, or `failsafe`.
const ALL: &str = "rescue,delayed:p95:cc+least-outstanding,psq,envoy:15ms,envoy:30ms,envoy:60ms,failsafe,\
                   hedgedhttp:15ms,hedgedhttp:30ms,hedgedhttp:60ms";

/// Rivals that hedge, live beside curtail proxy.
#[derive(Parser)]
#[command(name = "curtail-rivals")]
struct Args {
    #[arg(long, value_name = "FILE", default_value = "target/release/curtail")]
    curtail: PathBuf,
    #[arg(long, value_name = "FILE")]
    envoy: Option<PathBuf>,
    /// Where programs are built, and files and logs are written
    #[arg(long, value_name = "DIR", default_value = "out/rivals")]
    dir: PathBuf,
    /// `envoy:DELAY`, `hedgedhttp:DELAY`, `failsafe`, or a policy of `curtail proxy`
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", default_value = ALL)]
    contenders: Vec<String>,
    /// Requests per second; four leaves serve at most 400, less what hiccups take
    #[arg(long, value_delimiter = ',', value_name = "RATE,…", default_value = "120,230")]
    rates: Vec<u32>,
    /// Cold starts of each contender at each rate
    #[arg(long, default_value_t = 5)]
    starts: usize,
    /// The first requests after a start, which measure the cold start
    #[arg(long, value_name = "REQUESTS", default_value_t = 2_000)]
    cold: usize,
    /// The requests after those
    #[arg(long, value_name = "REQUESTS", default_value_t = 2_000)]
    warm: usize,
    /// One short start of each: all can be measured, and the figures mean nothing
    #[arg(long)]
    smoke: bool,
    /// One JSON document; the table is then on stderr
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
    let table = figures::table(&rows);
    if args.json {
        eprint!("{table}");
        println!("{:#}", serde_json::json!({ "contenders": rows }));
    } else {
        print!("{table}");
    }
    Ok(())
}
