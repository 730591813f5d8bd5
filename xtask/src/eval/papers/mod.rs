//! `cargo xtask eval papers NAME`: what documents 000 and 001 publish, beside what we simulate.

pub(crate) mod claims;
mod table;

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;

pub(crate) use table::{Row, Verdict};

/// What to redraw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// What the texts say about figures 4.1 to 5.3 (000) and 2 to 7 (001), in numbers
    Claims,
}

/// How to evaluate.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Which figure, table or set of claims
    name: Name,
    /// Fewer requests: minutes become seconds, and verdicts less sure
    #[arg(long)]
    smoke: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<bool> {
    let rows = match args.name {
        Name::Claims => claims::judge(root, args.smoke)?,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&table::json(&rows))?);
    } else {
        print!("{}", table::render(&rows));
    }
    Ok(rows.iter().all(|row| row.verdict != Verdict::Differs))
}
