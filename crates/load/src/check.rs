//! Checks a plan before a run: every value is in range and fits the protocol, and every request can
//! be rendered.

use curtail_kernel::duration::format;
use curtail_xdp::PAYLOAD_MAX;

use crate::plan::error::{PlanError, refuse};
use crate::plan::protocol::{Batch, Protocol, ResponseEnd, Trust};
use crate::plan::schedule::{EXPONENT_MAX, Extent, KeyDistribution, Keys, PLACE, RENDERED_MAX};
use crate::plan::target::Scheme;
use crate::plan::{Pace, Plan, Precision, StampsBy, TIMEOUT_NS_MAX};
use crate::session::requests;
use crate::session::tls::TlsClient;

const CONNECTIONS_MAX: usize = 1 << 16;
const THREADS_MAX: usize = 256;
const STREAMS_MAX: usize = 1 << 16;
/// The length of a sequence number.
const DATAGRAM_BYTES_MIN: usize = 8;
/// The largest payload of an IPv4 datagram.
const DATAGRAM_BYTES_MAX: usize = 65_507;
const DELIMITER_BYTES_MAX: usize = 1 << 10;
/// Maximum number of bytes of text before encoding, with keys filled in.
const TEXT_BYTES_MAX: usize = 1 << 30;
const OVER_TLS: &str = "use https:// or grpcs://";

impl Plan {
    /// Rejects a plan that cannot be run. [`run`](crate::run) calls this first.
    pub fn check(&self) -> Result<(), PlanError> {
        self.schedule()?;
        self.check_extent()?;
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return refuse(format!("{} connections; use 1 to 65536", self.connections));
        }
        let (threads, processors) = (self.threads, self.processors.numbers().len());
        let most = THREADS_MAX.min(self.connections);
        if !(1..=most).contains(&threads) {
            return refuse(format!(
                "{threads} threads; use 1 to {most}, because each needs a connection"
            ));
        }
        if processors != 0 && processors != threads {
            return refuse(format!(
                "threads: {threads}, processors: {processors}; name one processor for each thread"
            ));
        }
        if !(1..=TIMEOUT_NS_MAX).contains(&self.timeout_ns) {
            let time = format(self.timeout_ns);
            return refuse(format!("--timeout {time}: use more than zero and at most 60s"));
        }
        self.check_bypass()?;
        self.check_headers()?;
        self.check_requests()
    }

    fn check_extent(&self) -> Result<(), PlanError> {
        if matches!(self.extent, Extent::Duration { ns: 0 } | Extent::Requests(0)) {
            return refuse(
                "the duration or the number of requests is zero, so nothing would be measured; use \
                 a larger one",
            );
        }
        if let (Extent::Duration { ns }, Pace::Open { profile, .. }) = (self.extent, &self.pace) {
            let rate = profile.mean(ns);
            let requests = rate * (ns as f64 / 1e9);
            if requests < 1.0 {
                // Rounds to three significant digits.
                let requests: f64 = format!("{requests:.2e}").parse().unwrap_or(requests);
                return Err(PlanError::FewerThanOne(format!(
                    "rate {rate:?} × duration {} is {requests:?} requests, fewer than one; use a \
                     higher rate or a longer duration",
                    format(ns)
                )));
            }
        }
        let fine = |Precision { relative, per_mille }: &Precision| {
            let inside = |per_mille: &u32| (1..1_000).contains(per_mille);
            let percentiles = !per_mille.is_empty() && per_mille.iter().all(inside);
            *relative > 0.0 && *relative < 1.0 && percentiles
        };
        if !self.until.as_ref().is_none_or(fine) {
            return refuse(
                "a precision must be above 0 % and below 100 %, and its percentiles above 0 and \
                 below 100",
            );
        }
        Ok(())
    }

    fn check_bypass(&self) -> Result<(), PlanError> {
        let (scheme, connections) = (self.target.scheme(), self.connections);
        if self.stamps != StampsBy::Xdp {
            return Ok(());
        }
        if scheme != Scheme::Udp {
            return refuse(format!(
                "--stamps xdp supports only UDP, not {scheme}://; write udp://HOST:PORT, or leave \
                 out --stamps xdp"
            ));
        }
        if connections != 1 {
            return refuse(format!(
                "--stamps xdp uses one connection, on which many requests are in flight at once; \
                 leave out --connections (here: {connections})"
            ));
        }
        self.check_datagram(PAYLOAD_MAX)
    }

    /// Rejects datagrams that are longer than `most` bytes, which is what the bypass allows.
    pub(crate) fn check_datagram(&self, most: usize) -> Result<(), PlanError> {
        let bytes = self.protocol.datagram_bytes;
        if bytes <= most {
            return Ok(());
        }
        refuse(format!(
            "datagrams of {bytes} bytes; --stamps xdp allows at most {most}: use a smaller --size"
        ))
    }

    fn check_headers(&self) -> Result<(), PlanError> {
        let scheme = self.target.scheme();
        if !(self.headers.is_empty() || scheme.is_http() || scheme.is_grpc()) {
            return refuse(format!(
                "{scheme}:// does not support headers; leave them out, or use http://, https://, \
                 grpc:// or grpcs://"
            ));
        }
        match self.headers.iter().find(|(name, _)| requests::is_owned(name)) {
            Some((name, _)) => {
                refuse(format!("header `{name}` is set by the load generator; leave it out"))
            }
            None => Ok(()),
        }
    }

    fn check_requests(&self) -> Result<(), PlanError> {
        let texts = requests::own(self)?;
        check_protocol(&self.protocol, self.target.scheme(), texts.len())?;
        let data = self.protocol.data.as_deref().unwrap_or_default();
        let mut with_key = texts.iter().map(String::as_str).chain([data]);
        match (self.protocol.keys, with_key.find(|text| text.contains(PLACE))) {
            (None, Some(text)) => {
                let why = "contains {key}, but there are no keys; set their number with --keys";
                return Err(requests::refused(text, why));
            }
            (Some(_), None) => {
                return refuse(
                    "there are keys, but no request contains {key}; write it where the number \
                     belongs",
                );
            }
            (Some(Keys { count, .. }), Some(_)) => {
                let bytes: usize = texts.iter().map(|text| text.len() + data.len()).sum();
                if bytes.saturating_mul(count) > TEXT_BYTES_MAX {
                    let most = TEXT_BYTES_MAX / bytes.max(1);
                    return refuse(format!(
                        "with {count} keys, these requests take more than 1 GiB; use at most {most}"
                    ));
                }
            }
            (None, None) => {}
        }
        if self.target.scheme().is_tls() {
            TlsClient::prepare(self)?;
        }
        requests::render(self, 1).map(drop)
    }
}

