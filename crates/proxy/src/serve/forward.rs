//! Renders a client's request for the replicas.

use std::borrow::Cow;
use std::net::IpAddr;

use curtail_http::grpc::{PREVIOUS_ATTEMPTS, TIMEOUT};
use curtail_http::h1::{Joined, Relayed, Rendered, RequestHead, Version, WriteError};
use curtail_net::{Endpoint, Stream};
use curtail_runtime::http::{Commit, Payload};
use curtail_runtime::{Query, http};

use crate::config;
use crate::cost::Cost;
use crate::request_id;
use crate::route::Target;
use crate::sidecar::Fields;

use super::tunnel::{Upgrade, WEBSOCKET_KEY};

/// What `Via` calls every proxy of this kind.
const PSEUDONYM: &[u8] = b"curtail";

/// More proxies of this kind than this are not in a row, but in a circle.
const PASSED_MAX: usize = 16;

/// The two addresses of a client's connection, as far as they are known, and its protocol.
#[derive(Debug)]
pub(super) struct PeerAddrs {
    pub(super) client: Option<IpAddr>,
    /// The client's, as text: every request of the connection carries it.
    forwarded_for: String,
    proxy: Option<Endpoint>,
    /// `http` or `https`.
    proto: &'static str,
    version: Version,
    /// The fields that are added to a request of this version without `X-Forwarded-For`.
    usual: Option<Rendered>,
}

impl PeerAddrs {
    pub(super) fn of(stream: &Stream, version: Version) -> Self {
        let client = stream.peer().and_then(|peer| peer.ip());
        Self::new(client, stream.local(), if stream.is_tls() { "https" } else { "http" }, version)
    }

    fn new(
        client: Option<IpAddr>,
        proxy: Option<Endpoint>,
        proto: &'static str,
        version: Version,
    ) -> Self {
        let forwarded_for = client.map(|client| client.to_string()).unwrap_or_default();
        let mut peer = Self { client, forwarded_for, proxy, proto, version, usual: None };
        peer.usual = peer.render(peer.forwarded_for.as_bytes(), version).ok();
        peer
    }

    /// Renders the fields that are added to a request.
    fn render(&self, forwarded_for: &[u8], version: Version) -> Result<Rendered, WriteError> {
        let path = self.client.map(|_| (&b"x-forwarded-for"[..], forwarded_for));
        let proto = (&b"x-forwarded-proto"[..], self.proto.as_bytes());
        Rendered::new(path.into_iter().chain([proto, (&b"via"[..], version.via())]))
    }
}

/// Does `Via` name proxies like this one so often that they must send to each other in a circle
/// (RFC 9110 §7.6.3)?
pub(super) fn is_looping(head: &RequestHead) -> bool {
    let hops = head.values("via").flat_map(|value| value.split(|&byte| byte == b','));
    // The version of the protocol comes first.
    let names = hops.filter_map(|hop| hop.trim_ascii().split(u8::is_ascii_whitespace).nth(1));
    names.filter(|name| name.eq_ignore_ascii_case(PSEUDONYM)).count() > PASSED_MAX
}

/// A request from a client.
pub(super) struct Message<'a> {
    pub(super) head: &'a RequestHead,
    pub(super) body: Payload,
    pub(super) upgrade: Option<&'a Upgrade>,
}

