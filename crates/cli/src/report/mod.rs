//! `curtail report`: compares load runs.

mod page;
mod run;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use curtail_load::Percentiles;
use run::{Figures, Run};
use serde::Serialize;

use crate::args::Json;
use crate::exit::{Stop, bad, lacking};
use crate::load::out::{LOG, RESULT};
use crate::load::table::{BOUNDS, bounded, line, times as latencies};
use crate::out::write_whole;
use crate::say;

/// Compare load runs: percentiles side by side, with ratios to the first run.
///
/// Reads results of `curtail load --out`, and interval logs of HdrHistogram, which many load
/// generators write.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail report before after --out compared.html
  curtail report results other-tool.hlog")]
pub(crate) struct Args {
    /// Directories that curtail load --out wrote, or interval logs (.hlog)
    #[arg(required = true, value_name = "DIR_OR_FILE")]
    runs: Vec<PathBuf>,
    /// Write a page with the table and the distributions
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the page
    #[arg(long, requires = "out")]
    force: bool,
    #[command(flatten)]
    output: Json,
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    runs: &'a [Figures],
}

fn is_read(place: &Path, runs: &[PathBuf]) -> bool {
    let mut read = runs.iter().flat_map(|run| [run.clone(), run.join(RESULT), run.join(LOG)]);
    read.any(|file| file.canonicalize().is_ok_and(|file| file == place))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let runs: Vec<Run> = args.runs.iter().map(|path| run::read(path)).collect::<Result<_, _>>()?;
    let figures = Figures::of(&runs);
    if let Some(out) = &args.out {
        let why = match out.canonicalize() {
            // A page must not overwrite a run that it describes, not even with `--force`.
            Ok(place) if is_read(&place, &args.runs) => "a run is read from it; give another file",
            _ if !args.force && out.symlink_metadata().is_ok() => {
                "it exists already; give another file, or --force to overwrite it"
            }
            _ => "",
        };
        if !why.is_empty() {
            return Err(bad!("--out {}: {why}", out.display()));
        }
    }
    // Print the table even if the page cannot be written, and write the page even if stdout is
    // closed.
    let document = Document { runs: &figures };
    let printed = say::answer(args.output.json, &document, || say::plain(&text(&figures)));
    if let Some(out) = &args.out {
        let page = page::render(&runs, &figures);
        write_whole(out, true, |file| writeln!(file, "{}", page.trim_end())).map_err(|error| {
            let out = out.display();
            lacking!("cannot write {out}: {error}; free some space, or give another --out")
        })?;
    }
    printed.map(|()| ExitCode::SUCCESS)
}

/// Renders a line about each run, and the table.
fn text(all: &[Figures]) -> String {
    let mut text: String = all.iter().map(|figures| about(figures) + "\n").collect();
    text.push('\n');
    let mut table = latencies("latency");
    let mut line = |name: &str, cells: &[Option<String>]| line(&mut table, name, cells);
    for figures in all {
        line(&figures.name, &bounded(&figures.latency_ns, &figures.latency_at_least));
        if let Some(ratios) = figures.ratio_to_first {
            line("", &ratios.each().map(|ratio| ratio.map(times)));
        }
        if let Some(sure) = figures.ratio_ci95.filter(Percentiles::any) {
            let known = |[low, high]: [f64; 2]| format!("×{low:.2}–{high:.2}");
            line("95 % CI", &sure.each().map(|interval| interval.map(known)));
        }
    }
    text += &table.bare();
    if all.iter().any(|figures| figures.ratio_to_first.is_some()) {
        text += &format!("\n×: relative to {}", all[0].name);
    }
    if all.iter().any(|figures| !figures.latency_at_least.is_empty()) {
        text += &format!("\n{BOUNDS}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// Formats a ratio: `×1.25`.
pub(super) fn times(ratio: f64) -> String {
    format!("×{ratio:.2}")
}

/// A line about a run. If the run is not valid, the reasons are below it.
fn about(figures: &Figures) -> String {
    let mut parts = Vec::new();
    parts.extend(figures.target.clone());
    parts.extend((figures.closed_loop == Some(true)).then(|| "closed loop".to_owned()));
    parts.extend(figures.offered_rate.map(|rate| format!("offered {rate:.1}/s")));
    parts.extend(figures.achieved_rate.map(|rate| format!("achieved {rate:.1}/s")));
    parts.extend(figures.requests.map(|requests| format!("{requests} requests")));
    parts.extend(figures.errors.map(|errors| format!("{errors} without a good response")));
    if figures.target.is_none() {
        parts.push("latencies only, so its validity is unknown".to_owned());
    }
    let mut text = format!("{}: {}", figures.name, parts.join(", "));
    for why in figures.reasons() {
        let _ = write!(text, "\n  invalid: {why}");
    }
    if figures.closed_loop == Some(true) {
        text += "\n  closed loop: the latencies exclude the wait of requests that would arrive \
                 while connections are busy";
    }
    text
}
