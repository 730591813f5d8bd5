//! Jaeger's JSON, as its interface and `/api/traces` give it: times in microseconds, services in a table per trace.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Span;

#[derive(Deserialize)]
pub(super) struct Trace {
    spans: Vec<Logged>,
    #[serde(default)]
    processes: BTreeMap<String, Process>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    service_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Logged {
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
    operation_name: String,
    references: Option<Vec<Reference>>,
    /// Microseconds.
    start_time: u64,
    /// Microseconds.
    duration: u64,
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

/// The spans in it. Ids that are none become 0, which is no valid id.
pub(super) fn spans(of: Vec<Trace>, to: &mut Vec<Span>) {
    let id = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
    for Trace { spans, processes } in of {
        to.extend(spans.into_iter().map(|span| {
            let references = span.references.unwrap_or_default();
            // A reference into another trace is no parent. The first of those that the parent waited for.
            let own = references.iter().filter(|of| of.trace_id == span.trace_id);
            let parent = own.min_by_key(|of| of.kind != "CHILD_OF");
            let process = processes.get(&span.process_id);
            let start_ns = span.start_time.saturating_mul(1_000);
            Span {
                trace: u128::from_str_radix(&span.trace_id, 16).unwrap_or(0),
                id: id(&span.span_id),
                parent: parent.map_or(0, |of| id(&of.span_id)),
                service: process.map_or_else(String::new, |of| of.service_name.clone()),
                operation: span.operation_name,
                start_ns,
                end_ns: start_ns.saturating_add(span.duration.saturating_mul(1_000)),
            }
        }));
    }
}
