//! `curtail jitter`: separates a query's own service time from jitter.

mod args;
mod measure;
mod page;
mod reach;
mod result;
mod table;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use curtail_report::chart::frame::Size;
use curtail_report::page::picture;
use curtail_sim::advise::{FOUND, J, P};
use measure::Measured;
use page::Figures;
use result::{counted, jitter_ns};

use crate::exit::{Stop, bad, lacking};
use crate::load::out::LOG;
use crate::out::Folder;
use crate::run::{self, Termination};
use crate::say;

pub(crate) use args::Args;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let work = args::work(args)?;
    let folder = folder(&args.out)?;
    run::reserve(&work.plan.processors)?;
    let measured = run::on_all_cores(async {
        let mut signals = Termination::listen_at_terminal()?;
        let bar = run::bar("jitter", work.most);
        let measured = measure::measure(&work, &bar, &mut signals).await;
        bar.finish_and_clear();
        measured
    })?;
    if measured.each.is_empty() {
        return Err(Stop::Interrupted("before anything was measured"));
    }
    let found = result::conclude(&measured, &work.plan, &args.out.join(SERVICE));
    let figures = Figures::new(&found, &measured.executions, args.seed.seed);
    // Reports the results even if the files cannot be written.
    let written = write(folder, &measured, &figures);
    say::answer(args.output.json, &found, || table::table(&found))?;
    if !args.output.json && written.is_ok() {
        let page = args.out.join(PAGE);
        say::aside(format_args!("samples: {}; the report is {}", found.samples, page.display()));
    }
    if let Some(why) = &found.rate_missed {
        say::aside(format_args!("warning: {}", why.text));
    }
    written?;
    match found.ended_because {
        Some(why) => Err(lacking!("{}; these are partial results", why.text)),
        None if found.partial => Ok(ExitCode::from(130)),
        None if found.rate_missed.is_some() => Ok(ExitCode::from(1)),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Service times, one per line.
const SERVICE: &str = "service.txt";
/// The report for people.
const PAGE: &str = "report.html";

/// Creates the directory before the measurement.
fn folder(path: &Path) -> Result<Folder, Stop> {
    if path.join(LOG).symlink_metadata().is_ok() {
        let path = path.display();
        return Err(bad!(
            "--out {path}: it contains results of curtail load; give another directory"
        ));
    }
    Folder::over(path)?.writable()
}

/// Writes all files.
fn write(mut folder: Folder, measured: &Measured, figures: &Figures<'_>) -> Result<(), Stop> {
    let executions = &measured.each;
    folder.write(SERVICE, |file| {
        writeln!(file, "# service times of {} executions, in their order", executions.len())?;
        executions.iter().try_for_each(|of| writeln!(file, "{}ns", of.service_ns))
    });
    folder.write(P, |file| {
        writeln!(file, "# P of each query: its shortest service time")?;
        let last = executions.iter().map(|of| of.query).max().unwrap_or(0);
        let mut least = (0..=last).filter_map(|query| measured.executions.p_ns(query));
        least.try_for_each(|ns| writeln!(file, "{ns}ns"))
    });
    folder.write(J, |file| {
        writeln!(file, "# J of {} executions: service time minus P", executions.len())?;
        executions.iter().try_for_each(|of| writeln!(file, "{}ns", jitter_ns(measured, of)))
    });
    folder.write("executions.csv", |file| rows(file, measured));
    folder.write_text(FOUND, Some(say::json(figures.found)?));
    // The files for people.
    folder.write_text(PAGE, Some(page::render(figures)));
    for (name, svg) in
        [("ccdf.svg", figures.components(Size::WIDE)), ("ranked.svg", figures.ranked(Size::WIDE))]
    {
        folder.write_text(name, svg.and_then(|svg| picture(&svg)));
    }
    folder.finish()
}

fn rows(file: &mut dyn Write, measured: &Measured) -> io::Result<()> {
    writeln!(
        file,
        "query,service_ns,jitter_ns,voluntary_switches,involuntary_switches,ran_ns,run_delay_ns,\
         throttled_ns,major_faults,stopped_ns"
    )?;
    for execution in &measured.each {
        let jitter = jitter_ns(measured, execution);
        write!(file, "{},{},{jitter}", execution.query, execution.service_ns)?;
        match counted(measured, execution) {
            Some(of) => writeln!(
                file,
                ",{},{},{},{},{},{},{}",
                of.voluntary_switches,
                of.involuntary_switches,
                of.ran_ns,
                of.run_delay_ns,
                of.throttled_ns,
                of.major_faults,
                of.stopped_ns
            )?,
            None => writeln!(file, ",,,,,,,")?,
        }
    }
    Ok(())
}
