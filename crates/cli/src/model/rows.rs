//! Reads files of rows: fields are separated by commas or white space, `#` starts a comment, and a
//! header line is skipped.

use std::path::Path;

use curtail_dist::{excerpt, read_text};

use super::refused;
use crate::exit::Stop;

/// A row's value and its line.
pub(super) struct Row<T> {
    /// Line number, counting from 1.
    pub(super) line: usize,
    pub(super) value: T,
}

/// Reads the rows of a file. `row` parses one row, and its error contains the fix. `form` is the
/// format of a row, for messages.
pub(super) fn read<T>(
    path: &Path,
    form: &str,
    mut row: impl FnMut(&[&str]) -> Result<T, String>,
) -> Result<Vec<Row<T>>, Stop> {
    let text = read_text(path).map_err(refused)?;
    let mut rows = Vec::new();
    let mut names = None;
    for (i, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let fields = fields(content);
        let is_first = names.is_none() && rows.is_empty();
        if is_first && !fields.iter().any(|field| starts_a_number(field)) {
            names = Some(content);
            continue;
        }
        let value = row(&fields).map_err(|why| at(path, i + 1, why))?;
        rows.push(Row { line: i + 1, value });
    }
    if let (true, Some(names)) = (rows.is_empty(), names) {
        let why = format_args!(
            "its only line, `{}`, was read as column names; write lines of {form}, separated by \
             commas or white space",
            excerpt(names)
        );
        return Err(refused(format_args!("{}: {why}", path.display())));
    }
    if rows.is_empty() {
        return Err(refused(format_args!("{} is empty; write lines of {form}", path.display())));
    }
    Ok(rows)
}

/// Splits at commas if there are any, so that fields may contain spaces or be empty.
fn fields(content: &str) -> Vec<&str> {
    if content.contains(',') {
        content.split(',').map(str::trim).collect()
    } else {
        content.split_whitespace().collect()
    }
}

fn starts_a_number(field: &str) -> bool {
    field.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))
}

/// Returns an error about a line of a file.
pub(super) fn at(path: &Path, line: usize, why: impl std::fmt::Display) -> Stop {
    refused(format_args!("{}:{line}: {why}", path.display()))
}

/// Replaces the index in an error ("sample 3 is …"), which is numbered from 0, with a line number.
pub(super) fn this(
    path: &Path,
    line: usize,
    (thing, index): (&str, usize),
    error: &impl ToString,
) -> Stop {
    let error = error.to_string();
    match error.strip_prefix(&format!("{thing} {index} ")) {
        Some(rest) => at(path, line, format_args!("this {thing} {rest}")),
        None => at(path, line, error),
    }
}

/// The message for a row that does not have the format `form`.
pub(super) fn malformed(fields: &[&str], form: &str, example: &str) -> String {
    format!("`{}` is not {form}; write it as `{example}`", excerpt(&fields.join(" ")))
}
