//! `curtail load`.

use std::path::PathBuf;
use std::process::ExitCode;

use curtail_load::{
    Arrivals, Extent, Invalid, LoadError, Plan, QueryOrder, Report, SAMPLES_ABOVE_MIN, Snapshot,
    Summary, Target,
};

use crate::exit::Stop;
use crate::progress;
use crate::say;
use crate::signals::Termination;

/// Send requests at a fixed rate, whatever the answers do, and report honest latencies.
///
/// Open loop: every request has an intended time, and its latency counts from there, so a stall
/// shows in all requests that it delays. The run is *invalid* (exit code 1) when the figures would
/// not be of the load that was asked for.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail load http://127.0.0.1:8080/search?q=rust --rate 500 --duration 10s
  curtail load http://127.0.0.1:8080 --rate 200 --queries targets.txt --json")]
pub(crate) struct Args {
    /// Where to: http://HOST:PORT/PATH
    target: Target,
    /// Requests per second
    #[arg(long, value_name = "N", value_parser = number)]
    rate: f64,
    /// Gaps between requests: poisson or constant
    #[arg(long, default_value = "poisson")]
    arrivals: Arrivals,
    /// For how long
    #[arg(long, default_value = "10s", value_name = "SPAN", value_parser = span, conflicts_with = "requests", allow_hyphen_values = true)]
    duration: u64,
    /// So many requests, rather than a duration
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Requests sent before the measured ones
    #[arg(long, default_value = "0s", value_name = "SPAN", value_parser = span, allow_hyphen_values = true)]
    warmup: u64,
    /// Connections at most
    #[arg(long, default_value_t = 64, value_name = "N")]
    connections: usize,
    /// A request without an answer for so long has failed
    #[arg(long, default_value = "10s", value_name = "SPAN", value_parser = span, allow_hyphen_values = true)]
    timeout: u64,
    /// A header to send, like 'x-shard: 0'; may be repeated
    #[arg(long, value_name = "K: V", value_parser = curtail_load::parse_header)]
    header: Vec<(String, String)>,
    /// Request targets, one per line, sent in turn
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Draw from the queries at random rather than in turn
    #[arg(long, requires = "queries")]
    shuffle: bool,
    /// Same seed, same schedule and queries
    #[arg(long, default_value_t = 42, value_name = "N")]
    seed: u64,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(crate) fn span(text: &str) -> Result<u64, String> {
    curtail_kernel::duration::parse(text).map_err(|error| error.to_string())
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "write a number such as 500".to_owned())
}

