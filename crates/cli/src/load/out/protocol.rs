//! What was said of the protocol: beside the target, what it takes to ask the same again.

use curtail_load::{AnswerEnd, KeyDistribution, Plan, Protocol, Scheme, Trust};
use serde::Serialize;

/// So much of `--data` is kept.
const DATA_CHARS: usize = 1_000;

/// As on the command line. None where it is of no use with this target, or was not given.
#[derive(Serialize)]
pub(super) struct Spoken {
    pub(super) http2: bool,
    /// Of HTTP/2: requests at once on a connection.
    streams: Option<usize>,
    pub(super) method: Option<String>,
    /// Its first 1,000 characters, and how many bytes it has in all.
    data: Option<String>,
    pub(super) data_bytes: Option<usize>,
    pub(super) keys: Option<usize>,
    pub(super) key_distribution: Option<String>,
    /// Of TLS: `system`, `anyone`, or a file of authorities.
    pub(super) trust: Option<String>,
    /// Of gRPC: the file that describes messages.
    schema: Option<String>,
    /// Of raw TCP: one of both.
    answer_bytes: Option<u64>,
    answer_until: Option<String>,
    /// Of UDP.
    pub(super) datagram_bytes: Option<usize>,
    /// The longest answer.
    max_response_bytes: u64,
}

impl Spoken {
    pub(super) fn of(plan: &Plan) -> Self {
        let Protocol {
            http2,
            streams,
            trust,
            schema,
            answer_end,
            datagram_bytes,
            method,
            data,
            keys,
        } = &plan.protocol;
        let scheme = plan.target.scheme();
        let http2 = *http2 || scheme.is_grpc();
        let (answer_bytes, answer_until) = match answer_end {
            _ if scheme != Scheme::Tcp => (None, None),
            AnswerEnd::Bytes(bytes) => (Some(*bytes), None),
            AnswerEnd::Until(end) => (None, Some(end.escape_ascii().to_string())),
        };
        let trust = match trust {
            Trust::System => "system".to_owned(),
            Trust::Anyone => "anyone".to_owned(),
            Trust::File(path) => path.display().to_string(),
        };
        Self {
            http2,
            streams: http2.then_some(*streams),
            method: method.clone(),
            data: data.as_ref().map(|data| data.chars().take(DATA_CHARS).collect()),
            data_bytes: data.as_ref().map(String::len),
            keys: keys.map(|keys| keys.count),
            key_distribution: keys.map(|keys| match keys.distribution {
                KeyDistribution::Uniform => "uniform".to_owned(),
                KeyDistribution::Zipf(exponent) => format!("zipf:{exponent}"),
            }),
            trust: scheme.is_tls().then_some(trust),
            schema: schema.as_ref().map(|path| path.display().to_string()),
            answer_bytes,
            answer_until,
            datagram_bytes: (scheme == Scheme::Udp).then_some(*datagram_bytes),
            max_response_bytes: plan.body_bytes_max,
        }
    }

    /// For people: what is not as usual.
    pub(super) fn remarks(&self) -> String {
        let mut remarks = Vec::new();
        if self.http2 {
            remarks.push("HTTP/2".to_owned());
        }
        remarks.extend(self.method.as_ref().map(|method| format!("method {method}")));
        remarks.extend(self.data_bytes.map(|bytes| format!("{bytes} bytes of data")));
        if let (Some(keys), Some(distribution)) = (self.keys, &self.key_distribution) {
            remarks.push(format!("{keys} keys, {distribution}"));
        }
        remarks.extend(self.datagram_bytes.map(|bytes| format!("datagrams of {bytes} bytes")));
        let anyone = self.trust.as_deref() == Some("anyone");
        remarks.extend(anyone.then(|| "whoever answered was trusted (--insecure)".to_owned()));
        remarks.iter().map(|remark| format!("; {remark}")).collect()
    }
}
