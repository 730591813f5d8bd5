//! `curtail report`: runs of load side by side, or added up.

mod page;
mod ratio;
mod read;
mod run;
mod table;
#[cfg(test)]
mod tests;
mod together;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::exit::Stop;
use crate::load::out::{LOG, RESULT};
use crate::say;
use run::{Figures, Run};

/// Compare runs of load: percentiles side by side, with ratios to the first one.
///
/// Reads what `curtail load --out` wrote, and interval logs of HdrHistogram, as many other load
/// generators write them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail report before after --out compared.html
  curtail report results other-tool.hlog
  curtail report --merge from-machine-a from-machine-b")]
pub(crate) struct Args {
    /// Directories of curtail load --out, or interval logs (.hlog)
    #[arg(required = true, value_name = "DIR_OR_FILE")]
    runs: Vec<PathBuf>,
    /// Add them up and report one load, which several machines sent
    #[arg(long)]
    merge: bool,
    /// Write a page with the table and the distributions
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the page
    #[arg(long, requires = "out")]
    force: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

/// The exit code where the sum is of no valid load.
const NOT_VALID: u8 = 1;

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    #[serde(skip_serializing_if = "Option::is_none")]
    merged: Option<Figures>,
    runs: Vec<Figures>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    if args.merge {
        together::each_once(&args.runs)?;
    }
    let runs: Vec<Run> = args.runs.iter().map(|path| read::run(path)).collect::<Result<_, _>>()?;
    let merged = if args.merge { Some(run::merged(&runs)?) } else { None };
    if let Some(out) = &args.out {
        not_over_a_run(out, &args.runs)?;
        if out.symlink_metadata().is_ok() && !args.force {
            let why = format!(
                "--out {}: it is there already; give another file, or --force to overwrite it",
                out.display()
            );
            return Err(Stop::BadInput(why));
        }
    }
    if args.json {
        // Parts of one load are not to be compared, nor is a run with itself.
        let first = runs.first().filter(|_| merged.is_none());
        let figures = |(place, run): (usize, &Run)| run.figures(first.filter(|_| place > 0));
        let document = Document {
            merged: merged.as_ref().map(|merged| merged.figures(None)),
            runs: runs.iter().enumerate().map(figures).collect(),
        };
        say::result(crate::json(&document)?)?;
    } else {
        say::result(say::plain(&table::text(merged.as_ref(), &runs)))?;
    }
    // What was read is told even where the page cannot be written.
    if let Some(out) = &args.out {
        write(out, &page::render(merged.as_ref(), &runs))?;
    }
    // As of a load that was sent by agents.
    let valid = merged.as_ref().and_then(Run::valid);
    Ok(if valid == Some(false) { ExitCode::from(NOT_VALID) } else { ExitCode::SUCCESS })
}

/// Nobody means to lose a run for a page about it, by force or not.
fn not_over_a_run(out: &Path, runs: &[PathBuf]) -> Result<(), Stop> {
    let Ok(place) = out.canonicalize() else { return Ok(()) };
    let read = runs.iter().flat_map(|run| [run.clone(), run.join(RESULT), run.join(LOG)]);
    let over = |file: PathBuf| file.canonicalize().is_ok_and(|file| file == place);
    if read.into_iter().any(over) {
        let out = out.display();
        let why = format!("--out {out}: it is what a run is read of; give another file");
        return Err(Stop::BadInput(why));
    }
    Ok(())
}

fn write(out: &Path, text: &str) -> Result<(), Stop> {
    let cannot = |error: std::io::Error| {
        let out = out.display();
        Stop::Lacking(format!(
            "cannot write {out}: {error}; make room for it, or give another --out"
        ))
    };
    let mut file = File::create(out).map_err(cannot)?;
    file.write_all(text.as_bytes()).map_err(|error| {
        // Half a page is not to be taken for the whole. What is no plain file is left alone.
        if out.symlink_metadata().is_ok_and(|found| found.is_file()) {
            let _ = std::fs::remove_file(out);
        }
        cannot(error)
    })
}
