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
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};
use run::Size;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Measure a network function by four methods, under four configurations of the system.
#[derive(Debug, Parser)]
#[command(
    after_help = "Exit codes: 0 done; 1 not everything could be measured; 2 bad input; 3 the environment \
                  lacks something; 130 interrupted, with partial results"
)]
struct Args {
    /// A third of a second for each turn, and two turns: about a minute
    #[arg(long)]
    smoke: bool,
    /// Packets per second
    #[arg(long, default_value_t = 10_000.0, value_parser = rate)]
    rate: f64,
    /// For how long a method measures in a turn
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Turns of each method with each subject
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repetitions: Option<u32>,
    /// Where the report, its pictures and the data go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Args {
    fn size(&self) -> Size {
        // Five turns are enough for p99.99, with some packets to miss.
        let (seconds, repetitions) = if self.smoke { (0.3, 2) } else { (2.2, 5) };
        Size {
            rate: self.rate,
            seconds: self.seconds.unwrap_or(seconds),
            repetitions: self.repetitions.unwrap_or(repetitions),
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    within(text, 100.0, 200_000.0, "packets per second")
}

fn seconds(text: &str) -> Result<f64, String> {
    within(text, 0.05, 600.0, "seconds")
}

fn within(text: &str, low: f64, high: f64, unit: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (low..=high).contains(value));
    value.ok_or_else(|| format!("give {low} to {high} {unit}"))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let size = args.size();
    if let Err(why) = size.check() {
        Args::command().error(ErrorKind::ValueValidation, why).exit();
    }
    match work(&args, size) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn work(args: &Args, size: Size) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot take signals")?;
    }
    let results = run::run(size, &stop)?;
    out::write(&args.out, &results)?;
    if args.json {
        out::print(&serde_json::to_string_pretty(&out::document(&results))?);
    } else {
        out::print(&out::text(&results));
    }
    eprintln!("the report is {}", args.out.join(out::PAGE).display());
    Ok(match (results.partial, results.whole()) {
        (true, _) => ExitCode::from(130),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_no_more_packets_than_memory_is_meant_for() {
        let check = |line: &str| {
            let words = ["measuring", "--out", "x"].into_iter().chain(line.split_whitespace());
            Args::try_parse_from(words).expect("flags").size().check()
        };
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("--smoke --rate 200000"), Ok(()));
        assert_eq!(check("--rate 30000 --seconds 600"), Ok(()));
        let why = check("--rate 200000 --seconds 600").expect_err("100 million");
        assert!(why.contains("--rate") && why.contains("--seconds"), "{why}");
        assert!(why.contains("120100000 packets"), "{why}");
    }
}
