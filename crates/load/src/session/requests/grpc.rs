//! Unary gRPC calls. A message is JSON according to a schema, or raw bytes as `{"base64": "..."}`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes};
use http::Method;
use http::header::{CONTENT_TYPE, HeaderValue, TE};
use http::uri::PathAndQuery;
use serde::Deserialize;

use super::http2::{Call, head};
use super::schema::Schema;
use super::{Rendered, Texts, refused};
use crate::plan::Plan;
use crate::plan::error::PlanError;

const RAW_FIX: &str = "without a schema, write the message's bytes as {\"base64\": \"...\"}; with \
                        --proto FILE, write it as JSON";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    base64: String,
}

pub(super) fn check_line(line: &str) -> Result<(), PlanError> {
    // Some messages, such as StringValue, are not JSON objects.
    serde_json::from_str::<serde::de::IgnoredAny>(line).map(drop).map_err(|error| {
        let fix = "write one message per line as JSON, such as {\"id\": 7}";
        PlanError::Value(format!("{error}; {fix}"))
    })
}

pub(super) fn render(plan: &Plan, texts: &Texts<'_>) -> Result<Vec<Call>, PlanError> {
    let refuse = |why: String| PlanError::Value(why);
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
    let mut head = head(plan, Method::POST, &plan.headers).map_err(refuse)?;
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    head.headers.insert(TE, HeaderValue::from_static("trailers"));
    head.is_grpc = true;
    let head = Arc::new(head);
    let path = PathAndQuery::try_from(plan.target.path())
        .map_err(|error| refuse(format!("method `{}`: {error}", plan.target.path())))?;
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
