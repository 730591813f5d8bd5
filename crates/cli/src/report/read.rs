//! Reads runs: of `curtail load --out`, or bare logs of other tools.

use std::collections::BTreeMap;
use std::path::Path;

use curtail_dist::{LogInterval, LogReader, read_text};
use curtail_load::Histogram;
use serde::Deserialize;

use super::run::{Document, Run};
use crate::exit::Stop;
use crate::load::out::{FORMAT, LOG, RESULT, UNANSWERED};

/// Reads a directory or a log.
pub(super) fn run(path: &Path) -> Result<Run, Stop> {
    let name = path.display().to_string();
    if !path.is_dir() {
        if path.extension().is_some_and(|extension| extension == "json") {
            let why = "give the directory that it is in, or a log (.hlog)";
            return Err(Stop::BadInput(format!(
                "{name}: without its {LOG} it has no latencies; {why}"
            )));
        }
        let (counted, seconds) = log(path)?;
        return Ok(Run::new(name, counted, curtail_load::histogram(), seconds, None));
    }
    let result = path.join(RESULT);
    if !result.exists() {
        let why = "give a directory that curtail load --out has written, or a log (.hlog)";
        return Err(Stop::BadInput(format!("{name}: it has no {RESULT}; {why}")));
    }
    let result = document(&result)?;
    let good = result.report.requests - result.report.errors;
    let (counted, seconds) = match good {
        0 => (curtail_load::histogram(), 0.0),
        _ => log(&path.join(LOG))?,
    };
    if counted.len() != good {
        return Err(Stop::BadInput(format!(
            "{name}: {LOG} has {} latencies, and {RESULT} {good} good answers; one of them is cut off or \
             of another run, so measure again",
            counted.len()
        )));
    }
    let unanswered = path.join(UNANSWERED);
    // Earlier versions wrote none.
    let at_least = match unanswered.exists() {
        true => log(&unanswered)?.0,
        false => curtail_load::histogram(),
    };
    if unanswered.exists() && at_least.len() != result.report.errors {
        return Err(Stop::BadInput(format!(
            "{name}: {UNANSWERED} has {} requests, and {RESULT} {} without a good answer; one of them is of another \
             run, so measure again",
            at_least.len(),
            result.report.errors
        )));
    }
    Ok(Run::new(name, counted, at_least, seconds, Some(result)))
}

fn document(path: &Path) -> Result<Document, Stop> {
    let text = read_text(path).map_err(|error| Stop::BadInput(error.to_string()))?;
    result(&text).map_err(|why| Stop::BadInput(format!("{}: {why}", path.display())))
}

/// What is in a document, or why it is none.
pub(super) fn result(text: &str) -> Result<Document, String> {
    /// All versions have it.
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    if let Ok(Version { format }) = serde_json::from_str(text)
        && format > FORMAT
    {
        return Err(format!("its format {format} is of a later curtail; read it with that one"));
    }
    let read: Document = serde_json::from_str(text).map_err(|error| {
        format!("it is not what curtail load --out writes: {error}; measure again")
    })?;
    match (read.report.errors, read.report.requests) {
        (errors, requests) if errors > requests => {
            Err(format!("it has {errors} errors of {requests} requests"))
        }
        _ => Ok(read),
    }
}

/// The latencies of a log, and the seconds that it covers. Of series with tags it is read only where
/// there is one, and nothing without a tag.
fn log(path: &Path) -> Result<(Histogram<u64>, f64), Stop> {
    let reader = LogReader::open(path).map_err(|error| Stop::BadInput(error.to_string()))?;
    let bad = |why: &str| Stop::BadInput(format!("{}: {why}", path.display()));
    let mut series: BTreeMap<Option<String>, (Histogram<u64>, f64, f64)> = BTreeMap::new();
    for interval in reader {
        let interval = interval.map_err(|error| Stop::BadInput(error.to_string()))?;
        let LogInterval { from_s, length_s, tag, counted } = interval;
        let until_s = from_s + length_s;
        match series.get_mut(&tag) {
            None => drop(series.insert(tag, (counted, from_s, until_s))),
            Some((all, first, last)) => {
                (*first, *last) = (first.min(from_s), last.max(until_s));
                all.add(&counted).map_err(|error| bad(&error.to_string()))?;
            }
        }
    }
    if series.len() > 1 && !series.contains_key(&None) {
        let tags: Vec<String> = series.into_keys().flatten().collect();
        let why = format!("it has several series ({}); keep the lines of one", tags.join(", "));
        return Err(bad(&why));
    }
    // The one without a tag comes first.
    match series.into_values().next() {
        Some((counted, first, last)) if !counted.is_empty() => Ok((counted, last - first)),
        _ => Err(bad(
            "it holds no histogram with a sample; give a log of HdrHistogram that has some",
        )),
    }
}
