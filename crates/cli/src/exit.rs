//! How verbs end.

/// Why a verb did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The input is wrong; the text names value and fix.
    BadInput(String),
    /// A configuration is wrong; each line begins with its name, as compilers do, so that editors
    /// find it.
    BadConfig(String),
    /// The environment lacks something; the text says what.
    Lacking(String),
    /// The reader of the result is gone.
    Unread,
    /// A signal ended the work, and nothing of it is worth keeping; the text says when.
    Interrupted(&'static str),
}
