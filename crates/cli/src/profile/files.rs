//! Writes the files of `--out`: the profile, its page, whole requests, and samples for `file:`
//! distributions.

use std::fs;
use std::io;
use std::path::Path;

use curtail_columns::{Kind, Row, Schema, Writer};
use curtail_probe::profile::{Profile, Whole};
use curtail_probe::rank::{Ranking, total_ns};

use super::args::Args;
use super::read::PROFILE;
use super::{page, read};
use crate::exit::Stop;
use crate::load::out::{make_directory, remove, write_whole};
use crate::say;

const PAGE: &str = "profile.html";
const PICTURE: &str = "stages.svg";
const TOTAL: &str = "total.txt";
const CSV: &str = "requests.csv";
const PARQUET: &str = "requests.parquet";

/// Whether an earlier run may have written a file of this name.
fn is_ours(name: &str) -> bool {
    [PROFILE, PAGE, PICTURE, TOTAL, CSV, PARQUET].contains(&name)
        || (name.starts_with("stage-") && name.ends_with(".txt"))
}

/// Creates the directory of `--out` before the measurement. If the directory contains a profile,
/// empties it if `--force` is set, and otherwise returns an error. Never empties the directory of
/// `shown`, the profile that is being displayed.
pub(super) fn prepare(args: &Args, shown: Option<&Path>) -> Result<(), Stop> {
    let Some(out) = &args.out else { return Ok(()) };
    make_directory(out)?;
    let place = out.display();
    let unwritable = |error: io::Error| {
        Stop::Lacking(format!("--out {place}: {error}; give a writable directory"))
    };
    let same = |path: &Path| {
        let [there, shown] = [out.join(PROFILE), read::file(path)].map(fs::canonicalize);
        there.ok().is_some_and(|there| shown.is_ok_and(|shown| shown == there))
    };
    if shown.is_some_and(same) {
        return Err(Stop::BadInput(format!(
            "--out {place}: the profile is read from it; give another directory"
        )));
    }
    for entry in fs::read_dir(out).map_err(unwritable)? {
        let entry = entry.map_err(unwritable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match is_ours(&name) {
            false => {}
            true if args.force => remove(&entry.path()).map_err(unwritable)?,
            true => {
                return Err(Stop::BadInput(format!(
                    "--out {place}: it contains {name} of another profile; give another directory, \
                     or --force to overwrite it"
                )));
            }
        }
    }
    // Only creating a file shows that the directory is writable.
    tempfile::tempfile_in(out).map(drop).map_err(unwritable)
}

/// Writes all files. The error names the files that could not be written, and the reasons.
pub(super) fn write(profile: &Profile, ranking: &Ranking, args: &Args) -> Result<(), Stop> {
    let Some(out) = &args.out else { return Ok(()) };
    let saved = serde_json::to_string(profile).map_err(io::Error::from);
    let mut files = vec![
        (PROFILE.to_owned(), saved),
        (PAGE.to_owned(), Ok(page::render(profile, ranking))),
        (CSV.to_owned(), csv(profile)),
    ];
    files.extend(page::stages(profile, ranking).map(|svg| (PICTURE.to_owned(), Ok(svg))));
    // A distribution needs at least one sample.
    if !profile.sampled.is_empty() {
        let total = samples("the total", &profile.sampled, total_ns);
        files.push((TOTAL.to_owned(), Ok(total)));
        for (at, file) in stage_files(profile).into_iter().enumerate() {
            let text = samples(&profile.stages[at], &profile.sampled, |of| of.stages_ns[at]);
            files.push((file, Ok(text)));
        }
    }
    let written = files.into_iter().map(|(name, text)| {
        let path = out.join(&name);
        let written = text.and_then(|text| write_whole(&path, &text, args.force));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    });
    #[cfg(feature = "parquet")]
    let written = written.chain([{
        let path = out.join(PARQUET);
        let written = parquet(profile).and_then(|bytes| fs::write(&path, bytes));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    }]);
    let errors: Vec<String> = written.filter_map(Result::err).collect();
    if errors.is_empty() {
        say::aside(format_args!("the report is {}", out.join(PAGE).display()));
        return Ok(());
    }
    let errors = errors.join("\n  ");
    Err(Stop::Lacking(format!("{errors}\n  the report on standard output is complete")))
}

/// Returns a file name for each stage. Characters other than ASCII letters and digits become `-`,
/// and duplicate names get a number.
fn stage_files(profile: &Profile) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (at, stage) in profile.stages.iter().enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = stage.chars().take(80).map(plain).collect();
        let mut file = format!("stage-{name}.txt");
        if names.iter().any(|other| other.eq_ignore_ascii_case(&file)) {
            file = format!("stage-{name}-{}.txt", at + 1);
        }
        names.push(file);
    }
    names
}

/// Formats durations, one per line, in the format of `file:` distributions.
fn samples(of: &str, wholes: &[Whole], duration: impl Fn(&Whole) -> u64) -> String {
    let mut text = format!("# {of}: {} requests, chosen at random\n", wholes.len());
    wholes.iter().for_each(|whole| text += &format!("{}ns\n", duration(whole)));
    text
}

/// The columns of the table of whole requests.
fn schema(profile: &Profile) -> Schema {
    let mut schema = vec![("kind".to_owned(), Kind::Text), ("start_ns".to_owned(), Kind::Whole)];
    schema.extend(profile.stages.iter().map(|name| (format!("{name}_ns"), Kind::Whole)));
    schema.push(("total_ns".to_owned(), Kind::Whole));
    let evidence = profile.evidence.iter().map(|of| serde_json::to_value(of).unwrap_or_default());
    schema.extend(evidence.map(|of| (of.as_str().unwrap_or_default().to_owned(), Kind::Whole)));
    schema
}

fn rows(profile: &Profile) -> Vec<Row> {
    let slow = profile.slow.iter().map(|whole| ("slow", whole));
    let all = slow.chain(profile.sampled.iter().map(|whole| ("sampled", whole)));
    let row = |(kind, whole): (&str, &Whole)| {
        let mut row: Row = vec![kind.to_owned().into(), whole.start_ns.into()];
        row.extend(whole.stages_ns.iter().map(|&ns| ns.into()));
        row.push(total_ns(whole).into());
        row.extend(whole.evidence.iter().map(|&value| value.into()));
        row
    };
    all.map(row).collect()
}

fn csv(profile: &Profile) -> io::Result<String> {
    let mut csv = Writer::csv(Vec::new(), &schema(profile))?;
    csv.write(&rows(profile))?;
    String::from_utf8(csv.finish()?).map_err(io::Error::other)
}

#[cfg(feature = "parquet")]
fn parquet(profile: &Profile) -> io::Result<Vec<u8>> {
    let mut parquet = Writer::parquet(Vec::new(), &schema(profile))?;
    parquet.write(&rows(profile))?;
    parquet.finish()
}
