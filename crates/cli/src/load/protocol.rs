//! The protocol arguments of `curtail load`.

use std::path::{Path, PathBuf};

use curtail_dist::read_text;
use curtail_load::{AnswerEnd, Batch, KeyDistribution, Keys, Protocol};

use crate::args::TrustArgs;

#[derive(clap::Args)]
#[command(next_help_heading = "Requests and protocols")]
pub(crate) struct ProtocolArgs {
    /// A header to send, like 'x-shard: 0'; may be repeated
    #[arg(short = 'H', long, value_name = "K: V", value_parser = curtail_load::parse_header)]
    pub(crate) header: Vec<(String, String)>,
    /// A request without an answer for so long has failed
    #[arg(long, default_value = "10s", value_name = "SPAN", value_parser = span, allow_hyphen_values = true)]
    pub(crate) timeout: u64,
    /// The method of HTTP requests that name none [default: GET, or POST with --body]
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// The body of HTTP requests, or @FILE with it; else the message, the command or the text to send
    #[arg(short, long, alias = "data", value_name = "TEXT|@FILE", value_parser = body, allow_hyphen_values = true)]
    body: Option<String>,
    /// Put a number below N where a request has {key}
    #[arg(long, value_name = "N")]
    keys: Option<usize>,
    /// How often each key is asked for: uniform or zipf:S
    #[arg(long, value_name = "D", default_value = "uniform", requires = "keys")]
    key_distribution: KeyDistribution,
    /// Speak HTTP/2
    #[arg(long)]
    http2: bool,
    /// Requests at once on a connection of HTTP/2 or gRPC [default: 100]
    #[arg(long, value_name = "N")]
    streams: Option<usize>,
    /// Requests under way at once on a connection of memcached, Redis or TCP
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: usize,
    /// When a connection of these writes requests: nagle, or in batches, WAIT or WAIT:REQUESTS after the first of each
    #[arg(long, value_name = "B")]
    batch: Option<Batch>,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// Describes the messages of gRPC: a .proto file, or what protoc --descriptor_set_out writes
    #[arg(long, value_name = "FILE")]
    proto: Option<PathBuf>,
    /// An answer on a tcp:// connection is so many bytes
    #[arg(long, value_name = "N", conflicts_with = "answer_until")]
    answer_bytes: Option<u64>,
    /// An answer on a tcp:// connection ends with this text [default: \n]
    #[arg(long, value_name = "TEXT", value_parser = curtail_load::unescape)]
    answer_until: Option<Bytes>,
    /// The length of a udp:// datagram, in bytes [default: 64]
    #[arg(long, value_name = "BYTES")]
    size: Option<usize>,
    /// An answer that is longer has failed: a size such as 64MiB
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

    /// True if the arguments ask for a number of streams other than one.
    pub(crate) fn asks_for_streams(&self) -> bool {
        self.streams.is_some_and(|streams| streams != 1)
    }

    pub(crate) fn protocol(&self) -> Protocol {
        let default = Protocol::default();
        let answer_end = match (&self.answer_bytes, &self.answer_until) {
            (Some(bytes), _) => AnswerEnd::Bytes(*bytes),
            (None, Some(text)) => AnswerEnd::Until(text.clone()),
            (None, None) => default.answer_end,
        };
        let distribution = self.key_distribution;
        Protocol {
            http2: self.http2,
            streams: self.streams.unwrap_or(default.streams),
            pipeline: self.pipeline,
            batch: self.batch.unwrap_or_default(),
            trust: self.trust.trust(),
            schema: self.proto.clone(),
            answer_end,
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
