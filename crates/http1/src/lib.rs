//! HTTP/1.1 on the data path: what stands between a client, a proxy and a replica.
//!
//! # Map
//!
//! The codec does no input or output and knows no time; it works on a buffer of bytes:
//!
//! - [`parse_request`] and [`parse_response`] take a head off the buffer,
//! - [`BodyDecoder`] takes a body off it, as the head's [`Framing`] says,
//! - [`write_request`], [`write_response_head`] and [`write_chunk`] render.
//!
//! Two thin drivers join it with a stream of tokio's:
//!
//! - [`server`]: the proxy's side towards clients, and small servers. Owns the deadlines towards the
//!   client ([`Timeouts`]).
//! - [`client`]: the proxy's side towards replicas, and the load generator. Owns no time.
//!
//! # One invariant
//!
//! **The verdict on a message depends on its bytes alone, not on how they were cut into reads; and
//! no bytes from outside make this crate panic or hold more than its [`Limits`].**
//!
//! # Why not hyper
//!
//! - A request with both `Content-Length` and `Transfer-Encoding` must be refused: where a proxy and
//!   a replica disagree on which one counts, one client's bytes become another client's request.
//!   hyper takes `Transfer-Encoding` and says nothing.
//! - A replica's slot has to be accounted for on every way a response can end: closed before the
//!   first byte, half a response, noise, extraneous bytes after the end. hyper folds most of these into
//!   one error or handles them out of sight.
//! - The time a request spends on the processor is what the proxy costs. Here a request is one
//!   parse, one allocation for its fields, and one write.
//!
//! The price is that this crate does less: no HTTP/2, no upgrades, no CONNECT, no trailers (they are
//! checked and dropped), and request bodies are handed on whole.
//!
//! # Strictness
//!
//! Refused, though RFC 9112 lets a recipient be lenient: bare LF as a line end, repeated
//! `Content-Length` even if identical, `Transfer-Encoding` other than exactly `chunked`, obs-fold.
//! Where the specification leaves no choice, the documentation names its section.
//!
//! # A server
//!
//! ```
//! use curtail_http1::server::{Connection, ServerError};
//! use curtail_http1::{Limits, Timeouts};
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
mod io;
mod limits;
mod reject;
mod request;
mod response;
mod scan;
pub mod server;
mod token;
mod write;

pub use body::{BodyDecoder, BodyError, Decoded, IncompleteBody};
pub use fields::{Fields, is_hop_by_hop};
pub use framing::{Framing, FramingFault, Version};
pub use limits::{HEAD_BYTES_MAX, HEADERS_MAX, Limits, Timeouts};
pub use reject::Reject;
pub use request::{RequestHead, parse_request};
pub use response::{BadResponse, ResponseHead, parse_response};
pub use write::{
    BodyLength, LAST_CHUNK, NO_HEADERS, Persistence, WriteError, reason_phrase, write_chunk,
    write_request, write_response_head,
};
