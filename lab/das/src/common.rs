//! What the verbs share: options, and how results are printed.

use anyhow::Result;
use clap::value_parser;
use serde::Serialize;

/// The options that the verbs with stages share.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Program that runs the stages on the servers
    #[arg(long, value_name = "FILE", default_value = "target/release/curtail")]
    pub(crate) curtail: String,
    /// Number of rounds, in each of which every contender has a turn
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u16).range(1..=100))]
    pub(crate) rounds: u16,
    /// Print the results on one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints results as JSON, on one line or for a reader.
pub(crate) fn print(results: &impl Serialize, is_dense: bool) -> Result<()> {
    let print = if is_dense { serde_json::to_string } else { serde_json::to_string_pretty };
    println!("{}", print(results)?);
    Ok(())
}
