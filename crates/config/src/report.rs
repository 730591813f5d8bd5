//! Collects the errors in a file, each with the line, the value and the fix.

use std::ops::Range;
use std::path::Path;

use crate::words::{excerpt, line_at};

/// An error in a file, displayed as `FILE:LINE: VALUE: what is wrong; the fix`. The line and the
/// value are omitted if the file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ConfigError {
    text: String,
    line: Option<usize>,
}

impl ConfigError {
    /// Returns the line in the file, or `None` if the file cannot be read. Lines are numbered from
    /// 1.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

/// All errors in a file, in the order of their lines. Each error is displayed on its own line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.0.iter().map(|error| &*error.text).collect::<Vec<_>>().join("\n"))]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Returns the errors. There is at least one error.
    pub fn errors(&self) -> &[ConfigError] {
        &self.0
    }

    /// Returns the error for a file that cannot be read.
    pub(crate) fn unreadable(name: &str, why: &std::io::Error) -> Self {
        let text = format!(
            "{name}: cannot be read ({why}); name a file that exists and that you may read"
        );
        Self(vec![ConfigError { text, line: None }])
    }
}

/// Collects errors and warnings about a file.
///
/// A message has the form `FILE:LINE: VALUE: what is wrong; the fix`, on one line. Columns are left
/// out, because the value shows the place in its line.
#[derive(Debug)]
pub struct Report<'t> {
    name: &'t str,
    text: &'t str,
    /// Where the values of the file are described, for values that this crate cannot list.
    help: &'t str,
    errors: Vec<ConfigError>,
    /// Errors about missing keys, with their positions. A key that seems to be missing may just be
    /// misspelled, so these are reported only if the shape of their table has no errors.
    missing: Vec<(usize, ConfigError)>,
    warnings: Vec<ConfigError>,
    /// Positions of the errors in the shape of the file.
    misshapen: Vec<usize>,
}

impl<'t> Report<'t> {
    /// Starts a report. Messages refer to the file as `name`.
    #[must_use]
    pub fn new(name: &'t str, text: &'t str) -> Self {
        let (errors, missing, warnings) = (Vec::new(), Vec::new(), Vec::new());
        let help = "the manual lists them";
        Self { name, text, help, errors, missing, warnings, misshapen: Vec::new() }
    }

    /// Sets where the values of the file are described.
    #[must_use]
    pub fn help(self, help: &'t str) -> Self {
        Self { help, ..self }
    }

    pub(crate) fn described(&self) -> &'t str {
        self.help
    }

    /// Returns the folder of the file.
    #[must_use]
    pub fn folder(&self) -> &'t Path {
        Path::new(self.name).parent().unwrap_or(Path::new(""))
    }

    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    /// Reports a wrong value.
    pub fn error(&mut self, at: &Range<usize>, wrong: &str, fix: &str) {
        let error = self.render(at, &format!("{wrong}; {fix}"));
        self.errors.push(error);
    }

    /// Reports a part of the file that does not have the structure of a configuration. `message`
    /// includes the fix.
    pub(crate) fn misshapen(&mut self, at: &Range<usize>, message: &str) {
        self.misshapen.push(at.start);
        let error = self.render(at, message);
        self.errors.push(error);
    }

    /// Reports a missing key. `at` is the table that lacks it.
    pub fn missing(&mut self, at: &Range<usize>, wrong: &str, fix: &str) {
        let error = self.render(at, &format!("{wrong}; {fix}"));
        self.missing.push((at.start, error));
    }

    /// Reports something that is missing from the file as a whole, on line 1.
    pub fn lacking(&mut self, wrong: &str, fix: &str) {
        let text = format!("{}:1: {wrong}; {fix}", self.name);
        self.missing.push((0, ConfigError { text, line: Some(1) }));
    }

    /// Warns about something that works but is probably not intended.
    pub fn warn(&mut self, at: &Range<usize>, wrong: &str, fix: &str) {
        let warning = self.render(at, &format!("{wrong}; {fix}"));
        self.warnings.push(warning);
    }

    /// Returns `FILE:LINE`.
    #[must_use]
    pub fn place(&self, at: &Range<usize>) -> String {
        format!("{}:{}", self.name, self.line(at))
    }

    fn line(&self, at: &Range<usize>) -> usize {
        line_at(self.text.as_bytes(), at.start)
    }

    /// States that the file has more errors than those that are reported.
    pub(crate) fn more(&mut self) {
        let text = format!("{}: there are more errors; fix these first", self.name);
        self.errors.push(ConfigError { text, line: None });
    }

    pub(crate) fn count(&self) -> usize {
        self.errors.len()
    }

    /// Returns the warnings if there are no errors.
    ///
    /// # Errors
    /// All errors, in the order of their lines.
    pub fn finish(mut self) -> Result<Vec<String>, ConfigErrors> {
        let missing = std::mem::take(&mut self.missing).into_iter();
        let missing: Vec<_> = missing.filter(|(at, _)| !self.may_be_misspelled(*at)).collect();
        self.errors.extend(missing.into_iter().map(|(_, error)| error));
        self.errors.sort_by_key(|error| error.line.unwrap_or(usize::MAX));
        self.warnings.sort_by_key(|warning| warning.line);
        if self.errors.is_empty() {
            return Ok(self.warnings.into_iter().map(|warning| warning.text).collect());
        }
        Err(ConfigErrors(self.errors))
    }

    /// Returns whether the table around a position has an error in its shape. The table ends at the
    /// next one with the same header, so that it includes the tables below it.
    fn may_be_misspelled(&self, at: usize) -> bool {
        let before = self.text.get(..=at).unwrap_or_default();
        let start = before.rfind("\n[").map_or(0, |end| end + 1);
        let rest = self.text.get(start..).unwrap_or_default();
        let header = rest.split_inclusive(']').next().filter(|header| header.starts_with('['));
        let next = header.and_then(|header| rest.find(&format!("\n{header}")));
        let table = start..next.map_or(usize::MAX, |end| start + end);
        self.misshapen.iter().any(|position| table.contains(position))
    }

    fn render(&self, at: &Range<usize>, message: &str) -> ConfigError {
        let line = self.line(at);
        let value = self.excerpt(at, line);
        ConfigError { text: format!("{}:{line}: {value}: {message}", self.name), line: Some(line) }
    }

    /// Returns the first line of a value as it is written. If the value is empty, returns the line
    /// that contains it. An empty value at the start of the file stands for the whole file, so the
    /// result is "(nothing)".
    fn excerpt(&self, at: &Range<usize>, line: usize) -> String {
        let value = self.text.get(at.clone()).unwrap_or_default().trim();
        let value = if value.is_empty() && at.end > 0 {
            let line = self.text.lines().nth(line - 1).unwrap_or_default();
            line.split(" #").next().unwrap_or_default().trim()
        } else {
            value.lines().next().unwrap_or_default()
        };
        if value.is_empty() { String::from("(nothing)") } else { excerpt(value) }
    }
}
