//! Measures `curtail proxy` and other products that hedge, live and side by side. The products are
//! Envoy, with its own hedge or with Curtail as a module, failsafe-go and hedgedhttp.
//!
//! Each contender is a reverse proxy in front of the same four leaves. A leaf serves one query at a
//! time, first come, first served, and stops a query whose connection closes. `curtail load` sends
//! the same open loop to each contender. Contenders take turns, and every turn restarts the leaves
//! and the contender, so the first requests measure a cold start.
//!
//! Cost: the duration of a turn is the number of its requests divided by their rate, plus about a
//! second.

mod args;
mod contender;
mod rounds;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser as _;

use args::{Args, Lacking};

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
    let is_equal = |count: usize| args.proxies > 0 && count.is_multiple_of(args.proxies);
    ensure!(
        [args.cold, args.warm].into_iter().all(is_equal),
        "--proxies: must divide --cold and --warm"
    );
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
