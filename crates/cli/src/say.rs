//! What verbs write: results on stdout, which must arrive, and words on stderr, which may be lost.
//!
//! The macros of the standard library panic where nothing can be written. A full disk behind a log
//! must not end a proxy.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use crate::exit::Stop;

/// Writes a result and a line end to stdout.
pub(crate) fn result(text: impl Display) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|error| unwritten(&error))
}

/// Why a result did not arrive. A reader that has gone away knows that it did.
pub(crate) fn unwritten(error: &io::Error) -> Stop {
    match error.kind() {
        ErrorKind::BrokenPipe => Stop::Unread,
        _ => Stop::Lacking(format!("cannot write to standard output: {error}")),
    }
}

/// Writes a line to stderr, if somebody can read it. It may quote files and flags.
pub(crate) fn aside(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(&text.to_string()));
}

/// Without what a terminal would obey, because files and flags may hold anything.
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
