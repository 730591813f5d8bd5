//! How a verb ends: its errors, and its verdicts and reasons for programs and people.

use std::fmt::Display;

use serde::Serialize;

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

impl Stop {
    /// Reports an error of a library as bad input.
    pub(crate) fn bad(error: impl Display) -> Self {
        Self::BadInput(error.to_string())
    }

    /// Reports the errors of a configuration.
    pub(crate) fn config(errors: impl Display) -> Self {
        Self::BadConfig(errors.to_string())
    }

    /// Reports an error of a library as something that the environment lacks.
    pub(crate) fn lacking(error: impl Display) -> Self {
        Self::Lacking(error.to_string())
    }
}

/// Formats an error about bad input.
macro_rules! bad {
    ($($text:tt)*) => { $crate::exit::Stop::BadInput(format!($($text)*)) };
}

/// Formats an error about something that the environment lacks.
macro_rules! lacking {
    ($($text:tt)*) => { $crate::exit::Stop::Lacking(format!($($text)*)) };
}

pub(crate) use {bad, lacking};

/// A verdict or a reason: a kind with its fields for programs, and a text for people. `of` is an enum
/// whose serde tag is `kind`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Typed<K> {
    #[serde(flatten)]
    pub(crate) of: K,
    pub(crate) text: String,
}

impl<K> Typed<K> {
    pub(crate) fn new(of: K, text: impl Into<String>) -> Self {
        Self { of, text: text.into() }
    }
}
