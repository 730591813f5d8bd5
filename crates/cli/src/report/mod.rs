//! `curtail report`: runs of load side by side.

mod page;
mod read;
mod run;
mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use crate::exit::Stop;
use crate::load::out::write_whole;
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
  curtail report results other-tool.hlog")]
pub(crate) struct Args {
    /// Directories of curtail load --out, or interval logs (.hlog)
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

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let runs: Vec<Run> = args.runs.iter().map(|path| read::run(path)).collect::<Result<_, _>>()?;
    let figures = Figures::of(&runs);
    if let Some(out) = &args.out
        && out.symlink_metadata().is_ok()
        && !args.force
    {
        let why = format!(
            "--out {}: it is there already; give another file, or --force to overwrite it",
            out.display()
        );
        return Err(Stop::BadInput(why));
    }
    if args.json {
        say::result(crate::json(&Document { runs: &figures })?)?;
    } else {
        say::result(say::plain(&table::text(&figures)))?;
    }
    // What was read is printed even where the page cannot be written.
    if let Some(out) = &args.out {
        write_whole(out, &page::render(&runs, &figures), true).map_err(|error| {
            let out = out.display();
            Stop::Lacking(format!(
                "cannot write {out}: {error}; make room for it, or give another --out"
            ))
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