fn check_protocol(of: &Protocol, scheme: Scheme, requests: usize) -> Result<(), PlanError> {
    let default = Protocol::default();
    for (count, what) in [(of.streams, "streams"), (of.pipeline, "requests at once")] {
        if !(1..=STREAMS_MAX).contains(&count) {
            return refuse(format!("{count} {what}; use 1 to 65536"));
        }
    }
    let bytes = of.datagram_bytes;
    if !(DATAGRAM_BYTES_MIN..=DATAGRAM_BYTES_MAX).contains(&bytes) {
        return refuse(format!("datagrams of {bytes} bytes; use 8 to 65507"));
    }
    match &of.response_end {
        ResponseEnd::Bytes(0) => return refuse("a response of 0 bytes; use 1 or more"),
        ResponseEnd::Until(end) if !(1..=DELIMITER_BYTES_MAX).contains(&end.len()) => {
            let bytes = end.len();
            return refuse(format!("the end of a response is {bytes} bytes; use 1 to 1024"));
        }
        _ => {}
    }
    let (is_http, is_http2) = (scheme.is_http(), of.http2 || scheme.is_grpc());
    let (is_tls, is_udp) = (scheme.is_tls(), scheme == Scheme::Udp);
    let one_at_a_time = (of.pipeline, of.batch) == (1, Batch::Off);
    let own_end = of.response_end != default.response_end;
    let own_length = of.datagram_bytes != default.datagram_bytes;
    let misplaced = [
        (of.http2 && !is_http, "HTTP/2", "leave it out, or use http:// or https://"),
        (of.streams != default.streams && !is_http2, "streams", "add --http2, or leave it out"),
        (
            !(one_at_a_time || scheme.is_pipelined()),
            "pipelining or batches",
            "use memcached://, redis:// or tcp://",
        ),
        (of.trust == Trust::Anyone && !is_tls, "--insecure", OVER_TLS),
        (matches!(of.trust, Trust::File(_)) && !is_tls, "--cacert", OVER_TLS),
        (of.schema.is_some() && !scheme.is_grpc(), "a schema", "use grpc:// or grpcs://"),
        (of.method.is_some() && !is_http, "a method", "use http:// or https://"),
        (own_end && scheme != Scheme::Tcp, "the end of a response", "use tcp://"),
        (own_length && !is_udp, "the length of a datagram", "use udp://"),
        (
            is_udp && (of.data.is_some() || of.keys.is_some()),
            "data or keys",
            "set the number of bytes (--size) instead",
        ),
    ];
    if let Some((_, setting, fix)) = misplaced.iter().find(|(is, ..)| *is) {
        return refuse(format!("{scheme}:// does not support {setting}; {fix}"));
    }
    of.keys.map_or(Ok(()), |keys| check_keys(keys, requests))
}

fn check_keys(keys: Keys, requests: usize) -> Result<(), PlanError> {
    let (count, most) = (keys.count, RENDERED_MAX / requests.max(1));
    if !(1..=most).contains(&count) {
        return refuse(format!(
            "{count} keys; use 1 to {most}, because every request is rendered with every key"
        ));
    }
    match keys.distribution {
        KeyDistribution::Zipf(exponent) if !(exponent > 0.0 && exponent <= EXPONENT_MAX) => {
            refuse(format!("a Zipf exponent of {exponent:?}; use more than 0 and at most 10"))
        }
        _ => Ok(()),
    }
}
