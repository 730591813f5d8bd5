//! Reads UTF-8 text files of limited size, and drops the byte order mark.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The maximum size of a file of samples, arrivals or requests, in bytes. This is enough for
/// several million lines.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// The maximum number of characters that an error quotes from a bad line.
const SHOWN_CHARS: usize = 60;

pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The reason why a file cannot be read as text. The message names the file and the fix.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    #[error("cannot read {}: {source}; check the path", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} has more than {max} bytes; keep fewer lines", path.display(), max = MAX_FILE_BYTES)]
    TooLarge { path: PathBuf },
    #[error("{}:{line}: it is not UTF-8 text; save the file as UTF-8", path.display())]
    NotText { path: PathBuf, line: usize },
}

/// Shortens a line for an error message, with an ellipsis. Control characters are escaped, because
/// a file may contain any character.
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

/// Reads text from a source that is already open. Errors name `path`.
pub(crate) fn text_from(from: impl Read, path: &Path) -> Result<String, TextError> {
    let unreadable = |source| TextError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    // Read one byte more than allowed, to detect a file that is too long.
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

/// Returns the form that was probably meant by an unknown name. Text after a colon is ignored in
/// the name and in the forms.
#[must_use]
pub fn closest<'k>(wrong: &str, forms: &[&'k str]) -> Option<&'k str> {
    let name = |form: &str| form.split(':').next().unwrap_or_default().to_lowercase();
    let wrong = name(wrong);
    // Up to a third of the letters may differ. Swapping two adjacent letters counts as one
    // difference.
    let near = |form: &&&str| {
        let right = name(form);
        let off = strsim::damerau_levenshtein(&wrong, &right);
        (off * 3 <= wrong.chars().count().max(right.chars().count())).then_some(off)
    };
    let candidates = forms.iter().filter_map(|form| Some((near(&form)?, *form)));
    candidates.min_by_key(|&(off, _)| off).map(|(_, form)| form)
}

/// Returns the fix to suggest for an unknown name: the closest form, or a list of all forms.
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
    fn long_lines_are_cut_at_characters_with_an_ellipsis() {
        assert_eq!(excerpt("5 ms"), "5 ms");
        let whole = "µ".repeat(SHOWN_CHARS);
        assert_eq!(excerpt(&whole), whole);
        assert_eq!(excerpt(&format!("{whole}x")), format!("{whole}…"));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(excerpt("a\u{1b}[31m\r\u{9b}µ"), r"a\u{1b}[31m\r\u{9b}µ");
    }
}
