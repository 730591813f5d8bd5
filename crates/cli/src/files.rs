//! Reads input files, and checks the limit on open files.

use std::path::Path;

use curtail_dist::{excerpt, instead, read_text};
use curtail_load::Plan;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::de::DeserializeOwned;

use crate::exit::{Stop, bad, lacking};

/// Reads a TOML file and returns the value and the text. Errors name the line.
pub(crate) fn toml_and_text<T: DeserializeOwned>(path: &Path) -> Result<(T, String), Stop> {
    let text = read_text(path).map_err(Stop::bad)?;
    let read = toml::from_str(&text).map_err(|error: toml::de::Error| {
        let number = line(&text, error.span().map_or(0, |span| span.start));
        let line = text.lines().nth(number - 1).unwrap_or_default().trim();
        let why: Vec<&str> = error.message().split_whitespace().collect();
        let (path, why) = (path.display(), explain(&why.join(" ")));
        bad!("{path}:{number}: {why}, in `{}`", excerpt(line))
    })?;
    Ok((read, text))
}

/// Rewords serde's messages.
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
        .replace("expected f64", "expected a number, such as 0.3")
        .replace("expected a sequence", "expected a list, such as [1, 2]")
}

/// Returns the number of the line at a byte offset, counting from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// Raises this process's limit on open files to the hard limit. Every connection is an open file,
/// and shells often allow 1024 where the system allows far more. Errors are ignored: any operation
/// that later lacks a descriptor reports its own error.
pub(crate) fn allow_many() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Open files that are not connections: results that are written at the end, and the runtime's own
/// files.
const OTHERS: usize = 32;
/// Open files of a sending thread, in addition to its connections.
const PER_THREAD: usize = 4;

/// Returns an error if the limit on open files is too low for all connections of a plan to be open
/// at once. A request that fails for lack of a descriptor would look like one that the server has
/// refused.
pub(crate) fn room_for(plan: &Plan) -> Result<(), Stop> {
    let most = getrlimit(Resource::Nofile).current;
    most.map_or(Ok(()), |most| room_within(plan.connections, plan.threads, most))
}

fn room_within(connections: usize, threads: usize, most: u64) -> Result<(), Stop> {
    let others = OTHERS + PER_THREAD * threads;
    let (needed, room) = (connections + others, (most as usize).saturating_sub(others));
    if needed as u64 <= most {
        return Ok(());
    }
    let fewer = if room > 0 { format!("use at most {room}, or ") } else { String::new() };
    Err(lacking!(
        "{connections} connections need {needed} open files, but the system allows this process \
         {most}; {fewer}raise the limit (ulimit -n)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_connections_are_rejected_with_the_possible_number() {
        assert!(room_within(64, 1, 100).is_ok());
        let Err(Stop::Lacking(message)) = room_within(65, 1, 100) else {
            panic!("there is no room")
        };
        assert!(
            message.contains("65 connections need 101 open files")
                && message.contains("at most 64"),
            "{message}"
        );
        let Err(Stop::Lacking(message)) = room_within(1, 1, 8) else { panic!("there is no room") };
        assert!(message.ends_with("8; raise the limit (ulimit -n)"), "{message}");
    }
}
