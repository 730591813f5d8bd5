//! Verdicts and reasons: a kind with its fields for programs, and a text for people.

use serde::Serialize;

/// A typed value and its text. `of` is an enum whose serde tag is `kind`.
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
