//! An HTTP/1.1 implementation for the data path between a client, a proxy and a replica.
//!
//! # Map
//!
//! The codec does no input or output and uses no clock. It works on a buffer of bytes:
//!
//! - [`parse_request`] and [`parse_response`] parse the head of a message and remove it from the
//!   buffer,
//! - [`BodyDecoder`] decodes a body according to the head's [`Framing`],
//! - [`write_request`], [`write_response_head`] and [`write_chunk`] render messages. [`Relayed`]
//!   passes on the fields of a parsed head without another check.
//!
//! Two thin drivers connect the codec to a tokio stream:
//!
//! - [`server`] is for small servers, and for the connections between a proxy and its clients. It
//!   enforces timeouts on the client ([`Timeouts`]).
//! - [`client`] is for the load generator, and for the connections between a proxy and its
//!   replicas. It has no timeouts.
//!
//! # One invariant
//!
//! **The verdict on a message depends on its bytes alone, not on how they were split into reads. No
//! input makes this crate panic or hold more bytes than its [`Limits`] allow.**
//!
//! # Why not hyper
//!
//! - A request with both `Content-Length` and `Transfer-Encoding` must be rejected. If a proxy and
//!   a replica disagree about which of the two applies, bytes that one client sent can become part
//!   of another client's request. hyper silently uses `Transfer-Encoding`.
//! - A replica's slot must be accounted for no matter how a response ends: the connection may close
//!   before the first byte or in the middle of the response, and the replica may send invalid data
//!   or extraneous bytes after the end. hyper maps most of these to one error, or handles them
//!   internally.
//! - The cost of the proxy is the CPU time that it spends on a request. With this crate, a request
//!   is parsed once and written once, and its fields require one allocation.
//!
//! In return, this crate does less: no CONNECT, and no trailers (they are checked and dropped).
//!
//! # Strictness
//!
//! RFC 9112 lets a recipient be lenient in some cases that this crate rejects: a bare LF as a line
//! end, a repeated `Content-Length` even if identical, a `Transfer-Encoding` other than exactly
//! `chunked`, and obs-fold. Where the specification requires a certain behavior, the documentation
//! cites the section.
//!
//! # A server
//!
//! ```
//! use curtail_http::h1::server::{Connection, ServerError};
//! use curtail_http::h1::{Limits, Timeouts};
//! use tokio::io::{AsyncRead, AsyncWrite};
//!
//! async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Result<(), ServerError> {
//!     let mut connection = Connection::new(stream, Limits::default(), Timeouts::default());
//!     loop {
//!         let request = match connection.next_request().await {
//!             Ok(Some(request)) => request,
//!             Ok(None) => break,
//!             Err(ServerError::Reject(reject)) => {
//!                 connection.reject(&reject).await?;
//!                 break;
//!             }
//!             Err(gone) => return Err(gone),
//!         };
//!         let response = tokio::select! {
//!             response = work(request.head.target()) => response,
//!             () = connection.peer_closed() => return Ok(()),
//!         };
//!         connection.respond(200, [("content-type", "text/plain")], response.as_bytes()).await?;
//!     }
//!     connection.close().await;
//!     Ok(())
//! }
//!
//! async fn work(target: &str) -> String {
//!     format!("you asked for {target}\n")
//! }
//! # let _ = serve::<tokio::io::DuplexStream>;
//! ```

mod body;
pub mod client;
mod fields;
mod framing;
mod header_lines;
mod io;
mod limits;
mod lines;
mod reject;
mod request;
mod response;
mod scan;
pub mod server;
pub(crate) mod token;
mod write;

pub use body::{BodyDecoder, BodyError, Decoded, IncompleteBody};
pub use fields::{Fields, is_hop_by_hop};
pub use framing::{Framing, FramingFault, Version};
pub use header_lines::{HeaderLines, Joined, Relayed, Rendered, WriteError};
pub use limits::{HEAD_BYTES_MAX, HEADERS_MAX, Limits, Timeouts};
pub use reject::Reject;
pub use request::{RequestHead, parse_request};
pub use response::{BadResponse, ResponseHead, parse_response};
pub use write::{
    BodyLength, LAST_CHUNK, NO_HEADERS, Persistence, check_request_line, reason_phrase,
    write_chunk, write_lines, write_request, write_request_of_lines, write_response_head,
};
