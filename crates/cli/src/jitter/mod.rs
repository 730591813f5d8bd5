//! `curtail jitter`: separates a query's own service time from jitter.

mod args;
mod figures;
mod files;
mod measure;
mod order;
mod page;
mod reach;
mod result;
mod table;
mod verdict;

use std::process::ExitCode;

pub(crate) use args::Args;

use figures::Figures;

use crate::exit::Stop;
use crate::progress;
use crate::say;
use crate::signals::Termination;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let work = args::work(args)?;
    files::folder(&args.out)?;
    let runtime = crate::runtime_off(&work.plan.processors)?;
    let measured = runtime.block_on(async {
        let mut signals = Termination::listen_at_terminal()
            .map_err(|error| Stop::Lacking(format!("cannot handle signals: {error}")))?;
        let bar = progress::bar("jitter");
        let measured = measure::measure(&work, &bar, &mut signals).await;
        bar.finish_and_clear();
        measured
    });
    // A name lookup may still be running, but its result is no longer needed.
    runtime.shutdown_background();
    let measured = measured?;
    if measured.each.is_empty() {
        return Err(Stop::Interrupted("before anything was measured"));
    }
    let found = result::conclude(&measured, &work.plan, &args.out.join(files::SERVICE));
    let figures = Figures::new(&found, &measured.executions, args.seed.seed);
    // Reports the results even if the files cannot be written.
    let written = files::write(&args.out, &measured, &figures);
    if args.output.json {
        say::result(crate::json(&found)?)?;
    } else {
        say::result(table::table(&found))?;
        if written.is_ok() {
            let page = args.out.join(files::PAGE);
            say::aside(format_args!(
                "samples: {}; the report is {}",
                found.samples,
                page.display()
            ));
        }
    }
    if let Some(why) = &found.rate_missed {
        say::aside(format_args!("warning: {}", why.text));
    }
    written?;
    match found.ended_because {
        Some(why) => Err(Stop::Lacking(format!("{}; these are partial results", why.text))),
        None if found.partial => Ok(ExitCode::from(130)),
        None if found.rate_missed.is_some() => Ok(ExitCode::from(1)),
        None => Ok(ExitCode::SUCCESS),
    }
}
