//! Hundreds of worlds: is it ever worse than per-shard queuing?

use std::path::Path;

use anyhow::Result;

use crate::accept::finding::Finding;
use crate::eval::rescue::{Tolerance, whole};

/// The part of the gap that the median world is to have closed.
const CLOSED: f64 = 0.7;

/// As many as that, or the study says little.
const WORLDS: usize = 500;

pub(in crate::accept) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let study = whole(root)?;
    eprint!("{}", study.report());
    let never_worse = |claim: &str, tolerance: Tolerance| {
        let (failed, of) = (study.failed(tolerance), study.worlds(tolerance));
        Finding::new(claim, format!("{failed} of {of} worlds are worse"), failed == 0)
    };
    let worlds = study.worlds(Tolerance::Strict) + study.worlds(Tolerance::Loose);
    let (closed, of) = study.median_closed();
    Ok(vec![
        Finding::new(format!("at least {WORLDS} worlds"), worlds.to_string(), worlds >= WORLDS),
        never_worse(
            "copies have hiccups of their own, and stuck can be told from long: no p50 more than 2 %, \
             p99 or p99.9 more than 1 % above psq's, as sure as 99.9 %",
            Tolerance::Strict,
        ),
        never_worse("all others: no p99 more than 5 % above psq's", Tolerance::Loose),
        Finding::new(
            "up to 50 %, where hiccups matter and copies have their own: the median world closes 70 % of \
             the gap in p99",
            format!("{:.0} % in {of} worlds", 100.0 * closed.unwrap_or(f64::NAN)),
            closed.is_some_and(|closed| closed >= CLOSED),
        ),
    ])
}
