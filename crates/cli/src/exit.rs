//! How verbs end.

use std::process::ExitCode;

use crate::say;

/// Why a verb did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The input is wrong; the text names value and mend.
    BadInput(String),
    /// A configuration is wrong; each line begins with its name, as compilers do, so that editors
    /// find it.
    BadConfig(String),
    /// The environment lacks something; the text says what.
    Lacking(String),
    /// Who was to read the result is gone.
    Unread,
    /// A signal ended the work, and nothing of it is worth keeping; the text says when.
    Interrupted(&'static str),
}

/// Says what went wrong, and turns it into an exit code.
pub(crate) fn code(done: Result<ExitCode, Stop>) -> ExitCode {
    let (code, said) = match done {
        Ok(code) => return code,
        Err(Stop::BadInput(why)) => (2, format!("error: {why}")),
        Err(Stop::BadConfig(why)) => (2, format!("error: this configuration is refused:\n{why}")),
        Err(Stop::Lacking(why)) => (3, format!("error: {why}")),
        Err(Stop::Unread) => return ExitCode::from(3),
        Err(Stop::Interrupted(when)) => (130, format!("interrupted {when}")),
    };
    say::aside(said);
    ExitCode::from(code)
}
