//! `curtail report`: compares load runs.

mod page;
mod read;
mod run;
mod table;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::exit::Stop;
use crate::load::out::{LOG, RESULT, write_whole};
use crate::say;
use run::{Figures, Run};

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
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
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
    let runs: Vec<Run> = args.runs.iter().map(|path| read::run(path)).collect::<Result<_, _>>()?;
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
            return Err(Stop::BadInput(format!("--out {}: {why}", out.display())));
        }
    }
    // Print the table even if the page cannot be written, and write the page even if stdout is
    // closed.
    let printed = match args.json {
        true => say::result(crate::json(&Document { runs: &figures })?),
        false => say::result(say::plain(&table::text(&figures))),
    };
    if let Some(out) = &args.out {
        write_whole(out, &page::render(&runs, &figures), true).map_err(|error| {
            let out = out.display();
            Stop::Lacking(format!(
                "cannot write {out}: {error}; free some space, or give another --out"
            ))
        })?;
    }
    printed.map(|()| ExitCode::SUCCESS)
}
