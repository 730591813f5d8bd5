//! Parses Jaeger's JSON format, which its web interface and `/api/traces` return. Times are in
//! microseconds. Each trace contains a table of services.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::otlp::{number, or_empty};
use super::{Kind, Span, attributes};

#[derive(Deserialize)]
pub(super) struct Trace {
    #[serde(deserialize_with = "or_empty")]
    pub(super) spans: Vec<Logged>,
    #[serde(default, deserialize_with = "or_empty")]
    pub(super) processes: BTreeMap<String, Process>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Process {
    #[serde(default, deserialize_with = "or_empty")]
    service_name: String,
    #[serde(default, deserialize_with = "or_empty")]
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    #[serde(default, deserialize_with = "or_empty")]
    key: String,
    #[serde(default)]
    value: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Logged {
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
    #[serde(default, deserialize_with = "or_empty")]
    operation_name: String,
    references: Option<Vec<Reference>>,
    /// The start, in microseconds since the Unix epoch.
    #[serde(deserialize_with = "number")]
    start_time: u64,
    /// The duration, in microseconds.
    #[serde(deserialize_with = "number")]
    duration: u64,
    #[serde(default, deserialize_with = "or_empty")]
    tags: Vec<Tag>,
    #[serde(rename = "processID", default)]
    process_id: String,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(rename = "refType", default)]
    kind: String,
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
}

/// Returns the relevant attributes among `tags`, and the span's kind if a tag contains it.
fn kept(tags: &[Tag]) -> (Vec<(String, String)>, Kind) {
    let mut kind = Kind::Unknown;
    let pair = |tag: &Tag| {
        let value = match &tag.value {
            serde_json::Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        if tag.key == "span.kind" {
            kind = kind_of(&value);
        }
        attributes::kept(tag.key.clone(), value)
    };
    (tags.iter().filter_map(pair).collect(), kind)
}

/// Parses the name of a kind. Zipkin uses the same names.
pub(super) fn kind_of(name: &str) -> Kind {
    match &name.to_ascii_lowercase()[..] {
        "internal" => Kind::Internal,
        "client" => Kind::Client,
        "server" => Kind::Server,
        "producer" => Kind::Producer,
        "consumer" => Kind::Consumer,
        _ => Kind::Unknown,
    }
}

/// Converts traces to spans. Invalid ids become 0, which is not a valid id.
pub(super) fn spans(of: Vec<Trace>, to: &mut Vec<Span>) {
    let id = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
    for Trace { spans, processes } in of {
        to.extend(spans.into_iter().map(|span| {
            let references = span.references.unwrap_or_default();
            // A reference into another trace is not a parent. A `CHILD_OF` reference takes
            // precedence, because that parent waited for the span.
            let own = references.iter().filter(|of| of.trace_id == span.trace_id);
            let parent = own.min_by_key(|of| of.kind != "CHILD_OF");
            let process = processes.get(&span.process_id);
            let start_ns = span.start_time.saturating_mul(1_000);
            let (mut attributes, kind) = kept(&span.tags);
            attributes.extend(process.into_iter().flat_map(|of| kept(&of.tags).0));
            Span {
                trace: u128::from_str_radix(&span.trace_id, 16).unwrap_or(0),
                id: id(&span.span_id),
                parent: parent.map_or(0, |of| id(&of.span_id)),
                kind,
                service: process.map_or_else(String::new, |of| of.service_name.clone()),
                operation: span.operation_name,
                start_ns,
                end_ns: start_ns.saturating_add(span.duration.saturating_mul(1_000)),
                attributes,
            }
        }));
    }
}
