//! Chapter 3 of document 000 again: how far to believe what measures microseconds.
//!
//! A flow of UDP packets goes through a network function between network namespaces. Taps in the kernel
//! write into each packet when it arrived at the function and when it returned to the generator: that is
//! what there is in place of a hardware appliance. Four methods measure the same packets from the generator.
//!
//! `world` is the testbed, `program` and `sys` the taps; `function` is what is measured, `method` how;
//! `run` has the turns; `agree` compares; `out` tells.

mod agree;
mod frame;
mod function;
mod method;
mod out;
mod place;
mod program;
mod run;
mod slice;
mod sys;
mod worker;
mod world;

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
    /// A third of a second for each turn, and two turns: about a minute
    #[arg(long)]
    smoke: bool,
    /// Where the report, its pictures and the data go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
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

/// Whether everything was measured.
fn work(args: &Args) -> Result<bool> {
    // Five turns are enough for p99.99, with some packets to miss.
    let (seconds, repetitions) = if args.smoke { (0.3, 2) } else { (2.2, 5) };
    let results = run::run(Size { rate: 10_000.0, seconds, repetitions })?;
    out::write(&args.out, &results)?;
    match args.json {
        true => println!("{:#}", out::document(&results)),
        false => println!("{}", out::text(&results)),
    }
    eprintln!("the report is {}", args.out.join(out::PAGE).display());
    Ok(results.whole())
}
