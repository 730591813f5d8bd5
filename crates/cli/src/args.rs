//! Arguments that several verbs share. A flag has the same name and meaning in all of them.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::RangedI64ValueParser;
use clap::value_parser;
use curtail_load::Trust;
use curtail_sim::check_percentiles;

use crate::exit::{Stop, bad};
use crate::say;
use crate::sim::length::check_length;

/// The `--json` flag.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Json {
    /// Print one JSON document on stdout
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// The `--seed` flag of verbs that do not read a seed from a file.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Seed {
    /// Seed of all random draws; the same seed gives the same run
    #[arg(long, default_value_t = 42, value_name = "N")]
    pub(crate) seed: u64,
}

/// Flags that choose which server certificates to accept.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct TrustArgs {
    /// Trust the certificate authorities in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Accept any server certificate
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

    /// Warns about `--insecure`. Called after the plan has been validated.
    pub(crate) fn warn(&self) {
        if self.insecure {
            say::aside(
                "warning: --insecure: any certificate is accepted, so the server could be an \
                 impostor",
            );
        }
    }
}

/// Flags of verbs that simulate on many cores and may take a long time.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Simulation")]
pub(crate) struct Effort {
    /// Number of threads; the results do not depend on it [default: all cores]
    #[arg(short, long, value_name = "N", value_parser = within(&(1..=1024)))]
    threads: Option<u32>,
    /// Run even if the estimate is more than an hour
    #[arg(long)]
    yes: bool,
}

impl Effort {
    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from).min(1024);
        self.threads.map_or_else(cores, |threads| threads as usize)
    }

    /// Returns an error if the work would take too long, unless `--yes` is set. The error suggests
    /// reducing the parameter that `less` names.
    pub(crate) fn check(&self, events: f64, speed: f64, less: &str) -> Result<(), Stop> {
        if self.yes { Ok(()) } else { check_length(events, speed, less) }
    }
}

/// Flags that set the service-time distributions.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Service")]
pub(crate) struct ServiceTimes {
    /// Service time of a query (P), the same for all of its copies [default: exp:1]
    #[arg(long, alias = "service", value_name = "DIST")]
    pub(crate) service_time: Option<String>,
    /// Time that each copy adds (J), such as hiccups: bimodal:0.001:15 [default: none]
    #[arg(long, value_name = "DIST")]
    pub(crate) jitter: Option<String>,
}

/// The `--percentiles` flag.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct Percentiles {
    /// Percentiles to report [default: 50,95,99,99.9]
    #[arg(long, value_name = "P,…", value_delimiter = ',')]
    percentiles: Option<Vec<f64>>,
}

impl Percentiles {
    /// Returns the percentiles from the flag, or else from the file, or else the defaults.
    pub(crate) fn checked(&self, of_file: Option<Vec<f64>>) -> Result<Vec<f64>, Stop> {
        let given = self.percentiles.clone().or(of_file);
        let percentiles = given.unwrap_or_else(|| curtail_sim::PERCENTILES.to_vec());
        check_percentiles(&percentiles).map_err(of_flag)?;
        Ok(percentiles)
    }
}

/// Parses a number that fits. Otherwise, the error is what to write instead.
pub(crate) fn number(
    text: &str,
    fits: impl FnOnce(f64) -> bool,
    write: impl Into<String>,
) -> Result<f64, String> {
    text.trim().parse().ok().filter(|&number| fits(number)).ok_or_else(|| write.into())
}

/// Parses a part of something, which may be all of it.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let write = "write a fraction above 0 and up to 1, such as 0.5";
    number(text, |share| share > 0.0 && share <= 1.0, write)
}

/// Parses a duration in nanoseconds, with its unit.
pub(crate) fn span(text: &str) -> Result<u64, String> {
    curtail_kernel::duration::parse(text).map_err(|error| error.to_string())
}

/// Parses a duration of at least `least_ns`. Otherwise, the error is what to write instead.
pub(crate) fn span_from(least_ns: u64, write: &str, text: &str) -> Result<u64, String> {
    span(text).and_then(|ns| if ns >= least_ns { Ok(ns) } else { Err(write.to_owned()) })
}

/// Parses a share in percent.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let inside = |percent: f64| percent > 0.0 && percent < 100.0;
    let write = "write a share above 0% and below 100%, such as 2%";
    let digits = text.strip_suffix('%').ok_or(write)?;
    number(digits, inside, write).map(|percent| percent / 100.0)
}

/// Returns a parser for whole numbers in a range.
pub(crate) fn within(range: &RangeInclusive<u32>) -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(i64::from(*range.start())..=i64::from(*range.end()))
}

/// Reports an error as bad input. The text of the error must begin with the name of a flag, without
/// its dashes.
pub(crate) fn of_flag(error: impl std::fmt::Display) -> Stop {
    bad!("--{error}")
}
