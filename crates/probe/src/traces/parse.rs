//! Converts trace documents to spans, without I/O: OTLP as JSON or protobuf, Jaeger JSON, and
//! Zipkin JSON.
//!
//! JSON input consists of one document, several consecutive documents, or arrays of documents. Each
//! document is one of these: OTLP (`resourceSpans`; in Tempo's responses `batches`, also within
//! `trace`), Jaeger (`data`, or a trace with `spans`), or Zipkin version 2 (a span with `traceId`).
//!
//! Memory: all spans of a document are in memory at the same time. The spans take at most 180 bytes
//! per byte of protobuf. This maximum occurs if all spans are empty. Real spans take about as much
//! memory as the document itself. The caller bounds the size of the document.

use std::collections::BTreeMap;

use prost::Message as _;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};

use super::{Span, jaeger, otlp, zipkin};

/// The reason why bytes could not be parsed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages document the variants")]
pub enum ParseError {
    #[error("{0}; expected OTLP, Jaeger or Zipkin JSON")]
    Json(#[from] serde_json::Error),
    #[error(
        "document {0} has none of `resourceSpans` (OTLP), `batches` (Tempo), `data` or `spans` (Jaeger) and `traceId` \
         (Zipkin); export traces, not metrics or logs"
    )]
    Neither(usize),
    #[error(
        "neither JSON nor an ExportTraceServiceRequest in protobuf: {0}; export OTLP, or Jaeger or Zipkin JSON"
    )]
    Protobuf(#[from] prost::DecodeError),
}

/// A JSON document of any supported kind.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    #[serde(alias = "resource_spans", deserialize_with = "present")]
    resource_spans: Option<Vec<otlp::ResourceSpans>>,
    #[serde(deserialize_with = "present")]
    batches: Option<Vec<otlp::ResourceSpans>>,
    trace: Option<Box<Document>>,
    // Jaeger reports `null` here together with an error.
    data: Option<Vec<jaeger::Trace>>,
    #[serde(deserialize_with = "present")]
    spans: Option<Vec<jaeger::Logged>>,
    #[serde(deserialize_with = "otlp::or_empty")]
    processes: BTreeMap<String, jaeger::Process>,
    trace_id: Option<String>,
    id: Option<String>,
    parent_id: Option<String>,
    #[serde(deserialize_with = "otlp::or_empty")]
    name: String,
    #[serde(deserialize_with = "otlp::or_empty")]
    kind: String,
    #[serde(deserialize_with = "otlp::number")]
    timestamp: u64,
    #[serde(deserialize_with = "otlp::number")]
    duration: u64,
    #[serde(deserialize_with = "otlp::or_empty")]
    local_endpoint: zipkin::Endpoint,
    #[serde(deserialize_with = "otlp::or_empty")]
    remote_endpoint: zipkin::Endpoint,
    #[serde(deserialize_with = "otlp::or_empty")]
    tags: BTreeMap<String, String>,
}

/// Distinguishes a field that is present (possibly `null`) from one that is absent.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(Some(Option::deserialize(from)?.unwrap_or_default()))
}

impl Document {
    fn spans(self, to: &mut Vec<Span>) -> bool {
        match self {
            Document { resource_spans: Some(otlp), .. } | Document { batches: Some(otlp), .. } => {
                otlp::spans(otlp, to);
            }
            Document { trace: Some(inner), .. } => return inner.spans(to),
            Document { data: Some(jaeger), .. } => jaeger::spans(jaeger, to),
            Document { spans: Some(spans), processes, .. } => {
                jaeger::spans(vec![jaeger::Trace { spans, processes }], to);
            }
            Document { trace_id: Some(trace_id), id: Some(id), parent_id, name, kind, .. } => {
                let (timestamp, duration) = (self.timestamp, self.duration);
                let endpoints = [self.local_endpoint, self.remote_endpoint];
                let ids = [Some(trace_id), Some(id), parent_id];
                let reported = zipkin::Reported { ids, name, kind, timestamp, duration, endpoints };
                to.push(zipkin::span(reported, self.tags));
            }
            _ => return false,
        }
        true
    }
}

/// Parses a document. Its first bytes determine the format.
///
/// # Errors
///
/// If the format is unknown, or the document is malformed.
pub fn parse(bytes: &[u8]) -> Result<Vec<Span>, ParseError> {
    let bytes = without_mark(bytes);
    let is_json = bytes.trim_ascii_start().first().is_some_and(|byte| b"{[".contains(byte));
    match bytes {
        // A line feed is also the tag byte of the only field in the protobuf message.
        [b'\n', ..] if is_json => protobuf(bytes).or_else(|_| json(bytes)),
        _ if is_json => json(bytes),
        _ => protobuf(bytes),
    }
}

/// Removes the byte order mark that some editors and shells write before UTF-8.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Parses consecutive JSON documents, as the file exporter of OpenTelemetry's collector writes
/// them.
///
/// # Errors
///
/// If a document is malformed or of an unknown kind.
pub fn json(bytes: &[u8]) -> Result<Vec<Span>, ParseError> {
    let bytes = without_mark(bytes);
    let plain = bytes.iter().filter(|byte| !byte.is_ascii_whitespace());
    // Lists contain spans or documents. Zipkin's lists of traces contain lists of spans.
    match plain.take_while(|byte| **byte == b'[').count() {
        0 => documents(bytes, |document| vec![document]),
        1 => documents(bytes, |list: Vec<Document>| list),
        _ => documents(bytes, |lists: Vec<Vec<Document>>| lists.into_iter().flatten().collect()),
    }
}

/// Parses consecutive JSON values. `list` returns the documents in a value.
fn documents<T: DeserializeOwned>(
    bytes: &[u8],
    list: fn(T) -> Vec<Document>,
) -> Result<Vec<Span>, ParseError> {
    let (mut spans, mut count) = (Vec::new(), 0);
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<T>();
    loop {
        let begin = values.byte_offset();
        let Some(value) = values.next() else { return Ok(spans) };
        let value = list(value?);
        let text = &bytes[begin..values.byte_offset()];
        // An empty export.
        let is_empty = text.iter().filter(|byte| !byte.is_ascii_whitespace()).eq(b"{}");
        for document in value {
            count += 1;
            if !document.spans(&mut spans) && !is_empty {
                return Err(ParseError::Neither(count));
            }
        }
    }
}

/// Parses one or more consecutive `ExportTraceServiceRequest` messages.
///
/// # Errors
///
/// If the bytes are not in this format.
pub fn protobuf(bytes: &[u8]) -> Result<Vec<Span>, ParseError> {
    let mut spans = Vec::new();
    otlp::spans(otlp::Request::decode(bytes)?.resource_spans, &mut spans);
    Ok(spans)
}

#[cfg(test)]
mod tests;
