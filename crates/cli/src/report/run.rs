//! A run, which is a directory of `curtail load --out` or a log of another tool, and its figures.

use std::collections::BTreeMap;
use std::path::Path;

use curtail_dist::{LogReader, read_log_series, read_text};
use curtail_load::{Histogram, Intervals, Percentiles, Summary, ratio_intervals};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::exit::{Stop, bad};
use crate::load::out::{FORMAT, LOG, RESULT, UNANSWERED};

/// A measured run.
#[derive(Clone)]
pub(super) struct Run {
    /// The path in the form in which it was given.
    pub(super) name: String,
    /// The latencies of good answers, in nanoseconds.
    pub(super) answered: Histogram<u64>,
    /// These latencies, and lower bounds for those of the other requests.
    pub(super) all: Histogram<u64>,
    /// Time from the first interval of the log to the last.
    pub(super) seconds: f64,
    /// `result.json`; `None` for a log of another tool.
    pub(super) result: Option<Document>,
}

/// The fields of `result.json` that the report reads.
#[derive(Clone, Deserialize)]
pub(super) struct Document {
    pub(super) plan: Plan,
    pub(super) report: Reported,
}

#[derive(Clone, Deserialize)]
pub(super) struct Plan {
    pub(super) target: String,
}

#[derive(Clone, Deserialize)]
pub(super) struct Reported {
    pub(super) valid: bool,
    /// Each reason is `{"kind", "text", ...}`. In earlier versions, a reason is a plain string.
    #[serde(default)]
    pub(super) invalid_because: Vec<Value>,
    /// Whether the latencies exclude the time that other clients would wait.
    #[serde(default)]
    pub(super) closed_loop: bool,
    /// `None` for a closed loop.
    pub(super) offered_rate: Option<f64>,
    pub(super) achieved_rate: f64,
    pub(super) requests: u64,
    #[serde(deserialize_with = "sum")]
    pub(super) errors: u64,
    /// Set if the 99.9th percentile is withheld.
    pub(super) withheld: Option<IgnoredAny>,
    /// `None` for a closed loop, which has no rate.
    #[serde(default)]
    pub(super) latency_ci95_ns: Intervals,
}

/// Sums the errors of all kinds.
fn sum<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let kinds = BTreeMap::<String, u64>::deserialize(from)?;
    Ok(kinds.into_values().fold(0, u64::saturating_add))
}

/// The figures of a run, as in the JSON. `None` if unknown.
#[derive(Serialize)]
pub(super) struct Figures {
    pub(super) name: String,
    pub(super) target: Option<String>,
    pub(super) valid: Option<bool>,
    pub(super) invalid_because: Vec<Value>,
    pub(super) closed_loop: Option<bool>,
    pub(super) offered_rate: Option<f64>,
    /// Good responses per second.
    pub(super) achieved_rate: Option<f64>,
    pub(super) requests: Option<u64>,
    pub(super) errors: Option<u64>,
    pub(super) latency_ns: Summary,
    /// The fields of `latency_ns` that are lower bounds, because some requests had no good answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) latency_at_least: Vec<&'static str>,
    /// Ratios to the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio_to_first: Option<Summary<f64>>,
    /// 95 % confidence intervals of the ratios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio_ci95: Option<Percentiles<[f64; 2]>>,
}

impl Figures {
    /// Returns the figures of all runs, with ratios to the first.
    pub(super) fn of(runs: &[Run]) -> Vec<Figures> {
        let first = runs.first();
        let place = |(place, run): (usize, &Run)| run.figures(first.filter(|_| place > 0));
        runs.iter().enumerate().map(place).collect()
    }

    /// The reasons why the run is not valid.
    pub(super) fn reasons(&self) -> impl Iterator<Item = &str> {
        self.invalid_because.iter().filter_map(|why| why.get("text").unwrap_or(why).as_str())
    }
}

impl Run {
    pub(super) fn new(
        name: String,
        answered: Histogram<u64>,
        at_least: &Histogram<u64>,
        seconds: f64,
        result: Option<Document>,
    ) -> Run {
        let mut all = answered.clone();
        all.auto(true);
        // Fails only if the range would exceed the address space.
        let _ = all.add(at_least);
        Run { name, answered, all, seconds, result }
    }

