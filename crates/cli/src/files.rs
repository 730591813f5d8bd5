//! Files that are given, and how many may be open.

use std::path::Path;

use curtail_dist::{excerpt, read_text};
use serde::de::DeserializeOwned;

use crate::exit::Stop;

/// Reads TOML; what is wrong is named with its line.
pub(crate) fn toml<T: DeserializeOwned>(path: &Path) -> Result<T, Stop> {
    toml_and_text(path).map(|(value, _)| value)
}

/// The same, and the text that it is from.
pub(crate) fn toml_and_text<T: DeserializeOwned>(path: &Path) -> Result<(T, String), Stop> {
    let text = read_text(path).map_err(|error| Stop::BadInput(error.to_string()))?;
    let read = toml::from_str(&text).map_err(|error: toml::de::Error| {
        let number = line(&text, error.span().map_or(0, |span| span.start));
        let line = text.lines().nth(number - 1).unwrap_or_default().trim();
        let why: Vec<&str> = error.message().split_whitespace().collect();
        let path = path.display();
        Stop::BadInput(format!("{path}:{number}: {}, in `{}`", why.join(" "), excerpt(line)))
    })?;
    Ok((read, text))
}

/// The line of a byte of a text, from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// Every connection is an open file, and a shell often allows 1024 where the system allows far more.
/// Raises this process's bound as far as it may. Best effort: where it fails, whatever finds no
/// descriptor says so.
pub(crate) fn allow_many() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
