//! Protocol settings that are not part of the target.

use std::path::PathBuf;
use std::str::FromStr;

use curtail_kernel::duration;
use serde::{Deserialize, Serialize};

use crate::plan::error::PlanError;
use crate::plan::schedule::Keys;

/// When a connection writes its requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Batch {
    /// Each request immediately.
    #[default]
    Off,
    /// According to Nagle's algorithm (RFC 896): while the server has yet to acknowledge earlier
    /// data, new requests are collected and written together.
    Nagle,
    /// When the first request of a batch has waited for `wait_ns`, or when the batch has `most`
    /// requests.
    Within {
        /// The longest wait, in nanoseconds.
        wait_ns: u64,
        /// The largest number of requests in a batch, at least 1.
        most: usize,
    },
}

impl FromStr for Batch {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Batch, PlanError> {
        if text == "nagle" {
            return Ok(Batch::Nagle);
        }
        let (wait, most) = text.split_once(':').unwrap_or((text, "65536"));
        let batch = duration::parse(wait).ok().zip(most.parse().ok().filter(|most| *most > 0));
        batch.map(|(wait_ns, most)| Batch::Within { wait_ns, most }).ok_or_else(|| {
            PlanError::Value(format!(
                "unknown batches `{text}`; use nagle, WAIT or WAIT:REQUESTS, such as 50us:16"
            ))
        })
    }
}

/// Protocol settings. A setting that does not apply to the target's scheme is rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// Whether to use HTTP/2: over TLS by ALPN, otherwise with prior knowledge (RFC 9113 §3.3).
    /// gRPC always uses it.
    pub http2: bool,
    /// Maximum number of concurrent streams per HTTP/2 connection, 1 to 65,536. The server may
    /// allow fewer.
    pub streams: usize,
    /// Maximum number of concurrent requests on a memcached, Redis or raw TCP connection, 1 to
    /// 65,536. The server must respond in order.
    pub pipeline: usize,
    /// When a memcached, Redis or raw TCP connection writes its requests.
    pub batch: Batch,
    /// Which server certificates are trusted.
    pub trust: Trust,
    /// The schema of gRPC messages. If there is a schema, messages are written as JSON. The schema
    /// is a `.proto` file, or a descriptor set from `protoc --include_imports
    /// --descriptor_set_out`.
    pub schema: Option<PathBuf>,
    /// How a `tcp` connection finds the end of a response.
    pub response_end: ResponseEnd,
    /// The length of a datagram, in bytes: 8 to 65,507.
    pub datagram_bytes: usize,
    /// The method of HTTP requests that do not specify one. The default is `POST` for requests that
    /// have a body, and `GET` for all others.
    pub method: Option<String>,
    /// The request to send if there are no [`queries`](crate::Plan::queries): a gRPC message, a
    /// command, or text with escapes (`tcp`). For HTTP, the body of each request that does not
    /// specify one.
    pub data: Option<String>,
    /// The keys that replace `{key}` in a request.
    pub keys: Option<Keys>,
}

impl Default for Protocol {
    /// The defaults are HTTP/1.1, 100 streams, no pipelining, no batches, the system's certificate
    /// authorities, responses that end with a newline, and datagrams of 64 bytes.
    fn default() -> Protocol {
        Protocol {
            http2: false,
            streams: 100,
            pipeline: 1,
            batch: Batch::Off,
            trust: Trust::System,
            schema: None,
            response_end: ResponseEnd::default(),
            datagram_bytes: 64,
            method: None,
            data: None,
            keys: None,
        }
    }
}

/// Which server certificates are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trust {
    /// Certificates signed by the authorities that the system trusts.
    #[default]
    System,
    /// Certificates signed by the authorities in this PEM file.
    File(PathBuf),
    /// Any certificate: the peer is not authenticated.
    Anyone,
}

/// How the end of a response is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResponseEnd {
    /// The response ends after this number of bytes, which must be above zero.
    Bytes(u64),
    /// The response ends after this delimiter, which consists of 1 to 1,024 bytes.
    Until(Vec<u8>),
}

impl Default for ResponseEnd {
    /// A newline.
    fn default() -> ResponseEnd {
        ResponseEnd::Until(b"\n".to_vec())
    }
}
