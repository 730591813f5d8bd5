//! HTTP requests: a request target, or a JSON object such as `{"method": "POST", "path": "/x",
//! "headers": {"k": "v"}, "body": "text"}`, with `body_base64` for binary bodies.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use curtail_http::h1::{BodyLength, Persistence, WriteError, write_request};
use serde::Deserialize;

use super::{Rendered, Texts, refused, with_key};
use crate::plan::error::PlanError;
use crate::plan::target::Scheme;
use crate::plan::{Plan, is_owned};

const ADVICE: &str = "write a request target, such as /search?q=a%20b, or a JSON object, such as \
                    {\"method\": \"POST\", \"path\": \"/x\", \"body\": \"text\"}";

const TUNNEL: &str = "CONNECT opens a tunnel, which no response ends; leave it out";

#[derive(Debug, Default)]
pub(super) struct Call {
    method: Option<String>,
    path: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<Bytes>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    method: Option<String>,
    path: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_base64: Option<String>,
    /// The name of a group of requests, which is used for analysis. It is not sent.
    class: Option<String>,
}

/// Returns the class of a request: the field `class` of a JSON object, or the name of a command.
pub fn query_class(scheme: Scheme, text: &str) -> Option<String> {
    match scheme {
        Scheme::Memcached | Scheme::Redis => text.split_whitespace().next().map(str::to_lowercase),
        _ => serde_json::from_str::<Line>(text).ok()?.class,
    }
}

impl Call {
    fn parse(text: &str) -> Result<Call, String> {
        if !text.starts_with('{') {
            check_path(text)?;
            return Ok(Call { path: Some(text.to_owned()), ..Call::default() });
        }
        let Line { method, path, headers, body, body_base64, class: _ } =
            serde_json::from_str(text).map_err(|error| format!("{error}; {ADVICE}"))?;
        let body = match (body, body_base64) {
            (Some(_), Some(_)) => {
                return Err("has both body and body_base64; leave one of them out".to_owned());
            }
            (Some(text), None) => Some(Bytes::from(text)),
            (None, Some(code)) => {
                let decoded = STANDARD.decode(&code);
                Some(
                    decoded
                        .map_err(|error| format!("body_base64 is not valid Base64: {error}"))?
                        .into(),
                )
            }
            (None, None) => None,
        };
        if let Some(name) = headers.keys().find(|name| is_owned(name)) {
            return Err(format!("header `{name}` is set by the load generator; leave it out"));
        }
        path.as_deref().map_or(Ok(()), check_path)?;
        Ok(Call { method, path, headers: headers.into_iter().collect(), body })
    }
}

fn check_path(path: &str) -> Result<(), String> {
    let why = if !path.starts_with('/') {
        "does not begin with `/`"
    } else if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        "contains a character that must be percent-encoded, such as a space"
    } else if path.contains('#') {
        "contains a fragment (#), which is never sent to a server"
    } else {
        return Ok(());
    };
    Err(format!("{why}; {ADVICE}"))
}

pub(super) struct Complete<'a> {
    pub(super) method: String,
    pub(super) path: String,
    /// These headers exclude `Host` unless the given headers contain it.
    pub(super) headers: Vec<&'a (String, String)>,
    pub(super) body: Option<Bytes>,
}

