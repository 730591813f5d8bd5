//! The requests of a run, which are encoded before the run so that sending is cheap.
//!
//! | protocol | file | form of a request |
//! |---|---|---|
//! | HTTP | `http.rs` | a request target, or a JSON object |
//! | gRPC | `http.rs`, `schema.rs` | a message as JSON |
//! | memcached, Redis | `commands.rs` | a command as typed |
//! | TCP | `commands.rs` | text with escapes |
//!
//! With keys, every request is encoded with every key. Request *r* with key *k* has the number *k*
//! × requests + *r*.

mod commands;
mod http;
mod schema;

use std::borrow::Cow;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use curtail_dist::read_text;

use crate::plan::Plan;
use crate::plan::error::{PlanError, refuse};
use crate::plan::schedule::PLACE;
use crate::plan::target::Scheme;
use crate::session::Requests;

pub use commands::unescape;
pub use http::query_class;
pub(crate) use http::{Call, CallHead, is_owned};

/// Reads requests from a file, one per line. Skips blank lines, white space around a line, and a
/// byte order mark. A key number replaces `{key}` ([`Protocol::keys`](crate::Protocol::keys)). The
/// format of a line depends on the protocol:
///
/// - HTTP: a request target, or a JSON object such as `{"method": "POST", "path": "/x", "headers":
///   {"k": "v"}, "body": "text"}`. All fields are optional. `body_base64` is for binary bodies, and
///   `class` names a group for `curtail jitter`.
/// - gRPC: a message as JSON, or, without a schema, the bytes of a message as `{"base64": "..."}`.
/// - memcached and Redis: a command as typed, such as `get key`; quotes are allowed.
/// - `tcp`: text with the escapes `\n`, `\r`, `\t`, `\0`, `\\` and `\xHH`.
///
/// Returns a [`PlanError`] if the file cannot be read, is longer than
/// [`curtail_dist::MAX_FILE_BYTES`], contains no request, or has a malformed line. The error names
/// that line.
pub fn read_queries_for(path: impl AsRef<Path>, scheme: Scheme) -> Result<Vec<String>, PlanError> {
    let path = path.as_ref();
    let text = read_text(path).map_err(|error| PlanError::Value(error.to_string()))?;
    parse(path, &text, scheme)
}

fn parse(path: &Path, text: &str, scheme: Scheme) -> Result<Vec<String>, PlanError> {
    let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty());
    let queries = lines.map(|(line, number)| {
        let Err(error) = check_line(scheme, line) else { return Ok(line.to_owned()) };
        // The parser sees only this line, so its line number is always 1.
        let error = error.to_string().replace(" at line 1 column ", " at column ");
        refuse(format!("{}:{number}: {error}", path.display()))
    });
    let queries = queries.collect::<Result<Vec<String>, PlanError>>()?;
    if queries.is_empty() {
        return refuse(format!("{}: no query; write one request per line", path.display()));
    }
    Ok(queries)
}

/// The length of a datagram's sequence number.
const NUMBER_BYTES: usize = 8;
const SHOWN_CHARS: usize = 120;

pub(crate) fn prepare(plan: &Plan) -> Result<Requests, PlanError> {
    render(plan, plan.protocol.keys.map_or(1, |keys| keys.count))
}

fn check_line(scheme: Scheme, line: &str) -> Result<(), PlanError> {
    let texts = Texts { texts: &[line.to_owned()], keys: 1 };
    match scheme {
        Scheme::Udp => refuse("datagrams have no requests; set their length (--size) instead"),
        // Checking the fields of a message would require the schema.
        Scheme::Grpc | Scheme::Grpcs => http::check_message(&with_key(line, 0)),
        _ => {
            let target = format!("{scheme}://h:1").parse()?;
            render_texts(&Plan::new(target, 1.0), &texts).map(drop)
        }
    }
}

pub(crate) fn render(plan: &Plan, keys: usize) -> Result<Requests, PlanError> {
    render_texts(plan, &Texts { texts: &own(plan)?, keys })
}

fn render_texts(plan: &Plan, texts: &Texts<'_>) -> Result<Requests, PlanError> {
    match plan.target.scheme() {
        Scheme::Grpc | Scheme::Grpcs => http::render_grpc(plan, texts).map(Requests::Http2),
        Scheme::Http | Scheme::Https if plan.protocol.http2 => {
            http::render_http2(plan, texts).map(Requests::Http2)
        }
        Scheme::Http | Scheme::Https => http::render_http1(plan, texts).map(Requests::Http1),
        Scheme::Memcached => commands::render(Scheme::Memcached, texts).map(Requests::Memcached),
        Scheme::Redis => commands::render(Scheme::Redis, texts).map(Requests::Redis),
        Scheme::Tcp => commands::render(Scheme::Tcp, texts).map(Requests::Tcp),
        Scheme::Udp => {
            let filler = plan.protocol.datagram_bytes.saturating_sub(NUMBER_BYTES);
            Ok(Requests::Udp(vec![Bytes::from(vec![0; filler])]))
        }
    }
}

