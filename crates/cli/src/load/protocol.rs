//! The protocol arguments of `curtail load`.

use std::path::{Path, PathBuf};

use curtail_dist::read_text;
use curtail_load::{Batch, KeyDistribution, Keys, Protocol, ResponseEnd};

use crate::args::TrustArgs;

#[derive(clap::Args)]
#[command(next_help_heading = "Requests and protocols")]
pub(crate) struct ProtocolArgs {
    /// Header to send, such as 'x-shard: 0' (repeatable)
    #[arg(short = 'H', long, value_name = "K: V", value_parser = curtail_load::parse_header)]
    pub(crate) header: Vec<(String, String)>,
    /// Time after which a request without a response has failed
    #[arg(long, default_value = "10s", value_name = "SPAN", value_parser = span, allow_hyphen_values = true)]
    pub(crate) timeout: u64,
    /// Method of HTTP requests that do not name one [default: GET, or POST with --body]
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// Body of HTTP requests, or @FILE to read it from a file; for other protocols the message,
    /// command or text to send
    #[arg(short, long, alias = "data", value_name = "TEXT|@FILE", value_parser = body, allow_hyphen_values = true)]
    body: Option<String>,
    /// Replace {key} in requests with a number below N
    #[arg(long, value_name = "N")]
    keys: Option<usize>,
    /// Distribution of the keys: uniform or zipf:S
    #[arg(long, value_name = "D", default_value = "uniform", requires = "keys")]
    key_distribution: KeyDistribution,
    /// Use HTTP/2
    #[arg(long)]
    http2: bool,
    /// Maximum concurrent requests on an HTTP/2 or gRPC connection [default: 100]
    #[arg(long, value_name = "N")]
    streams: Option<usize>,
    /// Maximum concurrent requests on a memcached, Redis or TCP connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: usize,
    /// When a memcached, Redis or TCP connection writes its requests: nagle, WAIT or WAIT:REQUESTS;
    /// the last two write a batch when its first request has waited for WAIT, or when the batch
    /// contains REQUESTS requests [default: immediately]
    #[arg(long, value_name = "B")]
    batch: Option<Batch>,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// Description of gRPC messages: a .proto file, or the output of protoc --descriptor_set_out
    #[arg(long, value_name = "FILE")]
    proto: Option<PathBuf>,
    /// Length of a response on a tcp:// connection, in bytes
    #[arg(long, value_name = "N", conflicts_with = "answer_until")]
    answer_bytes: Option<u64>,
    /// Text that ends a response on a tcp:// connection [default: \n]
    #[arg(long, value_name = "TEXT", value_parser = curtail_load::unescape)]
    answer_until: Option<Bytes>,
    /// Length of a udp:// datagram, in bytes [default: 64]
    #[arg(long, value_name = "BYTES")]
    size: Option<usize>,
    /// Maximum size of a response, such as 64MiB; longer ones fail
    #[arg(long, value_name = "SIZE", value_parser = curtail_proxy::config::parse_size, default_value = "64MiB")]
    pub(crate) max_response: u64,
}

/// A type alias, because clap would take a `Vec` as a list of arguments.
type Bytes = std::vec::Vec<u8>;

/// The text itself, or the content of the file after an `@`; `@@` escapes a leading `@`.
fn body(text: &str) -> Result<String, String> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(literal) if literal.starts_with('@') => Ok(literal.to_owned()),
        Some(path) => read_text(Path::new(path)).map_err(|error| error.to_string()),
    }
}

impl ProtocolArgs {
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Whether the arguments request a number of streams other than one.
    pub(crate) fn asks_for_streams(&self) -> bool {
        self.streams.is_some_and(|streams| streams != 1)
    }

    pub(crate) fn protocol(&self) -> Protocol {
        let default = Protocol::default();
        let response_end = match (&self.answer_bytes, &self.answer_until) {
            (Some(bytes), _) => ResponseEnd::Bytes(*bytes),
            (None, Some(text)) => ResponseEnd::Until(text.clone()),
            (None, None) => default.response_end,
        };
        let distribution = self.key_distribution;
        Protocol {
            http2: self.http2,
            streams: self.streams.unwrap_or(default.streams),
            pipeline: self.pipeline,
            batch: self.batch.unwrap_or_default(),
            trust: self.trust.trust(),
            schema: self.proto.clone(),
            response_end,
            datagram_bytes: self.size.unwrap_or(default.datagram_bytes),
            method: self.method.clone(),
            data: self.body.clone(),
            keys: self.keys.map(|count| Keys { count, distribution }),
        }
    }
}

pub(crate) fn span(text: &str) -> Result<u64, String> {
    curtail_kernel::duration::parse(text).map_err(|error| error.to_string())
}