    pub(super) fn withheld(&self) -> bool {
        self.reported().is_some_and(|report| report.withheld.is_some())
    }

    fn reported(&self) -> Option<&Reported> {
        self.result.as_ref().map(|result| &result.report)
    }

    fn latency(&self) -> (Summary, Vec<&'static str>) {
        let mut latency = Summary::of(&self.all);
        let mut bounds = latency.lower_bounds(&self.answered, &self.all);
        if self.withheld() {
            latency.p999 = None;
            bounds.retain(|field| *field != "p999");
        }
        (latency, bounds)
    }

    fn figures(&self, first: Option<&Run>) -> Figures {
        let report = self.reported();
        let (latency_ns, latency_at_least) = self.latency();
        let first_latency = first.map(|first| first.latency().0);
        let counted = self.answered.len() as f64 / self.seconds;
        Figures {
            name: self.name.clone(),
            target: self.result.as_ref().map(|result| result.plan.target.clone()),
            valid: report.map(|report| report.valid),
            invalid_because: report.map(|of| of.invalid_because.clone()).unwrap_or_default(),
            closed_loop: report.map(|report| report.closed_loop),
            offered_rate: report.and_then(|report| report.offered_rate),
            achieved_rate: report
                .map(|report| report.achieved_rate)
                .or_else(|| Some(counted).filter(|rate| rate.is_finite())),
            requests: report.map(|report| report.requests),
            errors: report.map(|report| report.errors),
            latency_ns,
            latency_at_least,
            ratio_to_first: first_latency.map(|first| latency_ns.over(&first)),
            // `None` if one of the runs has no confidence intervals.
            ratio_ci95: first.and_then(|first| {
                let (ours, theirs) = (report?.latency_ci95_ns, first.reported()?.latency_ci95_ns);
                Some(ratio_intervals([&latency_ns, &first_latency?], [&ours, &theirs]))
            }),
        }
    }
}

/// Reads a directory or a log.
pub(super) fn read(path: &Path) -> Result<Run, Stop> {
    let name = path.display().to_string();
    if !path.is_dir() {
        if path.extension().is_some_and(|extension| extension == "json") {
            let why = "give the directory that contains it, or a log (.hlog)";
            return Err(bad!("{name}: it has no latencies without its {LOG}; {why}"));
        }
        let (counted, seconds) = log(path)?;
        return Ok(Run::new(name, counted, &curtail_load::histogram(), seconds, None));
    }
    let result = path.join(RESULT);
    if !result.exists() {
        let why = "give a directory that curtail load --out wrote, or a log (.hlog)";
        return Err(bad!("{name}: it has no {RESULT}; {why}"));
    }
    let result = document(&result)?;
    let good = result.report.requests - result.report.errors;
    let (counted, seconds) = match good {
        0 => (curtail_load::histogram(), 0.0),
        _ => log(&path.join(LOG))?,
    };
    if counted.len() != good {
        return Err(bad!(
            "{name}: {LOG} has {} latencies, and {RESULT} {good} good responses; one of the two is \
             cut off or from another run, so measure again",
            counted.len()
        ));
    }
    let unanswered = path.join(UNANSWERED);
    // Earlier versions did not write this file.
    let at_least = match unanswered.exists() {
        true => log(&unanswered)?.0,
        false => curtail_load::histogram(),
    };
    if unanswered.exists() && at_least.len() != result.report.errors {
        return Err(bad!(
            "{name}: {UNANSWERED} has {} requests, and {RESULT} {} without a good response; one of \
             the two is from another run, so measure again",
            at_least.len(),
            result.report.errors
        ));
    }
    Ok(Run::new(name, counted, &at_least, seconds, Some(result)))
}

fn document(path: &Path) -> Result<Document, Stop> {
    let text = read_text(path).map_err(Stop::bad)?;
    parsed(&text).map_err(|why| bad!("{}: {why}", path.display()))
}

/// Parses `result.json`, or returns the reason why the text is not a result.
pub(super) fn parsed(text: &str) -> Result<Document, String> {
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
    let series = series.map_err(Stop::bad)?;
    Ok((series.counted, series.until_s - series.from_s))
}
