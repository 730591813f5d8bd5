//! Errors that end a verb.

/// Why a verb failed.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The input is wrong. The text names the value and the fix.
    BadInput(String),
    /// A configuration is wrong. Each line begins with the file's name, as compilers print it, so
    /// that editors can jump to the error.
    BadConfig(String),
    /// The environment lacks something. The text names what is missing.
    Lacking(String),
    /// The reader of stdout is gone.
    Unread,
    /// A signal interrupted the work, and no result is worth keeping. The text names the point at
    /// which that happened.
    Interrupted(&'static str),
}
