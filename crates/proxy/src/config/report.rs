//! Everything that is wrong with a file, said with the line, the value and the fix.

use std::ops::Range;
use std::path::Path;

/// Longest excerpt of a value in a message, in characters.
const EXCERPT_CHARS: usize = 60;

/// One thing that is wrong, as `FILE:LINE: VALUE: what is wrong; the fix`. A file that cannot be
/// read has neither line nor value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ConfigError {
    text: String,
    line: Option<usize>,
}

impl ConfigError {
    /// The line in the file, from 1.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

/// Everything that is wrong with a file, in the order of its lines; prints as one line each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.0.iter().map(|error| &*error.text).collect::<Vec<_>>().join("\n"))]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// What is wrong, at least one thing.
    pub fn errors(&self) -> &[ConfigError] {
        &self.0
    }

    /// A file that cannot be read at all.
    pub(super) fn unreadable(name: &str, why: &std::io::Error) -> Self {
        let text = format!("{name}: cannot be read ({why}); name a file that exists and is yours");
        Self(vec![ConfigError { text, line: None }])
    }
}

/// Collects what is wrong with a file.
pub(super) struct Report<'t> {
    name: &'t str,
    text: &'t str,
    errors: Vec<ConfigError>,
    /// What is not there. It may only be misspelled, so it is said only if nothing else is wrong
    /// with the shape of the file.
    missing: Vec<ConfigError>,
    warnings: Vec<ConfigError>,
    misshapen: bool,
}

impl<'t> Report<'t> {
    pub(super) fn new(name: &'t str, text: &'t str) -> Self {
        let (errors, missing, warnings) = (Vec::new(), Vec::new(), Vec::new());
        Self { name, text, errors, missing, warnings, misshapen: false }
    }

    /// The folder of the file.
    pub(super) fn folder(&self) -> &'t Path {
        Path::new(self.name).parent().unwrap_or(Path::new(""))
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// A value that is wrong.
    pub(super) fn error(&mut self, at: &Range<usize>, wrong: &str, fix: &str) {
        let error = self.render(at, &format!("{wrong}; {fix}"));
        self.errors.push(error);
    }

    /// Something that does not have the shape of a configuration; `said` includes the fix.
    pub(super) fn misshapen(&mut self, at: &Range<usize>, said: &str) {
        self.misshapen = true;
        let error = self.render(at, said);
        self.errors.push(error);
    }

    /// Something that is not there but should be; `at` is the table that lacks it.
    pub(super) fn missing(&mut self, at: &Range<usize>, wrong: &str, fix: &str) {
        let error = self.render(at, &format!("{wrong}; {fix}"));
        self.missing.push(error);
    }

    /// Something that the file as a whole lacks: no line of it is to blame.
    pub(super) fn lacking(&mut self, wrong: &str, fix: &str) {
        let text = format!("{}:1: {wrong}; {fix}", self.name);
        self.missing.push(ConfigError { text, line: Some(1) });
    }

    /// Something that works but is probably not meant.
    pub(super) fn warn(&mut self, at: &Range<usize>, wrong: &str, fix: &str) {
        let warning = self.render(at, &format!("{wrong}; {fix}"));
        self.warnings.push(warning);
    }

    /// `FILE:LINE`
    pub(super) fn place(&self, at: &Range<usize>) -> String {
        format!("{}:{}", self.name, self.line(at))
    }

    fn line(&self, at: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..at.start).unwrap_or_default();
        before.iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    pub(super) fn count(&self) -> usize {
        self.errors.len()
    }

    /// The warnings if nothing is wrong.
    pub(super) fn finish(mut self) -> Result<Vec<String>, ConfigErrors> {
        if !self.misshapen {
            self.errors.append(&mut self.missing);
        }
        self.errors.sort_by_key(|error| error.line);
        self.warnings.sort_by_key(|warning| warning.line);
        if self.errors.is_empty() {
            return Ok(self.warnings.into_iter().map(|warning| warning.text).collect());
        }
        Err(ConfigErrors(self.errors))
    }

    fn render(&self, at: &Range<usize>, said: &str) -> ConfigError {
        let line = self.line(at);
        let value = self.excerpt(at, line);
        ConfigError { text: format!("{}:{line}: {value}: {said}", self.name), line: Some(line) }
    }

    /// The first line of a value as it was written. Where there is none: the whole line, or at the
    /// start of the file, which stands for all of it, nothing.
    fn excerpt(&self, at: &Range<usize>, line: usize) -> String {
        let value = self.text.get(at.clone()).unwrap_or_default().trim();
        let value = if value.is_empty() && at.end > 0 {
            let line = self.text.lines().nth(line - 1).unwrap_or_default();
            line.split(" #").next().unwrap_or_default().trim()
        } else {
            value.lines().next().unwrap_or_default()
        };
        if value.is_empty() {
            return String::from("(nothing)");
        }
        // Control characters have no business on the terminal of who reads this.
        let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        let mut excerpt: String = value.chars().take(EXCERPT_CHARS).map(clean).collect();
        if value.chars().nth(EXCERPT_CHARS).is_some() {
            excerpt.push('…');
        }
        excerpt
    }
}
