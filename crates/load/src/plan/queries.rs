//! The queries of a run.

use std::path::Path;

use curtail_dist::read_text;
use serde::{Deserialize, Serialize};

use crate::plan::error::PlanError;
use crate::plan::target::Scheme;
use crate::session::requests::check_line;

/// The order in which a run sends its queries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryOrder {
    /// The queries are sent in the given order, and the list is repeated.
    #[default]
    InOrder,
    /// Each query is drawn uniformly at random, with the plan's seed.
    Random,
    /// Each round sends every query once. The first round uses the given order, and each later
    /// round uses a new random order. At any time, the numbers of measured requests for any two
    /// queries differ by at most one.
    Rounds,
}

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
        Err(PlanError::Value(format!("{}:{number}: {error}", path.display())))
    });
    let queries = queries.collect::<Result<Vec<String>, PlanError>>()?;
    if queries.is_empty() {
        let message = format!("{}: no query; write one request per line", path.display());
        return Err(PlanError::Value(message));
    }
    Ok(queries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use proptest::prelude::*;

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
