//! Reads UTF-8 text files of limited size, and drops the byte order mark.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use curtail_config::line_at;

/// The maximum size of a file of samples, arrivals or requests, in bytes. This is enough for
/// several million lines.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

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
        let line = line_at(error.as_bytes(), error.utf8_error().valid_up_to());
        TextError::NotText { path: path.to_owned(), line }
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(text)
}
