//! The files of `--out`: the profile, its page, whole requests, and samples for `file:` distributions;
//! and saved profiles that are read again.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use curtail_dist::read_text;
use curtail_probe::profile::{Profile, Traced, Whole};
use curtail_probe::rank::{Ranking, total_ns};
use curtail_report::columns::{Kind, Row, Schema, Writer};

use super::Args;
use super::page;
use crate::exit::{Stop, bad};
use crate::out::Folder;
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

/// Creates the directory of `--out` before the measurement. Never empties the directory of `shown`,
/// the profile that is being displayed.
pub(super) fn prepare(args: &Args, shown: Option<&Path>) -> Result<Option<Folder>, Stop> {
    let Some(out) = &args.out else { return Ok(None) };
    let same = |path: &Path| {
        let [there, shown] = [out.join(PROFILE), file(path)].map(fs::canonicalize);
        there.ok().is_some_and(|there| shown.is_ok_and(|shown| shown == there))
    };
    if shown.is_some_and(same) {
        let out = out.display();
        return Err(bad!("--out {out}: the profile is read from it; give another directory"));
    }
    Folder::open(out, args.force, "profile", is_ours)?.writable().map(Some)
}

/// Writes all files.
pub(super) fn write(folder: Folder, profile: &Profile, ranking: &Ranking) -> Result<(), Stop> {
    let mut folder = folder;
    folder.write(PROFILE, |file| {
        serde_json::to_writer(&mut *file, profile)?;
        writeln!(file)
    });
    folder.write_text(PAGE, Some(page::render(profile, ranking)));
    folder.write_text(PICTURE, page::stages(profile, ranking));
    // A distribution needs at least one sample.
    if !profile.sampled.is_empty() {
        folder.write(TOTAL, |file| samples(file, "the total", &profile.sampled, total_ns));
        for (at, name) in stage_files(profile).iter().enumerate() {
            let of = &profile.stages[at];
            let stage = |whole: &Whole| whole.stages_ns[at];
            folder.write(name, |file| samples(file, of, &profile.sampled, stage));
        }
    }
    folder.write(CSV, |file| table(profile, Writer::csv(file, &schema(profile))?));
    #[cfg(feature = "parquet")]
    folder.write(PARQUET, |file| table(profile, Writer::parquet(file, &schema(profile))?));
    let page = folder.path(PAGE);
    folder.finish()?;
    say::aside(format_args!("the report is {}", page.display()));
    Ok(())
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

/// Writes durations, one per line, in the format of `file:` distributions.
fn samples(
    file: &mut dyn Write,
    of: &str,
    wholes: &[Whole],
    duration: impl Fn(&Whole) -> u64,
) -> io::Result<()> {
    writeln!(file, "# {of}: {} requests, chosen at random", wholes.len())?;
    wholes.iter().try_for_each(|whole| writeln!(file, "{}ns", duration(whole)))
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

/// Writes the table of whole requests.
fn table<W: Write + Send>(profile: &Profile, mut to: Writer<W>) -> io::Result<()> {
    to.write(&rows(profile))?;
    to.finish().map(drop)
}

/// Name of the file of a saved profile.
const PROFILE: &str = "profile.json";

/// Reads a profile from its file, or from the directory that contains it.
pub(super) fn profile(path: &Path) -> Result<Profile, Stop> {
    let file = file(path);
    let text = read_text(&file).map_err(|error| match path.is_dir() && !file.exists() {
        true => bad!(
            "{}: it contains no {PROFILE}; give the directory of curtail profile --out",
            path.display()
        ),
        false => Stop::BadInput(error.to_string()),
    })?;
    parsed(&text)
        .map_err(|why| bad!("{}: {why}; give the output of curtail profile --out", file.display()))
}

/// Returns the path of a profile's file.
fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(PROFILE) } else { path.to_owned() }
}

/// Parses a profile, or returns the reason why it is not one.
fn parsed(text: &str) -> Result<Profile, String> {
    let profile: Profile =
        serde_json::from_str(text).map_err(|error| format!("it is not a profile: {error}"))?;
    profile.check().map_err(|why| format!("it is inconsistent: {why}"))?;
    match profile.windows.is_empty() {
        true => Err("it has no windows, so it has no requests".to_owned()),
        false => Ok(plain(profile)),
    }
}

/// Escapes control characters, because names come from files, processes and traces.
pub(super) fn plain(mut profile: Profile) -> Profile {
    let reasons = profile.lost.iter_mut().map(|lost| &mut lost.reason);
    let reasons = reasons.chain(profile.traces.iter_mut().flat_map(Traced::texts));
    let names = profile.stages.iter_mut().chain(reasons).chain([&mut profile.target]);
    names.for_each(|name| *name = say::plain(&name.replace('\n', " ")));
    profile
}
