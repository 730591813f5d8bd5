//! Request targets: `/search?q=QUERY&k=N`.

use std::borrow::Cow;

use curtail_http::h1::server::Request;
use percent_encoding::percent_decode_str;

use super::Reply;
use crate::leaf::MAX_HITS;
use crate::query::{Query, QueryError};

/// Number of hits in a response, if the request has no `k`.
const DEFAULT_HITS: usize = 10;

/// The parameters of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) query: Query,
    /// 1 to [`MAX_HITS`].
    pub(crate) k: usize,
}

/// The reason why a request is not a valid search.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAsk {
    #[error("the parameter q is missing; write /search?q=QUERY")]
    Missing,
    #[error("the parameter {name} occurs twice; write it once")]
    Twice { name: &'static str },
    #[error("the parameter {name} is not UTF-8; percent-encode its bytes as UTF-8")]
    NotUtf8 { name: &'static str },
    #[error("k is {text:?}; use a number from 1 to {MAX_HITS}")]
    Hits { text: String },
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// Returns the path of a request and its query string.
pub(crate) fn split(request: &Request) -> (&str, &str) {
    let target = request.head.path_and_query();
    target.split_once('?').unwrap_or((target, ""))
}

/// Rejects methods other than GET and HEAD.
pub(crate) fn check_method(request: &Request) -> Result<(), Reply> {
    match request.head.method() {
        "GET" | "HEAD" => Ok(()),
        method => {
            let text = format!("the method is {method:?}; use GET");
            Err(Reply::error(405, &text).with("allow", "GET, HEAD"))
        }
    }
}

impl Ask {
    /// Parses the query string of a search. `+` is a space, as in forms, so the sign of a required
    /// word is written `%2B`. Parameters other than `q` and `k` are ignored.
    pub(crate) fn parse(parameters: &str) -> Result<Self, BadAsk> {
        let (mut query, mut k) = (None, None);
        for pair in parameters.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "q" => set(&mut query, "q", value)?,
                "k" => set(&mut k, "k", value)?,
                _ => {}
            }
        }
        let query = Query::parse(&query.ok_or(BadAsk::Missing)?)?;
        let k = match k {
            None => DEFAULT_HITS,
            Some(text) => match text.parse() {
                Ok(k) if (1..=MAX_HITS).contains(&k) => k,
                _ => return Err(BadAsk::Hits { text: text.chars().take(40).collect() }),
            },
        };
        Ok(Self { query, k })
    }
}

fn set(slot: &mut Option<String>, name: &'static str, value: &str) -> Result<(), BadAsk> {
    let value =
        if value.contains('+') { Cow::Owned(value.replace('+', " ")) } else { value.into() };
    let decoded = percent_decode_str(&value).decode_utf8();
    let decoded = decoded.map_err(|_| BadAsk::NotUtf8 { name })?.into_owned();
    match slot.replace(decoded) {
        None => Ok(()),
        Some(_) => Err(BadAsk::Twice { name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_decoded() {
        let ask = Ask::parse("lang=en&q=%2Bt%C3%A4il+%22cut+it%22&k=3").expect("a search");
        assert_eq!((ask.query.text(), ask.k), ("+täil \"cut it\"", 3));
        assert_eq!(Ask::parse("q=100%").expect("a search").k, DEFAULT_HITS);
    }

    #[test]
    fn errors_name_the_value() {
        for (parameters, word) in [
            ("", "missing"),
            ("k=5", "missing"),
            ("q=a&q=b", "twice"),
            ("q=%ff", "UTF-8"),
            ("q=a&k=0", "\"0\""),
            ("q=a&k=1001", "\"1001\""),
            ("q=a&k=-1", "\"-1\""),
            ("q=a&k=", "\"\""),
            ("q=", "nothing to search for"),
            ("q=%22open", "column 1"),
        ] {
            let error = Ask::parse(parameters).expect_err(parameters).to_string();
            assert!(error.contains(word), "{parameters}: {error}");
        }
    }
}
