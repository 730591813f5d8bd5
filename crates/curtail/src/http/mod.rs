//! Requests and responses of HTTP and gRPC: bodies that can be repeated, responses whose copies keep
//! their slots until the body ends, and clients on which other layers and generated code stand.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use curtail::http::{self, Body};
//! use curtail::{Cancel, Curtail, outcome};
//! # let leaf = |_: &str| tower::service_fn(|_: ::http::Request<Body>| async {
//! #     Ok::<_, std::io::Error>(::http::Response::new(Body::from("hello")))
//! # });
//!
//! let search = Curtail::builder()
//!     .shard("a", [("a0", leaf("10.0.0.1:80")), ("a1", leaf("10.0.0.2:80"))])
//!     .cancellation(Cancel::OnDrop)
//!     .classify(outcome::http)
//!     .repeatable(http::safe)     // GET, HEAD, OPTIONS and TRACE
//!     .streaming(http::relay)     // a copy ends with the body of its response
//!     .build()?;
//! let client = search.shard("a").http(); // a service of requests with any type of body
//! # let _ = client.clone();
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod body;
mod client;
mod leaf;
mod relay;

pub use body::Body;
pub use client::Client;
pub use leaf::{Leaf, leaf};
pub use relay::relay;

use ::http::Request;

/// Repeats a request, unless its body is a stream.
#[must_use]
pub fn repeat(request: &Request<Body>) -> Option<Request<Body>> {
    let body = request.body().try_clone()?;
    let mut copy = Request::new(body);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// Repeats a request with a safe method (RFC 9110 §9.2.1), unless its body is a stream. Calls of gRPC
/// use POST, which is not safe: state which are idempotent by their paths.
#[must_use]
pub fn safe(request: &Request<Body>) -> Option<Request<Body>> {
    if request.method().is_safe() { repeat(request) } else { None }
}
