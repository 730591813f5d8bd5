//! Text from a file: up to a bound, in UTF-8, without the mark that some editors put at its start.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The largest file of samples, arrivals or requests that is read, in bytes: room for several
/// million lines.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// How many characters of a bad line an error repeats.
const SHOWN_CHARS: usize = 60;

pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Why a file is not text that can be read. The message names the file and the fix.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    #[error("cannot read {}: {source}; check the path", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} has more than {max} bytes; keep fewer lines", path.display(), max = MAX_FILE_BYTES)]
    TooLarge { path: PathBuf },
    #[error("{}:{line}: it is not UTF-8 text; save the file as UTF-8", path.display())]
    NotText { path: PathBuf, line: usize },
}

/// As much of a line as an error repeats; an ellipsis stands for the rest. Without what a terminal
/// would obey, because files may hold anything.
pub fn excerpt(line: &str) -> String {
    let mut chars = line.chars();
    let mut shown = String::new();
    for char in chars.by_ref().take(SHOWN_CHARS) {
        if char.is_control() {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Reads a file of up to [`MAX_FILE_BYTES`].
pub fn read_text(path: &Path) -> Result<String, TextError> {
    let unreadable = |source| TextError::Unreadable { path: path.to_owned(), source };
    text_from(File::open(path).map_err(unreadable)?, path)
}

/// The same from what is open already; errors name `path`.
pub(crate) fn text_from(from: impl Read, path: &Path) -> Result<String, TextError> {
    let unreadable = |source| TextError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    // One byte more than allowed, to tell a full file from one that goes on.
    from.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(TextError::TooLarge { path: path.to_owned() });
    }
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
        TextError::NotText { path: path.to_owned(), line }
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(text)
}

/// The form that was probably meant by a name that is unknown. What follows a colon is no part of
/// either's name.
#[must_use]
pub fn closest<'k>(wrong: &str, forms: &[&'k str]) -> Option<&'k str> {
    let name = |form: &str| form.split(':').next().unwrap_or_default().to_lowercase();
    let wrong = name(wrong);
    // A third of the letters may differ; a swap of neighbors counts once.
    let near = |form: &&&str| {
        let right = name(form);
        let off = strsim::damerau_levenshtein(&wrong, &right);
        (off * 3 <= wrong.chars().count().max(right.chars().count())).then_some(off)
    };
    let candidates = forms.iter().filter_map(|form| Some((near(&form)?, *form)));
    candidates.min_by_key(|&(off, _)| off).map(|(_, form)| form)
}

/// What to write in place of a name that is unknown: the form that was probably meant, else any.
#[must_use]
pub fn instead(wrong: &str, forms: &[&str]) -> String {
    match closest(wrong, forms) {
        Some(close) => format!("did you mean {close}?"),
        None => format!("use one of {}", forms.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_at_characters_and_say_so() {
        assert_eq!(excerpt("5 ms"), "5 ms");
        let whole = "µ".repeat(SHOWN_CHARS);
        assert_eq!(excerpt(&whole), whole);
        assert_eq!(excerpt(&format!("{whole}x")), format!("{whole}…"));
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(excerpt("a\u{1b}[31m\r\u{9b}µ"), r"a\u{1b}[31m\r\u{9b}µ");
    }
}
