//! The files that are left: samples for `curtail sim` and `curtail advise`, and every execution.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::measure::Measured;
use super::result::{Found, counted, jitter_ns};
use crate::exit::Stop;

/// Service times, one per line.
pub(super) const SERVICE: &str = "service.txt";
/// P of each query, one per line.
pub(crate) const P: &str = "p.txt";
/// J of each execution, one per line.
pub(crate) const J: &str = "j.txt";

/// Makes the folder, before anything is measured.
pub(super) fn folder(path: &Path) -> Result<(), Stop> {
    let refused = |error: io::Error| {
        let path = path.display();
        Stop::BadInput(format!("--out {path}: {error}; name a folder that can be written to"))
    };
    fs::create_dir_all(path).map_err(refused)?;
    // Whether files can be made there is known only by making one.
    let probe = path.join(SERVICE);
    File::create(probe).map(drop).map_err(refused)
}

/// Writes all of them.
pub(super) fn write(folder: &Path, measured: &Measured, found: &Found) -> Result<(), Stop> {
    type Writer<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;
    let executions = &measured.each;
    let service: Writer<'_> = &|file| {
        writeln!(file, "# service times of {} executions, in their order", executions.len())?;
        executions.iter().try_for_each(|of| writeln!(file, "{}ns", of.service_ns))
    };
    let p: Writer<'_> = &|file| {
        writeln!(file, "# P of each query: the least of its service times")?;
        let least = (0..found.queries).filter_map(|query| measured.executions.p_ns(query));
        least.into_iter().try_for_each(|ns| writeln!(file, "{ns}ns"))
    };
    let j: Writer<'_> = &|file| {
        writeln!(file, "# J of {} executions: what they took beyond P", executions.len())?;
        let beyond = executions.iter().filter_map(|of| jitter_ns(measured, of));
        beyond.into_iter().try_for_each(|ns| writeln!(file, "{ns}ns"))
    };
    let each: Writer<'_> = &|file| rows(file, measured);
    let document: Writer<'_> = &|file| {
        serde_json::to_writer_pretty(&mut *file, found).map_err(io::Error::from)?;
        writeln!(file)
    };
    for (name, write) in
        [(SERVICE, service), (P, p), (J, j), ("executions.csv", each), ("result.json", document)]
    {
        one(&folder.join(name), write)?;
    }
    Ok(())
}

fn one(path: &PathBuf, write: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> Result<(), Stop> {
    let written = File::create(path).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()
    });
    written.map_err(|error| Stop::Lacking(format!("cannot write {}: {error}", path.display())))
}

fn rows(file: &mut dyn Write, measured: &Measured) -> io::Result<()> {
    writeln!(
        file,
        "query,service_ns,jitter_ns,voluntary_switches,involuntary_switches,ran_ns,run_delay_ns,\
         throttled_ns,major_faults,stopped_ns"
    )?;
    for execution in &measured.each {
        let jitter = jitter_ns(measured, execution).unwrap_or(0);
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
