//! Repeats chapter 3 of document 000: how far can tools that measure microseconds be trusted?
//!
//! A flow of UDP packets goes through a network function between network namespaces. Taps in the
//! kernel write into each packet the time at which it arrived at the function and the time at which
//! it returned to the generator. They replace the hardware appliance of the document. Four methods
//! measure the same packets from the generator.
//!
//! `testbed` is the testbed, with its taps in `program` and `sys`. The generators in `method`
//! measure the network functions in `function`. `run` runs the turns, `agreement` compares the
//! methods with the taps, and `out` writes the results.

mod agreement;
mod flow;
mod frame;
mod function;
mod method;
mod out;
mod processors;
mod program;
mod run;
mod sys;
mod testbed;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use run::Size;

/// Measure a network function by four methods, under four configurations of the system.
#[derive(Debug, Parser)]
#[command(
    after_help = "Exit codes: 0 done; 1 not everything could be measured; 2 bad input; 3 the environment \
                  lacks something"
)]
struct Args {
    /// Run only two turns of a third of a second each, which takes about a minute in all
    #[arg(long)]
    smoke: bool,
    /// Folder for the report, its pictures and the data
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match work(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Runs the measurement and returns whether it is complete.
fn work(args: &Args) -> Result<bool> {
    // Five turns are enough for p99.99, even if some packets are missing.
    let (seconds, repetitions) = if args.smoke { (0.3, 2) } else { (2.2, 5) };
    let results = run::run(Size { rate: 10_000.0, seconds, repetitions })?;
    out::write(&args.out, &results)?;
    println!("{}", out::text(&results));
    eprintln!("the report is {}", args.out.join(out::PAGE).display());
    Ok(results.whole())
}