pub(super) fn each(
    plan: &Plan,
    texts: &Texts<'_>,
    mut take: impl FnMut(&str, &Complete<'_>) -> Result<(), PlanError>,
) -> Result<(), PlanError> {
    for (text, key) in texts.iter() {
        let call = Call::parse(&text).map_err(|why| refused(&text, why))?;
        let data = || plan.protocol.data.as_ref().map(|data| with_key(data, key).into_owned());
        let body = call.body.or_else(|| data().map(Bytes::from));
        let usual = if body.is_some() { "POST" } else { "GET" };
        let method = call.method.or_else(|| plan.protocol.method.clone());
        let given = plan.headers.iter().chain(&call.headers);
        let complete = Complete {
            method: method.unwrap_or_else(|| usual.to_owned()),
            path: call.path.unwrap_or_else(|| with_key(plan.target.path(), key).into_owned()),
            headers: given.collect(),
            body,
        };
        if complete.method == "CONNECT" {
            return Err(refused(&text, TUNNEL));
        }
        take(&text, &complete)?;
    }
    Ok(())
}

/// Encodes a request as HTTP/1.1 (RFC 9112).
pub(super) fn render(plan: &Plan, texts: &Texts<'_>) -> Result<Vec<Bytes>, PlanError> {
    let authority = plan.target.authority();
    let mut rendered = Rendered::with_capacity(texts.len());
    each(plan, texts, |text, call| {
        let named = call.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
        let host = (!named).then_some(("host", authority.as_str()));
        let given = call.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let headers = host.into_iter().chain(given);
        let length = match &call.body {
            Some(body) => BodyLength::Known(body.len() as u64),
            None => BodyLength::None,
        };
        let (buffer, persistence) = (&mut rendered.buffer, Persistence::Default);
        write_request(buffer, &call.method, &call.path, headers, length, persistence)
            .map_err(|fault| refused(text, blame(call, fault)))?;
        buffer.extend_from_slice(call.body.as_deref().unwrap_or_default());
        rendered.finish();
        Ok(())
    })?;
    Ok(rendered.into_bytes())
}

fn blame(call: &Complete<'_>, fault: WriteError) -> String {
    let alone = |header: &&&(String, String)| {
        let (length, persistence) = (BodyLength::None, Persistence::Default);
        let header = [(&header.0, &header.1)];
        write_request(&mut BytesMut::new(), "GET", "/", header, length, persistence).is_err()
    };
    match call.headers.iter().find(alone) {
        Some((name, value)) => format!("header `{name}: {value}` cannot be sent: {fault}"),
        None => format!("method `{}` cannot be sent: {fault}; write one such as POST", call.method),
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;
    use crate::plan::keys::{KeyDistribution, Keys};
    use crate::session::{Requests, requests};

    /// Returns the encoded request for each line.
    fn sent(lines: &[&str], change: fn(&mut Plan)) -> Vec<String> {
        let mut plan = Plan::new("http://h/own".parse().unwrap(), 1.0);
        plan.queries = lines.iter().map(|line| (*line).to_owned()).collect();
        change(&mut plan);
        let Requests::Http1(bytes) = requests::prepare(&plan).unwrap() else { unreachable!() };
        bytes.iter().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).collect()
    }

    #[test]
    fn requests_have_methods_headers_bodies_and_keys() {
        let whole = r#"{"method": "PUT", "path": "/x", "headers": {"x-a": "b"}, "body": "text"}"#;
        let first = sent(&[whole], |_| {}).remove(0);
        assert!(first.starts_with("PUT /x HTTP/1.1\r\n") && first.ends_with("\r\n\r\ntext"));
        assert!(first.contains("\r\nx-a: b\r\n"), "{first}");
        for (line, start, end, change) in [
            (
                r#"{"path": "/y", "body_base64": "aGk="}"#,
                "POST /y ",
                "\nhi",
                (|_| {}) as fn(&mut _),
            ),
            (r#"{"method": "DELETE", "path": "/z"}"#, "DELETE /z ", "\r\n\r\n", |_| {}),
            (r#"{"method": "HEAD"}"#, "HEAD /own ", "\r\n\r\n", |_| {}),
            ("/plain", "GET /plain ", "\r\n\r\n", |_| {}),
            ("/a", "POST /a ", "\na=1", |plan: &mut Plan| plan.protocol.data = Some("a=1".into())),
            (r#"{"method": "GET"}"#, "GET /own ", "\na=1", |plan: &mut Plan| {
                plan.protocol.data = Some("a=1".into());
            }),
            ("/a", "PATCH /a ", "\r\n\r\n", |plan: &mut Plan| {
                plan.protocol.method = Some("PATCH".into());
            }),
        ] {
            let sent = sent(&[line], change).remove(0);
            assert!(sent.starts_with(start) && sent.ends_with(end), "{line}: {sent}");
        }
        let keys = |plan: &mut Plan| {
            plan.protocol.keys = Some(Keys { count: 2, distribution: KeyDistribution::Uniform });
        };
        let targets = sent(&["/a/{key}", "/b?k={key}&again={key}"], keys);
        let targets: Vec<_> = targets.iter().filter_map(|sent| sent.split(' ').nth(1)).collect();
        assert_eq!(targets, ["/a/0", "/b?k=0&again=0", "/a/1", "/b?k=1&again=1"]);
    }
}
