//! How verbs end.

use std::process::ExitCode;

/// Why a verb did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The input is wrong; the text names value and mend.
    BadInput(String),
    /// A file is wrong; each line begins with its name, as compilers do, so that editors find it.
    BadFile(String),
    /// The environment lacks something; the text says what.
    Lacking(String),
    /// A signal ended the work, and nothing of it is worth keeping.
    Interrupted,
}

/// Says what went wrong, and turns it into an exit code.
pub(crate) fn code(done: Result<ExitCode, Stop>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(Stop::BadInput(why)) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
        Err(Stop::BadFile(why)) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
        Err(Stop::Lacking(why)) => {
            eprintln!("error: {why}");
            ExitCode::from(3)
        }
        Err(Stop::Interrupted) => {
            eprintln!("interrupted");
            ExitCode::from(130)
        }
    }
}
