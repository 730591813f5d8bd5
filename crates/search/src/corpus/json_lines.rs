//! One JSON object per line: `{"title": "…", "body": "…"}`, or `text` instead of `body`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

use serde::Deserialize;

use super::{CorpusError, Gather};

/// The longest line. A longer one is an error: a file without line ends is not JSON lines.
const MAX_LINE_BYTES: u64 = 8 << 20;

#[derive(Deserialize)]
struct Line {
    title: Option<String>,
    body: Option<String>,
    text: Option<String>,
}

/// Reads a file of JSON lines. Blank lines are skipped, unknown members ignored; a document
/// without a title is called after its line.
pub(super) fn read(path: &Path, gather: &mut Gather) -> Result<(), CorpusError> {
    let unreadable = |source| CorpusError::Read { path: path.to_owned(), source };
    let mut input = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let wrong =
            |reason: String| CorpusError::JsonLine { path: path.to_owned(), line: number, reason };
        let mut line = input.by_ref().take(MAX_LINE_BYTES + 1);
        if line.read_until(b'\n', &mut bytes).map_err(unreadable)? == 0 {
            break;
        }
        if bytes.len() as u64 > MAX_LINE_BYTES {
            return Err(wrong(format!("the line is longer than {} MiB", MAX_LINE_BYTES >> 20)));
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_slice(&bytes).map_err(|error| wrong(reason(&error)))?;
        let body = line.body.or(line.text);
        let body = body.ok_or_else(|| wrong("there is neither `body` nor `text`".to_owned()))?;
        let title = line.title.unwrap_or_else(|| format!("line {number}"));
        if gather.push(&title, &body) == ControlFlow::Break(()) {
            break;
        }
    }
    Ok(())
}

/// The parser counts lines from the start of its input, which is always line 1 here: its "at line
/// 1 column 7" would contradict the line that we name.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) if error.column() > 0 => format!("column {}: {what}", error.column()),
        Some(what) => what.to_owned(),
        None => text,
    }
}
