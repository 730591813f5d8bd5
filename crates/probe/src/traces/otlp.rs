//! OpenTelemetry's `ExportTraceServiceRequest`, in protobuf and in JSON: the fields that are needed, by their numbers and
//! names in `opentelemetry/proto/trace/v1/trace.proto` (version 1). Everything else in it is skipped unread.

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected};

use super::Span;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Request {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    #[serde(alias = "instrumentationLibrarySpans")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
struct Attribute {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Value {
    /// One of several kinds, which are the same on the wire as optional ones.
    #[prost(string, optional, tag = "1")]
    string_value: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Exported>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Exported {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "hex")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(deserialize_with = "hex")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    #[serde(deserialize_with = "hex")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "7")]
    #[serde(deserialize_with = "nanoseconds")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    #[serde(deserialize_with = "nanoseconds")]
    end_time_unix_nano: u64,
}

/// Hexadecimal digits, as OTLP/JSON writes ids.
fn hex<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = Option::<String>::deserialize(from)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let id = u128::from_str_radix(&text, 16);
    let expected = &"an id of at most 32 hexadecimal digits";
    let id = id.map_err(|_| D::Error::invalid_value(Unexpected::Str(&text), expected))?;
    Ok(id.to_be_bytes().to_vec())
}

/// A number, or a string with one: JSON's numbers are too short for 64 bits in many languages.
fn nanoseconds<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected nanoseconds since 1970, as a number or a string of digits"
    )]
    enum Time {
        Whole(u64),
        Float(f64),
        Text(String),
    }
    match Time::deserialize(from)? {
        Time::Whole(ns) => Ok(ns),
        // Beyond the range, the nearest that is in it.
        Time::Float(ns) => Ok(ns as u64),
        Time::Text(text) => text.parse().map_err(|_| {
            D::Error::invalid_value(Unexpected::Str(&text), &"nanoseconds since 1970")
        }),
    }
}

/// An id's value; 0, which is no valid id, for one that is too long.
fn id(bytes: &[u8]) -> u128 {
    if bytes.len() > 16 {
        return 0;
    }
    bytes.iter().fold(0, |id, &byte| id << 8 | u128::from(byte))
}

/// The spans in it.
pub(super) fn spans(of: Vec<ResourceSpans>, to: &mut Vec<Span>) {
    let short = |bytes: &[u8]| u64::try_from(id(bytes)).unwrap_or(0);
    for ResourceSpans { resource, scope_spans } in of {
        let mut attributes = resource.unwrap_or_default().attributes.into_iter();
        let name = attributes.find(|attribute| attribute.key == "service.name");
        let service = name.and_then(|name| name.value?.string_value).unwrap_or_default();
        to.extend(scope_spans.into_iter().flat_map(|scope| scope.spans).map(|span| Span {
            trace: id(&span.trace_id),
            id: short(&span.span_id),
            parent: short(&span.parent_span_id),
            service: service.clone(),
            operation: span.name,
            start_ns: span.start_time_unix_nano,
            end_ns: span.end_time_unix_nano,
        }));
    }
}
