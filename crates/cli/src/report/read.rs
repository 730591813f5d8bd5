//! Reads runs: directories of `curtail load --out`, and logs of other tools.

use std::path::Path;

use curtail_dist::{LogReader, read_log_series, read_text};
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
            let why = "give the directory that contains it, or a log (.hlog)";
            return Err(Stop::BadInput(format!(
                "{name}: it has no latencies without its {LOG}; {why}"
            )));
        }
        let (counted, seconds) = log(path)?;
        return Ok(Run::new(name, counted, curtail_load::histogram(), seconds, None));
    }
    let result = path.join(RESULT);
    if !result.exists() {
        let why = "give a directory that curtail load --out wrote, or a log (.hlog)";
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
            "{name}: {LOG} has {} latencies, and {RESULT} {good} good responses; one of the two is \
             cut off or from another run, so measure again",
            counted.len()
        )));
    }
    let unanswered = path.join(UNANSWERED);
    // Earlier versions did not write this file.
    let at_least = match unanswered.exists() {
        true => log(&unanswered)?.0,
        false => curtail_load::histogram(),
    };
    if unanswered.exists() && at_least.len() != result.report.errors {
        return Err(Stop::BadInput(format!(
            "{name}: {UNANSWERED} has {} requests, and {RESULT} {} without a good response; one of \
             the two is from another run, so measure again",
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

/// Parses `result.json`, or returns the reason why the text is not a result.
pub(super) fn result(text: &str) -> Result<Document, String> {
    /// This field is present in all versions of the format.
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    if let Ok(Version { format }) = serde_json::from_str(text)
        && format > FORMAT
    {
        return Err(format!(
            "its format {format} is from a later version of curtail; read it with that version"
        ));
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

/// Returns the latencies of a log, and the length of time that it covers, in seconds.
fn log(path: &Path) -> Result<(Histogram<u64>, f64), Stop> {
    let series = LogReader::open(path).and_then(read_log_series);
    let series = series.map_err(|error| Stop::BadInput(error.to_string()))?;
    Ok((series.counted, series.until_s - series.from_s))
}
