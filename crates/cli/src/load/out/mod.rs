//! The results that a run writes with `--out`.
//!
//! A write error during the run must not lose the measurement: it is reported at the end, after the report.

mod document;
mod figures;
mod files;
mod page;
mod samples;
mod series;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use curtail_dist::LogWriter;
use curtail_load::{Plan, Report, Snapshot};

use crate::exit::Stop;
use crate::plot::distribution::Share;
use crate::plot::{FIGURE_SIZES, picture};
use crate::say;
use document::{Document, Started};
use files::{File, Folder};
use samples::Table;
use series::Series;

pub(crate) use document::FORMAT;
pub(crate) use files::{LOG, RESULT, UNANSWERED, make_directory, remove, write_whole};

/// Flags that choose the results and their directory.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Outputs {
    /// Write the results to this directory: result.json, latency.hlog, samples.csv, report.html,
    /// plots
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite results in the directory
    #[arg(long, requires = "out")]
    force: bool,
    /// Format of the table with a row per request: csv, parquet, or none [default: csv, or none
    /// with --agents]
    #[arg(long, value_name = "FORMAT", requires = "out", hide_default_value = true)]
    samples: Option<Format>,
}

/// The format of samples.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Format {
    None,
    Csv,
    Parquet,
}

/// The results of a run in progress.
pub(super) struct Results {
    folder: Folder,
    pub(super) snapshots: Snapshots,
    pub(super) samples: Option<Table>,
    started: Started,
}

/// The outputs that grow with each snapshot.
pub(super) struct Snapshots {
    /// `None` after a write error.
    log: Option<LogWriter<File>>,
    warmup_ns: u64,
    series: Series,
    error: Option<String>,
}

impl Outputs {
    /// Creates the directory and its files; returns `None` without `--out`.
    pub(super) fn begin(&self, plan: &Plan, agents: bool) -> Result<Option<Results>, Stop> {
        if agents && self.samples.is_some_and(|format| format != Format::None) {
            return Err(Stop::BadInput(
                "--samples: agents report histograms, not single requests; leave it out".to_owned(),
            ));
        }
        let default = if agents { Format::None } else { Format::Csv };
        let format = self.samples.unwrap_or(default);
        if format == Format::Parquet && !cfg!(feature = "parquet") {
            return Err(Stop::Lacking(
                "this curtail was built without Parquet; give --samples csv, or rebuild it: cargo \
                 build --release --features parquet"
                    .to_owned(),
            ));
        }
        let Some(path) = &self.out else { return Ok(None) };
        let mut folder = Folder::open(path, self.force)?;
        let started = Started::now();
        let begun = folder.begin(LOG).and_then(|file| {
            let comment = format!("Latencies of {} in nanoseconds, by curtail load", plan.target);
            let log = LogWriter::new(file, &comment, Started::since_1970());
            let log = Some(log.map_err(|error| folder.refused(LOG, &error))?);
            let samples = match format {
                Format::None => None,
                format => Some(Table::begin(&mut folder, format)?),
            };
            Ok((log, samples))
        });
        match begun {
            Ok((log, samples)) => {
                let warmup_ns = plan.warmup_ns;
                let snapshots =
                    Snapshots { log, warmup_ns, series: Series::default(), error: None };
                Ok(Some(Results { folder, snapshots, samples, started }))
            }
            Err(stop) => {
                folder.discard();
                Err(stop)
            }
        }
    }
}

impl Snapshots {
    /// Adds the latencies of the last interval.
    pub(super) fn see(&mut self, at: &Snapshot) {
        let (from_ns, until_ns) = (at.recent_from_ns.max(self.warmup_ns), at.recent_until_ns);
        // Skips the warm-up and empty intervals, but keeps the latencies of an interval of length
        // zero.
        if until_ns <= from_ns && at.recent.is_empty() {
            return;
        }
        let length_ns = until_ns.saturating_sub(from_ns);
        self.series.add((from_ns, from_ns + length_ns), &at.recent);
        let Some(log) = &mut self.log else { return };
        let [from, length] = [from_ns, length_ns].map(Duration::from_nanos);
        if let Err(error) = log.write(&at.recent, from, length) {
            self.error = Some(error.to_string());
            self.log = None;
        }
    }
}

impl Results {
    /// Removes the files of a run without measurements.
    pub(super) fn discard(self) {
        self.folder.discard();
    }

    /// A log of the requests without a good answer; `None` if all requests had one.
    fn unanswered(&self, plan: &Plan, report: &Report) -> Option<String> {
        let counted = &report.at_least_histogram;
        if counted.is_empty() {
            return None;
        }
        let comment = format!(
            "Requests to {} without a good response: lower bounds of their latencies",
            plan.target
        );
        let mut bytes = Vec::new();
        // Writing to memory fails only if no memory is left.
        let mut log = LogWriter::new(&mut bytes, &comment, self.started.at()).ok()?;
        let [from, length] = [plan.warmup_ns, report.measured_ns].map(Duration::from_nanos);
        log.write(counted, from, length).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Writes the remaining files. The error names the files that could not be written, and the
    /// reasons.
    pub(super) fn finish(mut self, plan: &Plan, report: &Report) -> Result<(), Stop> {
        let mut errors = Vec::new();
        let cannot = |name: &str, why: &str| {
            format!("cannot write {}: {why}", self.folder.path(name).display())
        };
        if let Some(why) = &self.snapshots.error {
            errors.push(cannot(LOG, why));
        }
        if let Some(samples) = self.samples.take() {
            let name = samples.name;
            errors.extend(samples.finish().err().map(|error| cannot(name, &error.to_string())));
        }
        // The contents of files that were removed are lost.
        let gone = self.folder.gone();
        errors.extend(gone.map(|name| cannot(name, "it was removed during the run")));
        let document = Document::new(plan, report, &self.started);
        let mut files = vec![(RESULT, Some(crate::json(&document)?))];
        let figures = figures::Figures { plan, report, series: &self.snapshots.series };
        files.push((UNANSWERED, self.unanswered(plan, report)));
        files.push((files::PAGE, Some(page::render(&document, &figures))));
        for (name, share) in [(files::CDF, Share::Below), (files::CCDF, Share::Above)] {
            let plot = figures.distribution(share, FIGURE_SIZES[0]);
            files.push((name, plot.and_then(|svg| picture(&svg))));
        }
        for (name, text) in files {
            let written = text.map(|text| self.folder.write(name, &text));
            errors.extend(written.and_then(Result::err).map(|why| cannot(name, &why.to_string())));
        }
        if errors.is_empty() {
            let page = self.folder.path(files::PAGE);
            say::aside(format_args!("the report is {}", page.display()));
            return Ok(());
        }
        let errors = errors.join("\n  ");
        Err(Stop::Lacking(format!("{errors}\n  the report on standard output is complete")))
    }
}
