//! Parses OpenTelemetry's `ExportTraceServiceRequest`, in protobuf and in JSON. The structures
//! contain only the required fields, with the numbers and names that they have in
//! `opentelemetry/proto/trace/v1/trace.proto` (version 1). All other fields are skipped.
//!
//! The JSON parser also accepts deviations that occur in practice: `null` for empty values, names
//! with underscores, ids in base64, and the field names that were used before version 1.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected};

use super::{Kind, Span, attributes};

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
    #[serde(alias = "scope_spans", deserialize_with = "or_empty")]
    scope_spans: Vec<ScopeSpans>,
    /// The name of `scope_spans` before version 1. Some programs write both.
    #[prost(message, repeated, tag = "1000")]
    #[serde(alias = "instrumentation_library_spans", deserialize_with = "or_empty")]
    instrumentation_library_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_empty")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
struct Attribute {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_empty")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Value>,
}

/// This is a `oneof` in the protocol, which looks the same as optional fields on the wire.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Value {
    #[prost(string, optional, tag = "1")]
    #[serde(alias = "string_value")]
    string_value: Option<String>,
    #[prost(bool, optional, tag = "2")]
    #[serde(alias = "bool_value")]
    bool_value: Option<bool>,
    #[prost(int64, optional, tag = "3")]
    #[serde(alias = "int_value", deserialize_with = "some_number")]
    int_value: Option<i64>,
    #[prost(double, optional, tag = "4")]
    #[serde(alias = "double_value")]
    double_value: Option<f64>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    #[serde(deserialize_with = "or_empty")]
    spans: Vec<Exported>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Exported {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(alias = "trace_id", deserialize_with = "id_text")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(alias = "span_id", deserialize_with = "id_text")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    #[serde(alias = "parent_span_id", deserialize_with = "id_text")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    #[serde(deserialize_with = "or_empty")]
    name: String,
    #[prost(int32, tag = "6")]
    #[serde(deserialize_with = "number")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    #[serde(alias = "start_time_unix_nano", deserialize_with = "number")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    #[serde(alias = "end_time_unix_nano", deserialize_with = "number")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    #[serde(deserialize_with = "or_empty")]
    attributes: Vec<Attribute>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
struct Status {
    #[prost(int32, tag = "3")]
    #[serde(deserialize_with = "number")]
    code: i32,
}

/// The status code of a failed span.
const ERROR: i32 = 2;

/// Deserializes a value, or its default for `null`: many languages write `null` for an empty value.
pub(super) fn or_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Deserializes a number, a number in a string, or the name of an enumeration value. Programs write
/// strings because many languages read JSON numbers with less than 64-bit precision.
pub(super) fn number<'de, D: Deserializer<'de>, T: TryFrom<i128> + Default>(
    from: D,
) -> Result<T, D::Error> {
    const NAMES: [(&str, i128); 6] = [
        ("SPAN_KIND_INTERNAL", 1),
        ("SPAN_KIND_SERVER", 2),
        ("SPAN_KIND_CLIENT", 3),
        ("SPAN_KIND_PRODUCER", 4),
        ("SPAN_KIND_CONSUMER", 5),
        ("STATUS_CODE_ERROR", ERROR as i128),
    ];
    let text = match serde_json::Value::deserialize(from)? {
        serde_json::Value::String(text) => text,
        serde_json::Value::Null => return Ok(T::default()),
        value => value.to_string(),
    };
    let is_name = text.starts_with("SPAN_KIND_") || text.starts_with("STATUS_CODE_");
    let named = NAMES.iter().find(|of| of.0 == text).map(|of| of.1).or(is_name.then_some(0));
    let number = named.or_else(|| text.parse().ok());
    let number = number.or_else(|| text.parse::<f64>().ok().map(|number| number as i128));
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        D::Error::invalid_value(Unexpected::Str(&text), &"a number in the range of the field")
    })
}

fn some_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    number(from).map(Some)
}

/// Deserializes an id from hexadecimal digits (OTLP's JSON) or base64 (protobuf's JSON).
fn id_text<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = Option::<String>::deserialize(from)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if let Ok(id) = u128::from_str_radix(&text, 16) {
        return Ok(id.to_be_bytes().to_vec());
    }
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let decode = |alphabet| GeneralPurpose::new(alphabet, config).decode(&text).ok();
    let id = [&STANDARD, &URL_SAFE].into_iter().find_map(decode);
    let expected = &"an id of at most 32 hexadecimal digits, or 8 or 16 bytes in base64";
    id.filter(|id| [8, 16].contains(&id.len()))
        .ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), expected))
}

/// Returns an id as a number. An id that is too long becomes 0, which is not a valid id.
fn id(bytes: &[u8]) -> u128 {
    if bytes.len() > 16 {
        return 0;
    }
    bytes.iter().fold(0, |id, &byte| id << 8 | u128::from(byte))
}

/// Returns the relevant attributes.
fn kept(of: Vec<Attribute>) -> Vec<(String, String)> {
    let text = |value: Value| {
        let Value { string_value, bool_value, int_value, double_value } = value;
        let number = int_value.map(|of| of.to_string()).or(double_value.map(|of| of.to_string()));
        string_value.or(bool_value.map(|of| of.to_string())).or(number)
    };
    let pair = |of: Attribute| attributes::kept(of.key, text(of.value?)?);
    of.into_iter().filter_map(pair).collect()
}

/// Converts a request to spans.
pub(super) fn spans(of: Vec<ResourceSpans>, to: &mut Vec<Span>) {
    let short = |bytes: &[u8]| u64::try_from(id(bytes)).unwrap_or(0);
    for ResourceSpans { resource, scope_spans, instrumentation_library_spans } in of {
        let of_resource = resource.unwrap_or_default().attributes;
        let name = of_resource.iter().find(|attribute| attribute.key == "service.name");
        let name = name.and_then(|name| name.value.as_ref()?.string_value.clone());
        let (service, of_resource) = (name.unwrap_or_default(), kept(of_resource));
        let scopes = scope_spans.into_iter().chain(instrumentation_library_spans);
        to.extend(scopes.flat_map(|scope| scope.spans).map(|span| {
            let mut attributes = kept(span.attributes);
            attributes.extend(of_resource.iter().cloned());
            if span.status.is_some_and(|status| status.code == ERROR) {
                attributes.push(("otel.status_code".to_owned(), "ERROR".to_owned()));
            }
            Span {
                trace: id(&span.trace_id),
                id: short(&span.span_id),
                parent: short(&span.parent_span_id),
                kind: kind(span.kind),
                service: service.clone(),
                operation: span.name,
                start_ns: span.start_time_unix_nano,
                end_ns: span.end_time_unix_nano,
                attributes,
            }
        }));
    }
}

fn kind(number: i32) -> Kind {
    match number {
        1 => Kind::Internal,
        2 => Kind::Server,
        3 => Kind::Client,
        4 => Kind::Producer,
        5 => Kind::Consumer,
        _ => Kind::Unknown,
    }
}
