//! Reads JSON objects, usually one per line: `{"title": "…", "body": "…"}`, or `text` instead of
//! `body`.

use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Deserialize;

use super::{CorpusError, Gather};

#[derive(Deserialize)]
struct Line {
    title: Option<String>,
    body: Option<String>,
    text: Option<String>,
}

/// Reads a file of JSON objects. Ignores unknown members. The title of a document that has none is
/// derived from its position.
pub(super) fn read(path: &Path, gather: &mut Gather) -> Result<(), CorpusError> {
    let unreadable = |source| CorpusError::Read { path: path.to_owned(), source };
    let wrong = |reason: String| CorpusError::Json { path: path.to_owned(), reason };
    let input = BufReader::new(File::open(path).map_err(unreadable)?);
    for (at, line) in (1..).zip(serde_json::Deserializer::from_reader(input).into_iter::<Line>()) {
        let Line { title, body, text } = line.map_err(|error| match error.is_io() {
            true => unreadable(error.into()),
            false => wrong(error.to_string()),
        })?;
        let missing = || wrong(format!("object {at} has neither `body` nor `text`"));
        let body = body.or(text).ok_or_else(missing)?;
        let title = title.unwrap_or_else(|| format!("object {at}"));
        if gather.push(&title, &body) == ControlFlow::Break(()) {
            break;
        }
    }
    Ok(())
}
