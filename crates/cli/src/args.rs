//! What verbs share: a flag has one name and one meaning, wherever it occurs.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::RangedI64ValueParser;
use clap::value_parser;
use curtail_load::Trust;
use curtail_sim::check_percentiles;

use crate::exit::Stop;
use crate::say;
use crate::sim::length::check_length;

/// The flag of programs.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Json {
    /// Print one JSON document on stdout
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// The seed, where no file may have another.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Seed {
    /// Decides every draw: the same seed, the same run
    #[arg(long, default_value_t = 42, value_name = "N")]
    pub(crate) seed: u64,
}

/// Which certificates of a server are accepted.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct TrustArgs {
    /// Trust the authorities in this file (PEM) rather than the system's
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Trust any certificate at all
    #[arg(short = 'k', long, conflicts_with = "cacert")]
    insecure: bool,
}

impl TrustArgs {
    pub(crate) fn trust(&self) -> Trust {
        match &self.cacert {
            Some(file) => Trust::File(file.clone()),
            None if self.insecure => Trust::Anyone,
            None => Trust::System,
        }
    }

    /// Warns about --insecure, once the plan is known to be valid.
    pub(crate) fn warn(&self) {
        if self.insecure {
            say::aside(
                "warning: --insecure: any certificate is accepted, so whoever answers could be anybody",
            );
        }
    }
}

/// Work that takes processors and time.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Simulation")]
pub(crate) struct Effort {
    /// Threads; the figures do not depend on them [default: all cores]
    #[arg(short, long, value_name = "N", value_parser = within(&(1..=1024)))]
    threads: Option<u32>,
    /// Go on although it takes more than an hour
    #[arg(long)]
    yes: bool,
}

impl Effort {
    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from).min(1024);
        self.threads.map_or_else(cores, |threads| threads as usize)
    }

    /// Refuses work that takes long, unless it was asked for; `less` is what to ask less of.
    pub(crate) fn check(&self, events: f64, speed: f64, less: &str) -> Result<(), Stop> {
        if self.yes { Ok(()) } else { check_length(events, speed, less) }
    }
}

/// Times of a service, as distributions.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Service")]
pub(crate) struct ServiceTimes {
    /// P, a query's own service time, the same for all of its copies [default: exp:1]
    #[arg(long, alias = "service", value_name = "DIST")]
    pub(crate) service_time: Option<String>,
    /// J, what each copy adds: hiccups, as bimodal:0.001:15 [default: none]
    #[arg(long, value_name = "DIST")]
    pub(crate) jitter: Option<String>,
}

/// Which percentiles are reported.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct Percentiles {
    /// Percentiles to report [default: 50,95,99,99.9]
    #[arg(long, value_name = "P,…", value_delimiter = ',')]
    percentiles: Option<Vec<f64>>,
}

impl Percentiles {
    /// Those of the flag, else those of a file, else the usual ones.
    pub(crate) fn checked(&self, of_file: Option<Vec<f64>>) -> Result<Vec<f64>, Stop> {
        let given = self.percentiles.clone().or(of_file);
        let percentiles = given.unwrap_or_else(|| curtail_sim::PERCENTILES.to_vec());
        check_percentiles(&percentiles).map_err(of_flag)?;
        Ok(percentiles)
    }
}

/// Whole numbers of a range.
pub(crate) fn within(range: &RangeInclusive<u32>) -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(i64::from(*range.start())..=i64::from(*range.end()))
}

/// What begins with the name of a flag.
pub(crate) fn of_flag(error: impl std::fmt::Display) -> Stop {
    Stop::BadInput(format!("--{error}"))
}
