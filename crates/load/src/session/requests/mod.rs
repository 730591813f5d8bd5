//! The requests of a run, which are encoded before the run so that sending is cheap.
//!
//! | protocol | file | form of a request |
//! |---|---|---|
//! | HTTP | `http.rs`, `http2.rs` | a request target, or a JSON object |
//! | gRPC | `grpc.rs` | a message as JSON |
//! | memcached, Redis | `commands.rs` | a command as typed |
//! | TCP | `commands.rs` | text with escapes |
//!
//! With keys, every request is encoded with every key. Request *r* with key *k* has the number *k*
//! × requests + *r*.

mod commands;
mod grpc;
mod http;
mod http2;
mod schema;

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

use crate::plan::Plan;
use crate::plan::error::PlanError;
use crate::plan::keys::PLACE;
use crate::plan::target::Scheme;
use crate::session::Requests;
use crate::session::tls_client::TlsClient;

pub use commands::unescape;
pub use http::query_class;
pub(crate) use http2::{Call, CallHead};

/// Maximum number of bytes of text before encoding, with keys filled in.
const TEXT_BYTES_MAX: usize = 1 << 30;
/// The length of a datagram's sequence number.
const NUMBER_BYTES: usize = 8;
const SHOWN_CHARS: usize = 120;

pub(crate) fn prepare(plan: &Plan) -> Result<Requests, PlanError> {
    render(plan, plan.protocol.keys.map_or(1, |keys| keys.count))
}

pub(crate) fn check(plan: &Plan) -> Result<(), PlanError> {
    let texts = own(plan)?;
    plan.protocol.check(plan.target.scheme(), texts.len())?;
    let data = plan.protocol.data.as_deref().unwrap_or_default();
    let data_has = data.contains(PLACE);
    let mut with_key = texts.iter().filter(|text| text.contains(PLACE));
    let found = with_key.next().map(String::as_str).or_else(|| data_has.then_some(data));
    match (plan.protocol.keys, found) {
        (None, Some(text)) => {
            return Err(refused(
                text,
                "contains {key}, but there are no keys; set their number with --keys",
            ));
        }
        (Some(_), None) => {
            let message =
                "there are keys, but no request contains {key}; write it where the number belongs";
            return Err(PlanError::Value(message.to_owned()));
        }
        (Some(keys), Some(_)) => {
            let bytes: usize = texts.iter().map(|text| text.len() + data.len()).sum();
            if bytes.saturating_mul(keys.count) > TEXT_BYTES_MAX {
                let most = TEXT_BYTES_MAX / bytes.max(1);
                return Err(PlanError::Value(format!(
                    "with {} keys, these requests take more than 1 GiB; use at most {most}",
                    keys.count
                )));
            }
        }
        (None, None) => {}
    }
    if plan.target.scheme().is_tls() {
        TlsClient::prepare(plan)?;
    }
    render(plan, 1).map(drop)
}

pub(crate) fn check_line(scheme: Scheme, line: &str) -> Result<(), PlanError> {
    let texts = Texts { texts: &[line.to_owned()], keys: 1 };
    match scheme {
        Scheme::Udp => {
            let message = "datagrams have no requests; set their length (--size) instead";
            Err(PlanError::Value(message.to_owned()))
        }
        // Checking the fields of a message would require the schema.
        Scheme::Grpc | Scheme::Grpcs => grpc::check_line(&with_key(line, 0)),
        _ => {
            let target = format!("{scheme}://h:1").parse()?;
            render_texts(&Plan::new(target, 1.0), &texts).map(drop)
        }
    }
}

fn render(plan: &Plan, keys: usize) -> Result<Requests, PlanError> {
    render_texts(plan, &Texts { texts: &own(plan)?, keys })
}

fn render_texts(plan: &Plan, texts: &Texts<'_>) -> Result<Requests, PlanError> {
    match plan.target.scheme() {
        Scheme::Grpc | Scheme::Grpcs => grpc::render(plan, texts).map(Requests::Http2),
        Scheme::Http | Scheme::Https if plan.protocol.http2 => {
            http2::render(plan, texts).map(Requests::Http2)
        }
        Scheme::Http | Scheme::Https => http::render(plan, texts).map(Requests::Http1),
        Scheme::Memcached => commands::render(Scheme::Memcached, texts).map(Requests::Memcached),
        Scheme::Redis => commands::render(Scheme::Redis, texts).map(Requests::Redis),
        Scheme::Tcp => {
            let mut rendered = Rendered::with_capacity(texts.len());
            for (text, _) in texts.iter() {
                rendered.buffer.extend(raw(&text).map_err(|why| refused(&text, why))?);
                rendered.finish();
            }
            Ok(Requests::Tcp(rendered.into_bytes()))
        }
        Scheme::Udp => {
            let filler = plan.protocol.datagram_bytes.saturating_sub(NUMBER_BYTES);
            Ok(Requests::Udp(vec![Bytes::from(vec![0; filler])]))
        }
    }
}

fn raw(text: &str) -> Result<Vec<u8>, String> {
    let bytes = unescape(text)?;
    if bytes.is_empty() {
        Err("is empty, so no server would respond".to_owned())
    } else {
        Ok(bytes)
    }
}

fn own(plan: &Plan) -> Result<Cow<'_, [String]>, PlanError> {
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
            return Err(PlanError::Value(format!(
                "there are no requests for {scheme}://; set them with --data or --queries"
            )));
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

fn refused(request: &str, why: impl Into<String>) -> PlanError {
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
