//! Documents of traces, to spans: OTLP as JSON or protobuf, Jaeger's and Zipkin's JSON. Without input or output.
//!
//! JSON is a document, several in a row, or arrays of them, of any of these: OTLP (`resourceSpans`, in Tempo's responses
//! `batches`, also within `trace`), Jaeger (`data`, or a trace with `spans`), Zipkin version 2 (a span with `traceId`).
//!
//! Memory: a document's spans at once, at most 180 bytes for each byte of protobuf that holds nothing but empty spans, and
//! about as much as the document for real ones. The caller bounds the document.

use std::collections::BTreeMap;

use prost::Message as _;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};

use super::{Span, jaeger, otlp, zipkin};

/// Why bytes are no traces.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// No JSON, or a field is not what it should be.
    #[error("{0}; expected OTLP, Jaeger or Zipkin JSON")]
    Json(#[from] serde_json::Error),
    /// JSON of another kind.
    #[error(
        "document {0} has none of `resourceSpans` (OTLP), `batches` (Tempo), `data` or `spans` (Jaeger) and `traceId` \
         (Zipkin); export traces, not metrics or logs"
    )]
    Neither(usize),
    /// No protobuf, or a field is not what it should be.
    #[error(
        "neither JSON nor an ExportTraceServiceRequest in protobuf: {0}; export OTLP, or Jaeger or Zipkin JSON"
    )]
    Protobuf(#[from] prost::DecodeError),
}

/// One of several.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    #[serde(alias = "resource_spans", deserialize_with = "present")]
    resource_spans: Option<Vec<otlp::ResourceSpans>>,
    #[serde(deserialize_with = "present")]
    batches: Option<Vec<otlp::ResourceSpans>>,
    trace: Option<Box<Document>>,
    // `null` where Jaeger reports an error.
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

/// A field that is there, be it `null`.
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

/// The spans of a document in a format that is found out from its bytes.
///
/// # Errors
///
/// If it is of none that is known.
pub fn parse(bytes: &[u8]) -> Result<Vec<Span>, ParseError> {
    let bytes = without_mark(bytes);
    let is_json = bytes.trim_ascii_start().first().is_some_and(|byte| b"{[".contains(byte));
    match bytes {
        // Protobuf begins with the tag of its only field, which is a line feed.
        [b'\n', ..] if is_json => protobuf(bytes).or_else(|_| json(bytes)),
        _ if is_json => json(bytes),
        _ => protobuf(bytes),
    }
}

/// Without the mark that some editors and shells put before UTF-8.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// The spans of JSON documents, one after the other, as the file exporter of OpenTelemetry's collector writes them.
///
/// # Errors
///
/// If one is none, or is of no kind that is known.
pub fn json(bytes: &[u8]) -> Result<Vec<Span>, ParseError> {
    let bytes = without_mark(bytes);
    let plain = bytes.iter().filter(|byte| !byte.is_ascii_whitespace());
    // Lists of spans or documents, and Zipkin's lists of traces that are lists of spans.
    match plain.take_while(|byte| **byte == b'[').count() {
        0 => documents(bytes, |document| vec![document]),
        1 => documents(bytes, |list: Vec<Document>| list),
        _ => documents(bytes, |lists: Vec<Vec<Document>>| lists.into_iter().flatten().collect()),
    }
}

/// The spans of the documents in each of some JSON values.
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
        // An export of nothing.
        let is_empty = text.iter().filter(|byte| !byte.is_ascii_whitespace()).eq(b"{}");
        for document in value {
            count += 1;
            if !document.spans(&mut spans) && !is_empty {
                return Err(ParseError::Neither(count));
            }
        }
    }
}

/// The spans of an `ExportTraceServiceRequest`, or of several in a row.
///
/// # Errors
///
/// If it is none.
pub fn protobuf(bytes: &[u8]) -> Result<Vec<Span>, ParseError> {
    let mut spans = Vec::new();
    otlp::spans(otlp::Request::decode(bytes)?.resource_spans, &mut spans);
    Ok(spans)
}

#[cfg(test)]
mod tests;
