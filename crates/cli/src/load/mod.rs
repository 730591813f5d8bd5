//! `curtail load`.

mod args;
mod table;

use std::process::ExitCode;

use curtail_load::{LoadError, Report, Snapshot};

use args::plan;
pub(crate) use args::{Args, span};
use table::{ms, table};

use crate::exit::Stop;
use crate::progress;
use crate::say;
use crate::signals::Termination;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let plan = plan(args)?;
    let runtime = crate::runtime()?;
    let measured = runtime.block_on(async {
        let mut signals = Termination::listen_at_terminal()
            .map_err(|error| Stop::Lacking(format!("no signals: {error}")))?;
        let bar = progress::spinner();
        let told = |at: &Snapshot| bar.set_message(line(at));
        let report = curtail_load::run(&plan, signals.next(), told).await;
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
    let Snapshot { elapsed_ns, warming_up, answered, errors, rate_now, .. } = at;
    let phase = if *warming_up { "warming up" } else { "measuring" };
    let shown = |ns: Option<u64>| ns.map_or_else(|| "–".into(), ms);
    let (p50, p99, lag) = (shown(at.p50_ns), shown(at.p99_ns), shown(at.lag_p99_ns));
    let seconds = *elapsed_ns as f64 / 1e9;
    format!(
        "{phase} {seconds:5.1} s   {rate_now:.0}/s   answered {answered}   errors {errors}   \
         p50 {p50}   p99 {p99}   lag p99 {lag}"
    )
}
