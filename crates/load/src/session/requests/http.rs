//! HTTP requests: a request target, or a JSON object such as `{"method": "POST", "path": "/x",
//! "headers": {"k": "v"}, "body": "text"}`, with `body_base64` for binary bodies. And unary gRPC
//! calls: a message as JSON according to a schema, or raw bytes as `{"base64": "..."}`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use curtail_http::h1::{BodyLength, Persistence, WriteError, write_request};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TE};
use http::uri::{Authority, Parts, PathAndQuery};
use http::{Method, Request, Uri};
use serde::Deserialize;

use crate::plan::Plan;
use crate::plan::error::PlanError;
use crate::plan::target::Scheme;
use crate::session::requests::schema::Schema;
use crate::session::requests::{Rendered, Texts, refused, with_key};

const ADVICE: &str = "write a request target, such as /search?q=a%20b, or a JSON object, such as \
                    {\"method\": \"POST\", \"path\": \"/x\", \"body\": \"text\"}";

/// Headers that the codec writes or omits itself. Setting one would have no effect.
const OWNED: [&str; 5] =
    ["connection", "keep-alive", "content-length", "transfer-encoding", "expect"];
const TUNNEL: &str = "CONNECT opens a tunnel, which no response ends; leave it out";

#[derive(Debug, Default)]
struct Parsed {
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

impl Parsed {
    fn parse(text: &str) -> Result<Parsed, String> {
        if !text.starts_with('{') {
            check_path(text)?;
            return Ok(Parsed { path: Some(text.to_owned()), ..Parsed::default() });
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
        Ok(Parsed { method, path, headers: headers.into_iter().collect(), body })
    }
}

pub(crate) fn is_owned(name: &str) -> bool {
    OWNED.iter().any(|owned| owned.eq_ignore_ascii_case(name))
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
        let call = Parsed::parse(&text).map_err(|why| refused(&text, why))?;
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
pub(super) fn render_http1(plan: &Plan, texts: &Texts<'_>) -> Result<Vec<Bytes>, PlanError> {
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

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) head: Arc<CallHead>,
    path: PathAndQuery,
    pub(crate) body: Option<Bytes>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct CallHead {
    pub(crate) method: Method,
    pub(super) authority: Authority,
    pub(super) headers: HeaderMap,
    pub(super) is_tls: bool,
    pub(crate) is_grpc: bool,
}

impl Call {
    pub(super) fn new(head: Arc<CallHead>, path: PathAndQuery, body: Option<Bytes>) -> Call {
        Call { head, path, body }
    }

    pub(crate) fn request(&self) -> Request<()> {
        let mut parts = Parts::default();
        parts.scheme =
            Some(if self.head.is_tls { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP });
        parts.authority = Some(self.head.authority.clone());
        parts.path_and_query = Some(self.path.clone());
        let mut request = Request::new(());
        *request.uri_mut() = Uri::from_parts(parts).expect("scheme, authority and path are set");
        *request.method_mut() = self.head.method.clone();
        *request.headers_mut() = self.head.headers.clone();
        // The length lets a server reject a long body early. gRPC calls omit it.
        if let Some(body) = self.body.as_ref().filter(|_| !self.head.is_grpc) {
            request.headers_mut().insert(CONTENT_LENGTH, body.len().into());
        }
        request
    }
}

pub(super) fn render_http2(plan: &Plan, texts: &Texts<'_>) -> Result<Vec<Call>, PlanError> {
    let mut calls: Vec<Call> = Vec::with_capacity(texts.len());
    each(plan, texts, |text, complete| {
        let method = Method::from_bytes(complete.method.as_bytes())
            .map_err(|_| refused(text, format!("method `{}` is not a token", complete.method)))?;
        let head = head(plan, method, complete.headers.iter().copied());
        let head = head.map_err(|why| refused(text, why))?;
        // This is most likely the same request with a different key.
        let before = calls.len().checked_sub(texts.texts.len()).map(|at| &calls[at].head);
        let head = match before.filter(|before| ***before == head) {
            Some(before) => Arc::clone(before),
            None => Arc::new(head),
        };
        let path = PathAndQuery::try_from(complete.path.as_str())
            .map_err(|error| refused(text, format!("the path cannot be sent: {error}")))?;
        calls.push(Call::new(head, path, complete.body.clone()));
        Ok(())
    })?;
    Ok(calls)
}

pub(super) fn head<'a>(
    plan: &Plan,
    method: Method,
    given: impl IntoIterator<Item = &'a (String, String)>,
) -> Result<CallHead, String> {
    let (mut authority, mut headers) = (plan.target.authority(), HeaderMap::new());
    for (name, value) in given {
        let cannot = |error: &dyn Display| format!("header `{name}: {value}`: {error}");
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|error| cannot(&error))?;
        if key == HOST {
            authority.clone_from(value);
            continue;
        }
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|error| cannot(&error))?;
        headers.append(key, value);
    }
    let authority = Authority::try_from(authority.as_str())
        .map_err(|error| format!("host `{authority}` cannot be sent: {error}"))?;
    let is_tls = plan.target.scheme().is_tls();
    Ok(CallHead { method, authority, headers, is_tls, is_grpc: false })
}

