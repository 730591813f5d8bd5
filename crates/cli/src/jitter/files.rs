//! The output files: samples for `curtail sim` and `curtail advise`, and every execution.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::figures::Figures;
use super::measure::Measured;
use super::page;
use super::result::{counted, jitter_ns};
use curtail_sim::advise::{FOUND, J, P};

use crate::exit::Stop;
use crate::load::out::{LOG, make_directory, remove};
use crate::plot::{FIGURE_SIZES, picture};

/// Service times, one per line.
pub(super) const SERVICE: &str = "service.txt";
/// The report for people.
pub(super) const PAGE: &str = "report.html";

/// Creates the directory before the measurement.
pub(super) fn folder(path: &Path) -> Result<(), Stop> {
    let refused = |error: io::Error| {
        let path = path.display();
        Stop::Lacking(format!("--out {path}: {error}; give a writable directory"))
    };
    if path.join(LOG).symlink_metadata().is_ok() {
        let path = path.display();
        return Err(Stop::BadInput(format!(
            "--out {path}: it contains results of curtail load; give another directory"
        )));
    }
    make_directory(path)?;
    // Only creating a file shows that the directory is writable. Files of an earlier run stay until
    // they are replaced.
    tempfile::tempfile_in(path).map(drop).map_err(refused)
}

/// Writes all files. The error names the files that could not be written, and the reasons.
pub(super) fn write(folder: &Path, measured: &Measured, figures: &Figures<'_>) -> Result<(), Stop> {
    let executions = &measured.each;
    let mut errors = Vec::new();
    let mut write = |name: &str, body: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
        let path = folder.join(name);
        let error = one(&path, body).err();
        errors.extend(error.map(|error| format!("cannot write {}: {error}", path.display())));
    };
    write(SERVICE, &|file| {
        writeln!(file, "# service times of {} executions, in their order", executions.len())?;
        executions.iter().try_for_each(|of| writeln!(file, "{}ns", of.service_ns))
    });
    write(P, &|file| {
        writeln!(file, "# P of each query: its shortest service time")?;
        let last = executions.iter().map(|of| of.query).max().unwrap_or(0);
        let mut least = (0..=last).filter_map(|query| measured.executions.p_ns(query));
        least.try_for_each(|ns| writeln!(file, "{ns}ns"))
    });
    write(J, &|file| {
        writeln!(file, "# J of {} executions: service time minus P", executions.len())?;
        executions.iter().try_for_each(|of| writeln!(file, "{}ns", jitter_ns(measured, of)))
    });
    write("executions.csv", &|file| rows(file, measured));
    write(FOUND, &|file| {
        serde_json::to_writer_pretty(&mut *file, figures.found).map_err(io::Error::from)?;
        writeln!(file)
    });
    // The files for people.
    let [wide, _] = FIGURE_SIZES;
    write(PAGE, &|file| writeln!(file, "{}", page::render(figures)));
    let plots = [("ccdf.svg", figures.components(wide)), ("ranked.svg", figures.ranked(wide))];
    for (name, svg) in plots.into_iter().filter_map(|(name, svg)| Some((name, picture(&svg?)?))) {
        write(name, &|file| writeln!(file, "{svg}"));
    }
    if errors.is_empty() {
        return Ok(());
    }
    let errors = errors.join("\n  ");
    Err(Stop::Lacking(format!("{errors}\n  the report on standard output is complete")))
}

fn one(path: &Path, write: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let written = write(&mut file).and_then(|()| file.flush());
    if written.is_err() {
        // A partial file must not pass for a complete one.
        let _ = remove(path);
    }
    written
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