fn plan(args: &Args) -> Result<Plan, Stop> {
    let extent = match args.requests {
        Some(requests) => Extent::Requests(requests),
        None => Extent::Duration { ns: args.duration },
    };
    let queries = match &args.queries {
        Some(file) => {
            curtail_load::read_queries(file).map_err(|error| Stop::BadInput(error.to_string()))?
        }
        None => Vec::new(),
    };
    let order = if args.shuffle { QueryOrder::Random } else { QueryOrder::InOrder };
    let plan = Plan {
        arrivals: args.arrivals,
        extent,
        connections: args.connections,
        headers: args.header.clone(),
        queries,
        order,
        timeout_ns: args.timeout,
        warmup_ns: args.warmup,
        seed: args.seed,
        ..Plan::new(args.target.clone(), args.rate)
    };
    plan.check().map_err(|error| Stop::BadInput(error.to_string()))?;
    Ok(plan)
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let plan = plan(args)?;
    let runtime = crate::runtime()?;
    let measured = runtime.block_on(async {
        let mut signals = Termination::listen_at_terminal()
            .map_err(|error| Stop::Lacking(format!("no signals: {error}")))?;
        let bar = progress::spinner();
        let told = |at: &Snapshot| bar.set_message(line(at));
        let report = curtail_load::run(&plan, signals.next(), told, |_| {}).await;
        bar.finish_and_clear();
        report.map_err(|error| match error {
            LoadError::Thread(_) => Stop::Lacking(error.to_string()),
            LoadError::Interrupted => Stop::Interrupted("while the host was being resolved"),
            LoadError::Plan(_) | LoadError::Resolve { .. } => Stop::BadInput(error.to_string()),
        })
    });
    // The system may still be looking for a host that nobody waits for any more.
    runtime.shutdown_background();
    let report = measured?;
    if args.json {
        // The document is for programs. In the table, people read it anyway.
        if let Some(warning) = report.warning() {
            say::aside(format_args!("warning: {warning}"));
        }
        say::result(crate::json(&report)?)?;
    } else if report.partial && report.requests == 0 {
        return Err(Stop::Interrupted("before anything was measured"));
    } else {
        say::result(table(&report))?;
    }
    Ok(match report {
        Report { partial: true, .. } => ExitCode::from(130),
        Report { valid: false, .. } => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

/// What goes on, in a line.
fn line(at: &Snapshot) -> String {
    let Snapshot { elapsed_ns, warming_up, sent, answered, errors, p99_ns } = *at;
    let phase = if warming_up { "warming up" } else { "measuring" };
    let p99 = p99_ns.map_or_else(|| "–".into(), ms);
    let seconds = elapsed_ns as f64 / 1e9;
    format!(
        "{phase} {seconds:5.1} s   sent {sent}   answered {answered}   errors {errors}   p99 {p99}"
    )
}

fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

fn table(report: &Report) -> String {
    use std::fmt::Write as _;
    let shown = |ns: Option<u64>| ns.map_or_else(|| "–".into(), ms);
    let Report { offered_rate, achieved_rate, requests, errors, .. } = report;
    let mut text = format!(
        "offered {offered_rate:.1}/s, achieved {achieved_rate:.1}/s, {requests} requests, {} \
         without a good answer",
        errors.total()
    );
    if errors.total() > 0 {
        let _ = write!(text, ": {errors}");
    }
    let rows = [
        ("latency", &report.latency_ns),
        ("uncorrected", &report.uncorrected_ns),
        ("schedule lag", &report.schedule_lag_ns),
    ];
    let head = ["", "p50", "p99", "p99.9", "max"];
    let [name, p50, p99, p999, max] = head;
    let _ = writeln!(text, "\n\n{name:<14}{p50:>14}{p99:>14}{p999:>14}{max:>14}");
    for (name, of) in rows {
        let [p50, p99, p999, max] = [of.p50, of.p99, of.p999, of.max].map(shown);
        let _ = writeln!(text, "{name:<14}{p50:>14}{p99:>14}{p999:>14}{max:>14}");
    }
    if let Some(why) = missing(report) {
        let _ = writeln!(text, "\n–: {why}");
    }
    if let Some(withheld) = &report.withheld {
        let _ = writeln!(text, "\n{withheld}");
    }
    if let Some(error) = &report.first_error {
        let _ = writeln!(text, "\nfirst failure: {error}");
    }
    for reason in &report.invalid_because {
        let verdict = if matches!(reason, Invalid::Interrupted { .. }) { "" } else { "invalid: " };
        let _ = writeln!(text, "\n{verdict}{reason}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// Why there is a dash where a percentile should be, if there is any latency at all.
fn missing(report: &Report) -> Option<String> {
    missing_of(&report.latency_ns, report.withheld.is_some())
}

/// The 99.9th percentile has a line of its own where it is withheld.
fn missing_of(latency: &Summary, withheld: bool) -> Option<String> {
    latency.max?;
    let per_mille =
        [("p50", latency.p50, 500), ("p99", latency.p99, 10), ("p99.9", latency.p999, 1)];
    let lacks = |above: u32| !(above == 1 && withheld);
    let missing = per_mille.iter().filter(|(_, value, above)| value.is_none() && lacks(*above));
    let needs = missing.map(|(name, _, above)| {
        format!("{name} takes {} good answers", SAMPLES_ABOVE_MIN * 1_000 / u64::from(*above))
    });
    let needs: Vec<String> = needs.collect();
    let rule =
        format!("with fewer than {SAMPLES_ABOVE_MIN} samples above it a percentile is chance");
    (!needs.is_empty()).then(|| format!("{rule}; {}", needs.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(p99: Option<u64>, p999: Option<u64>, max: Option<u64>) -> Summary {
        Summary { p50: Some(1), p99, p999, max, ..Summary::default() }
    }

    #[test]
    fn a_dash_has_its_reason() {
        assert_eq!(missing_of(&latency(Some(1), Some(1), Some(1)), false), None);
        assert_eq!(
            missing_of(&latency(None, None, None), false),
            None,
            "nothing was measured at all"
        );
        let rule = "with fewer than 10 samples above it a percentile is chance; ";
        let of = |p99| missing_of(&latency(p99, None, Some(1)), false).expect("p99.9 is missing");
        assert_eq!(of(Some(1)), format!("{rule}p99.9 takes 10000 good answers"));
        let both = "p99 takes 1000 good answers, p99.9 takes 10000 good answers";
        assert_eq!(of(None), format!("{rule}{both}"));
        // Which has a reason of its own, on a line of its own.
        assert_eq!(missing_of(&latency(Some(1), None, Some(1)), true), None);
    }
}
