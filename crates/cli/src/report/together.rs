//! What may be added up: parts of one load.

use std::path::PathBuf;

use super::run::Run;
use crate::exit::Stop;
use crate::load::out::LOG;

/// By so much may one part take longer than another. Where parts have a number of requests of their own, they
/// do not end at the same moment.
const LONGER_MOST: f64 = 1.1;

/// A run that is added to itself would count twice.
pub(super) fn each_once(runs: &[PathBuf]) -> Result<(), Stop> {
    let place = |run: &PathBuf| {
        let log = if run.is_dir() { run.join(LOG) } else { run.clone() };
        log.canonicalize().unwrap_or(log)
    };
    let places: Vec<PathBuf> = runs.iter().map(place).collect();
    match (1..places.len()).find(|at| places[..*at].contains(&places[*at])) {
        Some(at) => {
            let twice = runs[at].display();
            Err(Stop::BadInput(format!("--merge: {twice} is named twice; name each run once")))
        }
        None => Ok(()),
    }
}

/// Refuses runs that are no parts of one load, whatever they measured.
pub(super) fn of_one_kind(runs: &[Run]) -> Result<(), Stop> {
    let is_closed = |run: &&Run| run.told.as_ref().is_some_and(|told| told.closed_loop);
    let is_open = |run: &&Run| run.told.as_ref().is_some_and(|told| !told.closed_loop);
    if let (Some(closed), Some(open)) = (runs.iter().find(is_closed), runs.iter().find(is_open)) {
        return Err(Stop::BadInput(format!(
            "--merge: {} is of a closed loop, and {} of an open one: the one asks as soon as it is answered, \
             and its latencies leave out what others would wait, so neither rates nor latencies add up; \
             measure all parts with --rate, or all with --closed",
            closed.name, open.name
        )));
    }
    for (at, run) in runs.iter().enumerate() {
        if let Some(same) = runs[..at].iter().find(|other| is_copy(run, other)) {
            return Err(Stop::BadInput(format!(
                "--merge: {} is the same run as {}: seed, start and latencies are the same; name each run \
                 once",
                run.name, same.name
            )));
        }
    }
    Ok(())
}

/// Is it the same run in another folder? Of a bare log nobody knows.
fn is_copy(run: &Run, other: &Run) -> bool {
    let (Some(ours), Some(theirs)) = (&run.told, &other.told) else { return false };
    let known = ours.seed.is_some() && ours.started_utc_s.is_some();
    known
        && (ours.seed, ours.started_utc_s) == (theirs.seed, theirs.started_utc_s)
        && run.counted == other.counted
}

/// Why the sum is of no load that there was, where some parts ended long before others.
pub(super) fn not_as_long(runs: &[Run]) -> Option<String> {
    let lengths = runs.iter().filter_map(|run| Some((run.told.as_ref()?.seconds?, &run.name)));
    let mut lengths: Vec<_> = lengths.filter(|(seconds, _)| seconds.is_finite()).collect();
    lengths.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let ((short, brief), (long, lasting)) = (lengths.first()?, lengths.last()?);
    (*long > *short * LONGER_MOST).then(|| {
        format!(
            "not as long: {brief} took {short:.1} s, and {lasting} {long:.1} s, so the rate was not that of the \
             sum all the time; send parts that are as long, at one time"
        )
    })
}
