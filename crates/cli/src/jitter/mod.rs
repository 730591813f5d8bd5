//! `curtail jitter`.

mod args;
mod files;
mod measure;
mod result;
mod table;

use std::process::ExitCode;

pub(crate) use args::Args;
use curtail_load::Pace;
pub(crate) use files::{J, P};

use crate::exit::Stop;
use crate::progress;
use crate::say;
use crate::signals::Termination;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let work = args::work(args)?;
    files::folder(&args.out)?;
    let runtime = crate::runtime()?;
    let measured = runtime.block_on(async {
        let mut signals = Termination::listen_at_terminal()
            .map_err(|error| Stop::Lacking(format!("no signals: {error}")))?;
        let bar = progress::bar("jitter");
        let measured = measure::measure(&work, &bar, &mut signals).await;
        bar.finish_and_clear();
        measured
    });
    // The system may still be looking for a host that nobody waits for any more.
    runtime.shutdown_background();
    let measured = measured?;
    if measured.each.is_empty() {
        return Err(Stop::Interrupted("before anything was measured"));
    }
    let rate = match &work.plan.pace {
        Pace::Open { profile, .. } => Some(profile.first()),
        Pace::Closed => None,
    };
    let found = result::conclude(&measured, rate, &args.out.join(files::SERVICE));
    // What was measured is told even where it cannot be kept.
    let written = files::write(&args.out, &measured, &found);
    if args.json {
        say::result(crate::json(&found)?)?;
    } else {
        say::result(table::table(&found))?;
        if written.is_ok() {
            say::aside(format_args!("samples: {}", found.samples));
        }
    }
    written?;
    Ok(if found.partial { ExitCode::from(130) } else { ExitCode::SUCCESS })
}