/// Renders the request once, for all of its copies.
///
/// Fields that are about the client's connection stay behind (RFC 9110 §7.6.1). The client's address
/// joins `X-Forwarded-For`, and `Via` says that we passed it on (RFC 9110 §7.6.3). The client's
/// `X-Forwarded-Proto` is replaced, because replicas may trust it. A call of gRPC loses the fields
/// that each copy states anew ([`http::Call`]). `fields` has what a sidecar changes.
pub(super) fn render(
    message: Message<'_>,
    target: &Target,
    service: &config::Service,
    peer: &PeerAddrs,
    fields: &Fields,
) -> Result<Query<http::Request>, WriteError> {
    let Message { head, body, upgrade } = message;
    // An absolute target names the host, and `Host` must not contradict it (RFC 9112 §3.2.2). A request
    // that names none is for the host that it reached, which is this one (RFC 9112 §3.3).
    let here: String;
    let authority = match (head.authority().filter(|host| !host.is_empty()), &peer.proxy) {
        (Some(authority), _) => authority,
        (None, Some(proxy)) => {
            here = proxy.to_string();
            here.as_bytes()
        }
        (None, None) => &[],
    };
    let path = path(head, peer);
    let id = service.request_id.then(|| request_id::of(head));
    // Some servers take `_` for `-`.
    let is_proto =
        |(byte, of): (&u8, &u8)| byte.eq_ignore_ascii_case(of) || (byte, of) == (&b'_', &b'-');
    // Every copy of a call states these fields anew.
    let is_grpc = service.settings.grpc;
    // The length rules out most fields before any comparison.
    let replaced = |name: &[u8]| match name.len() {
        4 => name.eq_ignore_ascii_case(b"host"),
        12 => {
            id.is_some() && name.eq_ignore_ascii_case(b"x-request-id")
                || is_grpc && name.eq_ignore_ascii_case(TIMEOUT.as_str().as_bytes())
        }
        15 => name.eq_ignore_ascii_case(b"x-forwarded-for"),
        17 => name.iter().zip(b"x-forwarded-proto").all(is_proto),
        26 => is_grpc && name.eq_ignore_ascii_case(PREVIOUS_ATTEMPTS.as_str().as_bytes()),
        _ => false,
    };
    let keep = |name: &[u8]| !replaced(name) && fields.keeps(name);
    let relayed = Joined([(&b"host"[..], authority)], Relayed { fields: head, keep });
    let id = id.as_deref().map(|id| (&b"x-request-id"[..], id));
    let other: Rendered;
    let ours = match &peer.usual {
        Some(usual) if matches!(path, Cow::Borrowed(_)) && head.version() == peer.version => usual,
        _ => {
            other = peer.render(&path, head.version())?;
            &other
        }
    };
    let key = upgrade.and_then(Upgrade::new_key);
    let key = key.as_deref().map(|key| (WEBSOCKET_KEY.as_bytes(), key.as_bytes()));
    let added = fields.added().filter(|(name, _)| !replaced(name)).chain(id).chain(key);
    let headers = Joined(Joined(relayed, added), ours);
    let is_whole = body.is_whole();
    let rendered = http::Request::new(
        head.method(),
        &target.path_and_query(head),
        headers,
        body,
        target.idempotent,
    )?;
    let rendered = match (upgrade, target.commit) {
        (Some(upgrade), _) => rendered.upgrading(&upgrade.protocol),
        (None, Commit::Head) => rendered,
        (None, commit) => rendered.committing(commit),
    };
    let mut query = Query::new(rendered);
    query.may_retry = target.idempotent && is_whole && upgrade.is_none();
    query.may_duplicate = query.may_retry;
    let said = service.cost_hint.as_deref().and_then(|name| Cost::read(head.values(name)));
    query.cost_hint = said.or(target.cost).map(Cost::hint);
    Ok(query)
}

/// The value of `X-Forwarded-For`: what came, and the client.
fn path<'p>(head: &RequestHead, peer: &'p PeerAddrs) -> Cow<'p, [u8]> {
    let mut path = Vec::new();
    for value in head.values("x-forwarded-for").filter(|value| !value.is_empty()) {
        path.extend_from_slice(value);
        path.extend_from_slice(b", ");
    }
    if path.is_empty() {
        return Cow::Borrowed(peer.forwarded_for.as_bytes());
    }
    path.extend_from_slice(peer.forwarded_for.as_bytes());
    Cow::Owned(path)
}

#[cfg(test)]
mod tests {
    use curtail_http::h1::server::Connection;
    use curtail_http::h1::{Limits, Timeouts};
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::route::Router;

    const CONFIG: &str = r#"
        [[service]]
        name = "a"
        slots = 1
        cost_hint = { header = "X-Cost" }
        route = [{ path_prefix = "/" }, { path_prefix = "/sum", cost = 3 }]

        [[service.shard]]
        name = "0"
        replicas = ["127.0.0.1:9001"]
    "#;

    /// The cost hint that the kernel gets with this request.
    async fn hint(target: &str, fields: &str) -> Option<u64> {
        let config = config::parse("test", CONFIG).expect("a configuration");
        let (mut client, stream) = tokio::io::duplex(1_000);
        let text = format!("GET {target} HTTP/1.1\r\nhost: x\r\n{fields}\r\n");
        client.write_all(text.as_bytes()).await.expect("room");
        let mut connection = Connection::new(stream, Limits::default(), Timeouts::default());
        let request = connection.next_request().await.expect("a good one").expect("one");
        let head = &request.head;
        let router = Router::new(&config);
        let target = router.route(head.method(), head.path_and_query(), |name| head.values(name));
        let peer = PeerAddrs::new(None, None, "http", Version::Http11);
        let (service, fields) = (&config.services[0], Fields::default());
        let message = Message { head, body: request.body.clone().into(), upgrade: None };
        let query = render(message, &target.expect("a target"), service, &peer, &fields);
        query.expect("it can be relayed").cost_hint.map(u64::from)
    }

    #[tokio::test]
    async fn the_header_tells_what_a_request_costs_or_else_its_route() {
        for (target, fields, cost) in [
            ("/a", "", None),
            ("/a", "x-cost: 0.5\r\n", Some(500_000)),
            ("/a", "X-COST: lots\r\n", None),
            ("/sum", "", Some(3_000_000)),
            ("/sum", "x-cost: 2\r\n", Some(2_000_000)),
            ("/sum", "x-cost: lots\r\n", Some(3_000_000)),
            ("/sum", "x-cost: 2\r\nx-cost: 4\r\n", Some(3_000_000)),
        ] {
            assert_eq!(hint(target, fields).await, cost, "{target} {fields:?}");
        }
    }
}
