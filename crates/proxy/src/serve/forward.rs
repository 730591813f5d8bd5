//! A client's request as it goes to a replica.

use std::net::IpAddr;

use curtail_http1::WriteError;
use curtail_http1::server::Request;
use curtail_runtime::{Query, http};

use crate::route::Target;

/// A request on its way.
pub(super) struct Forward {
    pub(super) query: Query<http::Request>,
}

/// Renders the request once, for all of its copies.
///
/// Fields that are about the client's connection stay behind (RFC 9110 §7.6.1). The client's address
/// joins `X-Forwarded-For`, and `Via` says that we passed it on (RFC 9110 §7.6.3).
pub(super) fn render(
    request: &Request,
    target: &Target,
    peer: Option<IpAddr>,
) -> Result<Forward, WriteError> {
    let head = &request.head;
    let authority = head.authority();
    let mut path = Vec::new();
    let mut headers: Vec<(&str, &[u8])> = Vec::with_capacity(16);
    for (name, value) in head.end_to_end() {
        if name.eq_ignore_ascii_case("x-forwarded-for") {
            path.extend_from_slice(value);
            path.extend_from_slice(b", ");
        } else if authority.is_none() || !name.eq_ignore_ascii_case("host") {
            headers.push((name, value));
        }
    }
    // An absolute target names the host, and `Host` must not contradict it (RFC 9112 §3.2.2).
    headers.extend(authority.map(|authority| ("host", authority)));
    if let Some(peer) = peer {
        path.extend_from_slice(peer.to_string().as_bytes());
        headers.push(("x-forwarded-for", &path));
    }
    headers.push(("via", b"1.1 curtail"));
    let rendered = http::Request::new(
        head.method(),
        head.path_and_query(),
        headers,
        &request.body,
        target.may_retry,
    )?;
    let mut query = Query::new(rendered);
    query.may_retry = target.may_retry;
    query.may_duplicate = target.may_duplicate;
    Ok(Forward { query })
}