const RAW_FIX: &str = "without a schema, write the message's bytes as {\"base64\": \"...\"}; with \
                        --proto FILE, write it as JSON";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    base64: String,
}

pub(super) fn check_message(line: &str) -> Result<(), PlanError> {
    // Some messages, such as StringValue, are not JSON objects.
    serde_json::from_str::<serde::de::IgnoredAny>(line).map(drop).map_err(|error| {
        let fix = "write one message per line as JSON, such as {\"id\": 7}";
        PlanError::Value(format!("{error}; {fix}"))
    })
}

pub(super) fn render_grpc(plan: &Plan, texts: &Texts<'_>) -> Result<Vec<Call>, PlanError> {
    let path = plan.protocol.schema.as_deref();
    let schema = path.map(|path| Schema::read(path, plan.target.path())).transpose()?;
    let mut messages = Rendered::with_capacity(texts.len());
    for (text, _) in texts.iter() {
        let bytes = encode(&text, schema.as_ref()).map_err(|why| refused(&text, why))?;
        let length = u32::try_from(bytes.len())
            .map_err(|_| refused(&text, "is longer than 4 GiB, the limit of a message"))?;
        // The flag of a message that is not compressed.
        messages.buffer.put_u8(0);
        messages.buffer.put_u32(length);
        messages.buffer.put_slice(&bytes);
        messages.finish();
    }
    let mut head = head(plan, Method::POST, &plan.headers).map_err(PlanError::Value)?;
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    head.headers.insert(TE, HeaderValue::from_static("trailers"));
    head.is_grpc = true;
    let head = Arc::new(head);
    let path = PathAndQuery::try_from(plan.target.path())
        .map_err(|error| PlanError::Value(format!("method `{}`: {error}", plan.target.path())))?;
    let calls = messages.into_bytes().into_iter();
    Ok(calls.map(|body| Call::new(Arc::clone(&head), path.clone(), Some(body))).collect())
}

fn encode(text: &str, schema: Option<&Schema>) -> Result<Bytes, String> {
    if let Some(schema) = schema {
        return schema.encode(if text.is_empty() { "{}" } else { text });
    }
    if text.is_empty() {
        return Ok(Bytes::new());
    }
    let raw: Raw = serde_json::from_str(text).map_err(|error| format!("{error}; {RAW_FIX}"))?;
    let bytes = STANDARD.decode(&raw.base64);
    bytes.map(Bytes::from).map_err(|error| format!("base64 is not valid Base64: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::plan::schedule::{KeyDistribution, Keys};
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

    #[test]
    fn a_request_has_a_content_length_and_a_grpc_call_has_none() {
        let length = |is_grpc, body: Option<&'static str>| {
            let head = CallHead {
                method: Method::POST,
                authority: Authority::from_static("h.example"),
                headers: HeaderMap::new(),
                is_tls: false,
                is_grpc,
            };
            let call =
                Call::new(Arc::new(head), PathAndQuery::from_static("/"), body.map(Bytes::from));
            call.request().headers().get(CONTENT_LENGTH).cloned()
        };
        assert_eq!(length(false, Some("abc")).unwrap(), "3");
        assert_eq!(length(false, Some("")).unwrap(), "0");
        assert_eq!((length(false, None), length(true, Some("abc"))), (None, None));
    }
}
