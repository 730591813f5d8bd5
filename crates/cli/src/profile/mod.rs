//! `curtail profile`: finds the stage that varies, finds its likely causes, and shows whether a
//! knob helped.

mod args;
mod compare;
mod document;
mod figures;
mod files;
mod measure;
mod page;
mod read;
mod spans;
mod table;
mod traces;

use std::process::ExitCode;

pub(crate) use args::Args;

use curtail_probe::profile::Profile;
use curtail_probe::rank::rank;

use crate::exit::Stop;
use crate::say;

/// The error if no source is given.
const WAYS: &str = "name what to profile: a running server (--pid PID or --port PORT) or traces \
                    (--traces FILE… or --otlp IP:PORT); --show PROFILE shows a saved profile \
                    again, --compare A B compares two";

/// Default duration for a server.
const SERVER_NS: u64 = 10_000_000_000;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    if let Some([a, b]) = args.compare.as_deref() {
        return compare::run(a, b, args);
    }
    if let Some(path) = &args.show {
        let profile = read::profile(path)?;
        files::prepare(args, Some(path))?;
        return conclude(&profile, args);
    }
    let is_server = args.measure.is_given();
    if !is_server && !args.traces.is_given() {
        return Err(Stop::BadInput(WAYS.to_owned()));
    }
    // Prepare the directory first, so that a bad `--out` does not waste a measurement.
    files::prepare(args, None)?;
    let (profile, is_interrupted) = match is_server {
        true => measure::measure(&args.measure, args.duration.unwrap_or(SERVER_NS))?,
        false => traces::profile(&args.traces, args.duration)?,
    };
    let code = conclude(&profile, args)?;
    Ok(if is_interrupted { ExitCode::from(130) } else { code })
}

/// Ranks a finished profile, prints it, and writes the files of `--out`.
pub(crate) fn conclude(profile: &Profile, args: &Args) -> Result<ExitCode, Stop> {
    let profile = &read::plain(profile.clone());
    profile.check().map_err(|why| Stop::Lacking(format!("{}: {why}", profile.target)))?;
    let ranking = rank(profile, args.seed.seed);
    if table::lost_count(profile) > ranking.requests / 10 {
        say::aside(
            "warning: much was not seen, and the rest may not be representative; see the end of \
             the report",
        );
    }
    // The result is printed even if the files cannot be written.
    let written = files::write(profile, &ranking, args);
    if args.output.json {
        say::result(crate::json(&document::Document::new(profile, &ranking))?)?;
    } else {
        say::result(table::text(profile, &ranking))?;
    }
    written.map(|()| ExitCode::SUCCESS)
}
