//! Parses Zipkin's JSON format, version 2. Each span is self-contained, and times are in
//! microseconds.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::jaeger::kind_of;
use super::otlp::or_empty;
use super::{Span, attributes};

/// The fields of a span without its tags.
pub(super) struct Reported {
    /// The ids of the trace, of the span, and of the span's parent.
    pub(super) ids: [Option<String>; 3],
    pub(super) name: String,
    pub(super) kind: String,
    /// The start, in microseconds since the Unix epoch.
    pub(super) timestamp: u64,
    /// The duration, in microseconds.
    pub(super) duration: u64,
    /// The endpoint of the span's own half of the call, and that of the other half.
    pub(super) endpoints: [Endpoint; 2],
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Endpoint {
    #[serde(deserialize_with = "or_empty")]
    service_name: String,
    ipv4: Option<String>,
    ipv6: Option<String>,
}

impl Endpoint {
    fn address(&mut self) -> Option<String> {
        self.ipv4.take().or(self.ipv6.take())
    }
}

/// Converts a span. Invalid ids become 0, which is not a valid id. A span without a start time or a
/// duration has not ended. Its end is replaced by an invalid time.
pub(super) fn span(of: Reported, tags: BTreeMap<String, String>) -> Span {
    let [trace, id, parent] =
        of.ids.map(|text| text.and_then(|text| u128::from_str_radix(&text, 16).ok()).unwrap_or(0));
    let short = |id: u128| u64::try_from(id).unwrap_or(0);
    let [mut own, mut other] = of.endpoints;
    let places = [("ip", own.address()), ("peer.address", other.address())];
    let places = places.into_iter().filter_map(|(key, of)| Some((key.to_owned(), of?)));
    let tags = tags.into_iter().filter_map(|(key, value)| attributes::kept(key, value));
    let start_ns = of.timestamp.saturating_mul(1_000);
    Span {
        trace,
        id: short(id),
        parent: short(parent),
        kind: kind_of(&of.kind),
        service: own.service_name,
        operation: of.name,
        start_ns,
        end_ns: match (of.timestamp, of.duration) {
            (0, _) | (_, 0) => u64::MAX,
            (_, duration) => start_ns.saturating_add(duration.saturating_mul(1_000)),
        },
        attributes: tags.chain(places).collect(),
    }
}
