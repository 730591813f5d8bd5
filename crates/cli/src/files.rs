//! Files that are given, pages that are written, and how many may be open.

use std::fs;
use std::path::{Path, PathBuf};

use curtail_dist::{excerpt, instead, read_text};
use serde::de::DeserializeOwned;

use crate::exit::Stop;
use curtail_load::Plan;

/// Reads TOML, and the text that it is from; what is wrong is named with its line.
pub(crate) fn toml_and_text<T: DeserializeOwned>(path: &Path) -> Result<(T, String), Stop> {
    let text = read_text(path).map_err(|error| Stop::BadInput(error.to_string()))?;
    let read = toml::from_str(&text).map_err(|error: toml::de::Error| {
        let number = line(&text, error.span().map_or(0, |span| span.start));
        let line = text.lines().nth(number - 1).unwrap_or_default().trim();
        let why: Vec<&str> = error.message().split_whitespace().collect();
        let (path, why) = (path.display(), explain(&why.join(" ")));
        Stop::BadInput(format!("{path}:{number}: {why}, in `{}`", excerpt(line)))
    })?;
    Ok((read, text))
}

/// Serde's words in ours.
fn explain(message: &str) -> String {
    if message.starts_with("unknown field ") {
        let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        if let [wrong, known @ ..] = &names[..] {
            return format!("unknown key `{wrong}`; {}", instead(wrong, known));
        }
    }
    let whole = "expected a whole number of 0 or more";
    message
        .replace("expected u32", &format!("{whole}, below 4294967296"))
        .replace("expected u64", whole)
        .replace("expected f64", "expected a number, as 0.3")
        .replace("expected a sequence", "expected a list, as [1, 2]")
}

/// Writes a page into the directory of `--out`, which it makes if need be.
pub(crate) fn write_page(out: &Path, name: &str, page: &str) -> Result<PathBuf, Stop> {
    let path = out.join(name);
    let written = fs::create_dir_all(out).and_then(|()| fs::write(&path, page));
    written.map_err(|error| {
        Stop::Lacking(format!("{}: {error}; give another --out", path.display()))
    })?;
    Ok(path)
}

/// The line of a byte of a text, from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// Every connection is an open file, and a shell often allows 1024 where the system allows far more.
/// Raises this process's bound as far as it may. Best effort: where it fails, whatever finds no
/// descriptor says so.
pub(crate) fn allow_many() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Open files beside those of connections: results that are written at the end, and the runtime's.
const OTHERS: usize = 32;
/// Of a thread that sends.
const PER_THREAD: usize = 4;

/// Whether all connections of a plan may be open at once. A request for which the system had no
/// descriptor would look as if the server had refused it.
pub(crate) fn room_for(plan: &Plan) -> Result<(), Stop> {
    match most_open() {
        Some(most) => room_within(plan.connections, plan.threads, most),
        None => Ok(()),
    }
}

fn room_within(connections: usize, threads: usize, most: u64) -> Result<(), Stop> {
    let others = OTHERS + PER_THREAD * threads;
    let (needed, room) = (connections + others, (most as usize).saturating_sub(others));
    if needed as u64 <= most {
        return Ok(());
    }
    let fewer = if room > 0 { format!("use at most {room}, or ") } else { String::new() };
    Err(Stop::Lacking(format!(
        "{connections} connections need {needed} open files, and the system allows this process {most}; \
         {fewer}raise that (ulimit -n)"
    )))
}

/// How many files this process may have open; none where there is no bound.
fn most_open() -> Option<u64> {
    #[cfg(unix)]
    {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }
    #[cfg(not(unix))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_cannot_all_be_open_are_refused_with_how_many_can() {
        assert!(room_within(64, 1, 100).is_ok());
        let Err(Stop::Lacking(said)) = room_within(65, 1, 100) else { panic!("there is no room") };
        assert!(
            said.contains("65 connections need 101 open files") && said.contains("at most 64"),
            "{said}"
        );
        let Err(Stop::Lacking(said)) = room_within(1, 1, 8) else { panic!("there is no room") };
        assert!(said.ends_with("8; raise that (ulimit -n)"), "{said}");
    }
}
