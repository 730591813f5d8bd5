//! Reads the descriptions of Debian packages from the output of `apt-cache dumpavail`.

use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::process::{Command, Stdio};

use curtail_report::number;

use super::{Corpus, Gather, Limits};

/// Minimum number of packages. If there are fewer, the lists are stale or were never fetched.
const MIN_PACKAGES: u64 = 1000;

/// Runs `apt-cache dumpavail` and reads its output up to the limits.
pub(super) fn load(limits: Limits) -> Result<Corpus, String> {
    let mut child = Command::new("apt-cache")
        .arg("dumpavail")
        .env("LC_ALL", "C") // English descriptions: the same corpus for every user of the machine
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start apt-cache: {error}"))?;
    let mut gather = Gather::new(limits);
    let read = match child.stdout.take() {
        Some(stdout) => read(BufReader::new(stdout), &mut gather),
        None => Ok(()),
    };
    // If reading stopped at a limit, the process may still be writing. It is not an error if it has
    // already exited.
    let _ = child.kill();
    let _ = child.wait();
    read.map_err(|error| format!("apt-cache dumpavail: {error}"))?;
    let fewest = MIN_PACKAGES.min(limits.max_documents);
    if gather.len() < fewest {
        let got = number::count(gather.len());
        return Err(format!("apt-cache dumpavail lists only {got} packages, fewer than {fewest}"));
    }
    gather
        .finish(|n| format!("{n} Debian package descriptions from apt-cache dumpavail"))
        .map_err(|error| error.to_string())
}

/// Reads stanzas. A stanza consists of `Name: value` fields and ends with an empty line. A line
/// that starts with a space continues the field before it. In a line that is not UTF-8, only the
/// invalid characters are replaced.
pub(super) fn read(mut input: impl BufRead, gather: &mut Gather) -> std::io::Result<()> {
    let (mut title, mut body) = (String::new(), String::new());
    let mut in_description = false;
    let mut line = Vec::new();
    loop {
        line.clear();
        let end = input.read_until(b'\n', &mut line)? == 0;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text.is_empty() {
            // Packages without a description are skipped, because they contain nothing to search.
            if !title.is_empty()
                && !body.is_empty()
                && gather.push(&title, &body) == ControlFlow::Break(())
            {
                return Ok(());
            }
            if end {
                return Ok(());
            }
            title.clear();
            body.clear();
            in_description = false;
        } else if let Some(more) = text.strip_prefix([' ', '\t']) {
            if in_description {
                body.push('\n');
                body.push_str(if more == "." { "" } else { more });
            }
        } else if let Some((field, value)) = text.split_once(':') {
            in_description = field == "Description" || field == "Description-en";
            if in_description {
                body = value.trim().to_owned();
            } else if field == "Package" {
                title = value.trim().to_owned();
            }
        }
    }
}
