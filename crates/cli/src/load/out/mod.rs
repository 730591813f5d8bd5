//! The results that a run writes with `--out`.
//!
//! A write error during the run must not lose the measurement: it is reported at the end, after the report.

mod document;
mod figures;
mod page;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use curtail_dist::LogWriter;
use curtail_load::{Outcome, Plan, Report, Snapshot};
use curtail_report::chart::distribution::Share;
use curtail_report::chart::frame::Size;
use curtail_report::columns::{Kind, Row, Schema, Writer};
use curtail_report::page::picture;
use document::{Document, Started};
use figures::Series;

use crate::exit::{Stop, bad, lacking};
use crate::out::Folder;
use crate::say;

pub(crate) use document::FORMAT;

/// The report and the plan, as JSON.
pub(crate) const RESULT: &str = "result.json";
/// The latencies by interval.
pub(crate) const LOG: &str = "latency.hlog";
/// Lower bounds for the latencies of requests without a good answer, by interval.
pub(crate) const UNANSWERED: &str = "unanswered.hlog";
const PAGE: &str = "report.html";
const CDF: &str = "cdf.svg";
const CCDF: &str = "ccdf.svg";
const CSV: &str = "samples.csv";
const PARQUET: &str = "samples.parquet";

/// All files that a run may write.
const ALL: [&str; 8] = [RESULT, LOG, UNANSWERED, PAGE, CDF, CCDF, CSV, PARQUET];

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
            return Err(bad!(
                "--samples: agents report histograms, not single requests; leave it out"
            ));
        }
        let default = if agents { Format::None } else { Format::Csv };
        let format = self.samples.unwrap_or(default);
        if format == Format::Parquet && !cfg!(feature = "parquet") {
            return Err(lacking!(
                "this curtail was built without Parquet; give --samples csv, or rebuild it: cargo \
                 build --release --features parquet"
            ));
        }
        let Some(path) = &self.out else { return Ok(None) };
        let mut folder = Folder::open(path, self.force, "run", |name| ALL.contains(&name))?;
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
        self.series.add(from_ns..from_ns + length_ns, &at.recent);
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

    /// Writes the remaining files. The error names the files that could not be written, and the
    /// reasons.
    pub(super) fn finish(mut self, plan: &Plan, report: &Report) -> Result<(), Stop> {
        let mut folder = self.folder;
        if let Some(why) = &self.snapshots.error {
            folder.lost(LOG, why);
        }
        if let Some(samples) = self.samples.take() {
            let name = samples.name;
            if let Err(error) = samples.finish() {
                folder.lost(name, error);
            }
        }
        let document = Document::new(plan, report, &self.started);
        let figures = figures::Figures { plan, report, series: &self.snapshots.series };
        folder.write_text(RESULT, Some(say::json(&document)?));
        folder.write_text(UNANSWERED, unanswered(plan, report, &self.started));
        folder.write_text(PAGE, Some(page::render(&document, &figures)));
        for (name, share) in [(CDF, Share::Below), (CCDF, Share::Above)] {
            let plot = figures.distribution(share, Size::WIDE);
            folder.write_text(name, plot.and_then(|svg| picture(&svg)));
        }
        let page = folder.path(PAGE);
        folder.finish()?;
        say::aside(format_args!("the report is {}", page.display()));
        Ok(())
    }
}

/// A log of the requests without a good answer; `None` if all requests had one.
fn unanswered(plan: &Plan, report: &Report, started: &Started) -> Option<String> {
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
    let mut log = LogWriter::new(&mut bytes, &comment, started.at()).ok()?;
    let [from, length] = [plan.warmup_ns, report.measured_ns].map(Duration::from_nanos);
    log.write(counted, from, length).ok()?;
    String::from_utf8(bytes).ok()
}

/// The number of rows per write.
const ROWS: usize = 1 << 14;

const COLUMNS: [(&str, Kind); 11] = [
    ("index", Kind::Whole),
    ("query", Kind::Whole),
    ("intended_ns", Kind::Whole),
    ("taken_ns", Kind::Whole),
    ("sent_ns", Kind::Whole),
    ("done_ns", Kind::Whole),
    ("kernel_sent_ns", Kind::Whole),
    ("kernel_received_ns", Kind::Whole),
    ("status", Kind::Text),
    ("good", Kind::Bool),
    ("body_bytes", Kind::Whole),
];

/// The table of samples. After an error it ignores further rows and reports the error at the end.
pub(crate) struct Table {
    pub(super) name: &'static str,
    rows: Vec<Row>,
    to: Writer<File>,
    error: Option<io::Error>,
}

impl Table {
    fn begin(folder: &mut Folder, format: Format) -> Result<Self, Stop> {
        let schema: Schema = COLUMNS.map(|(name, kind)| (name.to_owned(), kind)).into();
        let name = if format == Format::Parquet { PARQUET } else { CSV };
        let file = folder.begin(name)?;
        let to = match format {
            #[cfg(feature = "parquet")]
            Format::Parquet => Writer::parquet(file, &schema),
            _ => Writer::csv(file, &schema),
        };
        let to = to.map_err(|error| folder.refused(name, &error))?;
        Ok(Self { name, rows: Vec::new(), to, error: None })
    }

    /// Adds a row.
    pub(crate) fn see(&mut self, sample: &Outcome) {
        if self.error.is_some() {
            return;
        }
        self.rows.push(vec![
            sample.slot.index.into(),
            (sample.slot.query as u64).into(),
            sample.slot.at_ns.into(),
            sample.taken_ns.into(),
            sample.sent_ns.into(),
            sample.done_ns.into(),
            sample.left_ns.into(),
            sample.came_ns.into(),
            sample.ending().into(),
            sample.good().into(),
            sample.body_bytes().into(),
        ]);
        if self.rows.len() == ROWS {
            self.error = self.to.write(&self.rows).err();
            self.rows.clear();
        }
    }

    /// Writes the remaining rows.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.to.write(&self.rows)?;
        self.to.finish().map(drop)
    }
}
