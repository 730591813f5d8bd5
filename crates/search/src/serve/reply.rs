//! What a client is told.

use serde::Serialize;

/// An answer, before it is written.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// The body of an answer that says what went wrong.
#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
}

impl Reply {
    /// An answer whose body is JSON already.
    pub(crate) fn json_bytes(status: u16, body: Vec<u8>) -> Self {
        Self { status, headers: vec![("content-type", "application/json".to_owned())], body }
    }

    /// An answer in JSON.
    pub(crate) fn json(status: u16, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::json_bytes(status, body),
            // Our types have string keys and no failing parts.
            Err(error) => Self { status: 500, headers: Vec::new(), body: error.to_string().into() },
        }
    }

    /// An error in JSON: `{"error": …}`.
    pub(crate) fn error(status: u16, error: &str) -> Self {
        Self::json(status, &ErrorBody { error })
    }

    /// The answer to a health check.
    pub(crate) fn healthy() -> Self {
        let headers = vec![("content-type", "text/plain; charset=utf-8".to_owned())];
        Self { status: 200, headers, body: b"ok\n".to_vec() }
    }

    /// The same answer with one more field.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}
