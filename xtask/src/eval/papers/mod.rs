//! `cargo xtask eval papers NAME`: what documents 000 and 001 publish, beside what we simulate.

pub(crate) mod claims;
mod curves;
mod figures;
pub(crate) mod measuring;
pub(crate) mod surface;
mod table;

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;

pub(crate) use table::{Row, Verdict};

/// What to redraw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// What the texts say about the running example, in numbers
    Claims,
    /// 001 Fig. 2a (000 Fig. 4.1a): balances and naive hedge
    #[value(name = "paper-2a")]
    Balances,
    /// 001 Fig. 2b (000 Fig. 4.1b): the same without hiccups
    #[value(name = "paper-2b")]
    WithoutHiccups,
    /// 001 Fig. 4 (000 Fig. 4.5): Idealized Hedge
    #[value(name = "paper-4")]
    Idealized,
    /// 001 Fig. 7a (000 Fig. 5.2, 5.3, 5.4a): LÆDGE
    #[value(name = "paper-7a")]
    Laedge,
    /// 001 Fig. 7b (000 Fig. 5.4b): LÆDGE with three replicas
    #[value(name = "paper-7b")]
    LaedgeThree,
    /// 001 Fig. 7c (000 Fig. 5.4c): LÆDGE with six
    #[value(name = "paper-7c")]
    LaedgeSix,
    /// 000 Fig. 4.2: balances and naive hedge with more replicas
    #[value(name = "thesis-4.2")]
    MoreReplicas,
    /// 000 Fig. 4.4: Idealized Hedge with more replicas
    #[value(name = "thesis-4.4")]
    IdealizedMore,
    /// 000 Fig. 4.6: delays
    #[value(name = "thesis-4.6")]
    Delays,
    /// 000 Fig. 4.7: heat maps of Idealized Hedge, those of Table 5.1 and three more
    #[value(name = "thesis-4.7")]
    Potential,
    /// 000 Table 5.1 and the heat maps of Fig. 5.5 to 5.7: an hour
    #[value(name = "table-5.1")]
    Surface,
    /// 000 Chapter 3: a network function, by four methods and under four configurations; 15 minutes, as root
    Measuring,
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
        Name::Measuring => return Err(measuring::run(root, args.smoke, args.json)),
        Name::Claims => claims::judge(root, args.smoke)?,
        Name::Potential => surface::potential(root, args.smoke)?,
        Name::Surface => surface::judge(root, args.smoke)?,
        figure => {
            let value = figure.to_possible_value();
            let name = value.as_ref().map_or("", clap::builder::PossibleValue::get_name);
            figures::draw(root, name, args.smoke)?
        }
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&table::json(&rows))?);
    } else {
        print!("{}", table::render(&rows));
    }
    Ok(rows.iter().all(|row| row.verdict != Verdict::Differs))
}
