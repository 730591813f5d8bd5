//! Output of verbs: results go to stdout, and messages to stderr. An error on stdout ends the verb,
//! whereas an error on stderr is ignored.
//!
//! The macros of the standard library panic if they cannot write. A log on a full disk must not end
//! a proxy.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write as _};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::exit::{Stop, lacking};

/// Writes a result and a newline to stdout.
pub(crate) fn result(text: impl Display) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|error| unwritten(&error))
}

/// Writes an answer to stdout: the document if `--json` is set, otherwise the text.
pub(crate) fn answer(
    as_json: bool,
    document: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Stop> {
    result(if as_json { json(document)? } else { text() })
}

/// Serializes a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<String, Stop> {
    serde_json::to_string_pretty(value).map_err(|error| lacking!("cannot write JSON: {error}"))
}

/// Number of columns of the terminal; 80 if stdout is not a terminal.
pub(crate) fn width() -> usize {
    console::Term::stdout().size_checked().map_or(80, |(_, columns)| usize::from(columns))
}

/// Wraps a text between words. Lines are at most as long as the terminal is wide, within limits.
pub(crate) fn filled(text: &str, width: usize) -> String {
    textwrap::fill(text, width.clamp(24, 100))
}

/// Turns a failed write of a result into an error. A closed pipe needs no message, because its
/// reader has left.
pub(crate) fn unwritten(error: &io::Error) -> Stop {
    match error.kind() {
        ErrorKind::BrokenPipe => Stop::Unread,
        _ => lacking!("cannot write to standard output: {error}"),
    }
}

/// Writes a line to stderr, if possible. Control characters are escaped, because the text may quote
/// files and flags.
pub(crate) fn aside(text: impl Display) {
    let text = plain(&text.to_string());
    let marks = [("error:", AnsiColor::Red), ("warning:", AnsiColor::Yellow)];
    let mark = marks.into_iter().find(|(mark, _)| text.starts_with(mark));
    let _ = match mark.filter(|_| colored(&io::stderr())) {
        Some((mark, color)) => {
            let (style, rest) = (color.on_default().bold(), &text[mark.len()..]);
            writeln!(io::stderr().lock(), "{style}{mark}{style:#}{rest}")
        }
        None => writeln!(io::stderr().lock(), "{text}"),
    };
}

/// Returns true if this stream should be colored, which is the case if it is a terminal and
/// NO_COLOR is not set.
pub(crate) fn colored(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Colors a verdict for stdout: good, bad or neutral.
pub(crate) fn verdict(text: &str, good: Option<bool>) -> String {
    if !colored(&io::stdout()) {
        return text.to_owned();
    }
    let style = match good {
        Some(true) => AnsiColor::Green.on_default().bold(),
        Some(false) => AnsiColor::Red.on_default().bold(),
        None => Style::new().bold(),
    };
    format!("{style}{text}{style:#}")
}

/// Escapes control characters, which a terminal would otherwise interpret. Files and flags may
/// contain any of these characters.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}