pub(crate) fn own(plan: &Plan) -> Result<Cow<'_, [String]>, PlanError> {
    if !plan.queries.is_empty() {
        return Ok(Cow::Borrowed(&plan.queries));
    }
    let scheme = plan.target.scheme();
    let own = match (scheme, &plan.protocol.data) {
        (Scheme::Http | Scheme::Https, _) => plan.target.path().to_owned(),
        (_, Some(data)) => data.clone(),
        // An empty message or datagram.
        (Scheme::Grpc | Scheme::Grpcs | Scheme::Udp, None) => String::new(),
        (_, None) => {
            return refuse(format!(
                "there are no requests for {scheme}://; set them with --data or --queries"
            ));
        }
    };
    Ok(Cow::Owned(vec![own]))
}

struct Texts<'a> {
    texts: &'a [String],
    keys: usize,
}

impl Texts<'_> {
    fn len(&self) -> usize {
        self.texts.len() * self.keys
    }

    fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, usize)> {
        (0..self.keys).flat_map(|key| self.texts.iter().map(move |text| (with_key(text, key), key)))
    }
}

fn with_key(text: &str, key: usize) -> Cow<'_, str> {
    if text.contains(PLACE) {
        Cow::Owned(text.replace(PLACE, &key.to_string()))
    } else {
        Cow::Borrowed(text)
    }
}

pub(crate) fn refused(request: &str, why: impl Into<String>) -> PlanError {
    let shown: String = request.chars().take(SHOWN_CHARS).collect();
    PlanError::Value(format!("request `{shown}`: {}", why.into()))
}

/// Consecutive requests in one shared allocation.
struct Rendered {
    buffer: BytesMut,
    offsets: Vec<usize>,
}

impl Rendered {
    fn with_capacity(requests: usize) -> Rendered {
        Rendered { buffer: BytesMut::new(), offsets: Vec::with_capacity(requests) }
    }

    fn finish(&mut self) {
        self.offsets.push(self.buffer.len());
    }

    fn into_bytes(self) -> Vec<Bytes> {
        let whole = self.buffer.freeze();
        let starts = std::iter::once(0).chain(self.offsets.iter().copied());
        starts.zip(&self.offsets).map(|(start, end)| whole.slice(start..*end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::Plan;

    const TARGETS: [&str; 5] =
        ["http://h", "grpc://h:1/a.B/C", "memcached://h:1", "redis://h:1", "tcp://h:1"];
    const PIECES: &[&str] = &[
        "/a",
        "/{key}",
        " ",
        "\n",
        "\r\n",
        "{",
        "}",
        "\"",
        "'",
        "\\",
        "\\x0",
        "\\xff",
        ":",
        ",",
        "{\"path\": \"/x\"}",
        "{\"body_base64\": \"YQ==\"}",
        "{\"method\": \"\", \"headers\": {\"\": \"\"}}",
        "{\"base64\": \"AA==\"}",
        "get a",
        "set k v 0",
        "GET 'x y'",
        "gat 1",
        "\u{a0}",
        "\u{feff}",
        "\0",
        "#",
        "9999999999999999999999",
    ];

    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            12 => prop::sample::select(PIECES).prop_map(str::to_owned),
            1 => any::<char>().prop_map(String::from),
        ];
        prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_file_of_queries_is_parsed_or_rejected(text in texts(), target in prop::sample::select(&TARGETS[..])) {
            let mut plan = Plan::new(target.parse().unwrap(), 1.0);
            match parse(Path::new("q.txt"), &text, plan.target.scheme()) {
                Ok(queries) => {
                    // A query that was read is either sent or rejected with a reason.
                    plan.queries = queries;
                    if let Err(why) = plan.check() {
                        prop_assert!(!why.to_string().is_empty());
                    }
                }
                Err(why) => {
                    let why = why.to_string();
                    if why.starts_with("q.txt: no query") {
                        prop_assert!(text.lines().map(str::trim).all(str::is_empty));
                        return Ok(());
                    }
                    let parts = why.strip_prefix("q.txt:").and_then(|rest| rest.split_once(": "));
                    let (line, reason) = parts.expect("a line number and a reason");
                    let line: usize = line.parse().unwrap();
                    prop_assert!(!text.lines().nth(line - 1).unwrap().trim().is_empty());
                    prop_assert!(!reason.is_empty());
                }
            }
        }
    }
}
