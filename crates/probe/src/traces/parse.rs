//! Documents of traces, to spans: OTLP as JSON or protobuf, and Jaeger's JSON. Without input or output.
//!
//! Memory: a document's spans at once, at most 130 bytes for each byte of protobuf that holds nothing but empty spans, and
//! less than the document for real ones. The caller bounds the document.

use prost::Message as _;
use serde::Deserialize;

use super::{Span, jaeger, otlp};

/// Why bytes are no traces.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// No JSON, or a field is not what it should be.
    #[error("{0}; expected OTLP or Jaeger JSON")]
    Json(#[from] serde_json::Error),
    /// JSON of another kind.
    #[error(
        "document {0} has neither `resourceSpans` (OTLP) nor `data` (Jaeger); export traces, not metrics or logs"
    )]
    Neither(usize),
    /// No protobuf, or a field is not what it should be.
    #[error(
        "neither JSON nor an ExportTraceServiceRequest in protobuf: {0}; export OTLP, or Jaeger JSON"
    )]
    Protobuf(#[from] prost::DecodeError),
}

/// One of the two.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    resource_spans: Option<Vec<otlp::ResourceSpans>>,
    data: Option<Vec<jaeger::Trace>>,
}

/// The spans of a document in a format that is found out from its bytes.
///
/// # Errors
///
/// If it is of none that is known.
pub fn parse(bytes: &[u8]) -> Result<Vec<Span>, ParseError> {
    let is_json = bytes.trim_ascii_start().starts_with(b"{");
    match bytes {
        // Protobuf begins with the tag of its only field, which is a line feed.
        [b'\n', ..] if is_json => protobuf(bytes).or_else(|_| json(bytes)),
        _ if is_json => json(bytes),
        _ => protobuf(bytes),
    }
}

/// The spans of JSON documents, one after the other, as the file exporter of OpenTelemetry's collector writes them.
///
/// # Errors
///
/// If one is none, or is neither of OTLP nor of Jaeger.
pub fn json(bytes: &[u8]) -> Result<Vec<Span>, ParseError> {
    let mut spans = Vec::new();
    let documents = serde_json::Deserializer::from_slice(bytes).into_iter::<Document>();
    for (at, document) in documents.enumerate() {
        match document? {
            Document { resource_spans: Some(otlp), .. } => otlp::spans(otlp, &mut spans),
            Document { data: Some(jaeger), .. } => jaeger::spans(jaeger, &mut spans),
            _ => return Err(ParseError::Neither(at + 1)),
        }
    }
    Ok(spans)
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
