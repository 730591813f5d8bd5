//! The header fields of a request or response, stored as positions in the received bytes.

use std::cmp::Ordering;

use bytes::{Bytes, BytesMut};

use crate::h1::framing::{Digest, Framing, Version};
use crate::h1::token::list;

/// Where a name and its value are in the head.
#[derive(Debug, Clone, Copy)]
struct Span {
    name: (u32, u32),
    value: (u32, u32),
}

/// The bytes of a head and its fields, in the order received. Cloning shares the bytes.
#[derive(Debug, Clone)]
pub struct Fields {
    head: Bytes,
    spans: Vec<Span>,
    /// Set if `Connection` names anything but `close` and `keep-alive`; then those names are
    /// hop-by-hop too.
    connection_names: bool,
    version: Version,
    framing: Framing,
    keep_alive: bool,
}

/// The position of `part` inside `whole`. Both are of one buffer, so this is plain arithmetic; if
/// they were not, the result is an empty range instead of a panic.
pub(crate) fn position(whole: &[u8], part: &[u8]) -> (u32, u32) {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    match start.checked_add(part.len()) {
        // Heads are shorter than 2^32 bytes: `HEAD_BYTES_MAX`.
        Some(end) if end <= whole.len() => (start as u32, end as u32),
        _ => (0, 0),
    }
}

impl Fields {
    /// The positions of `headers` within `head`, while `httparse` still borrows the buffer:
    /// [`Fields::take`] is to follow.
    pub(crate) fn new(
        head: &[u8],
        headers: &[httparse::Header<'_>],
        digest: &Digest,
        version: Version,
        framing: Framing,
    ) -> Fields {
        let span = |header: &httparse::Header<'_>| Span {
            name: position(head, header.name.as_bytes()),
            value: position(head, header.value),
        };
        Fields {
            head: Bytes::new(),
            spans: headers.iter().map(span).collect(),
            connection_names: digest.connection_names,
            version,
            framing,
            keep_alive: framing != Framing::UntilClose && digest.persists(version),
        }
    }

    /// Takes the bytes of the head off the buffer.
    pub(crate) fn take(&mut self, buf: &mut BytesMut, length: usize) {
        self.head = buf.split_to(length).freeze();
    }

    /// Marks a head that was received as HTTP/2 and that frames the body in this way.
    pub(crate) fn set_http2(&mut self, framing: Framing) {
        (self.version, self.framing, self.keep_alive) = (Version::Http2, framing, true);
    }

    /// Returns the version of the message.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns whether the connection can carry another request after this exchange (RFC 9112
    /// §9.3).
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Returns how the end of the body is found (RFC 9112 §6.3). A request never has
    /// [`Framing::UntilClose`].
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// The bytes at a position of the head.
    pub(crate) fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        self.head.get(start as usize..end as usize).unwrap_or_default()
    }

    /// As [`Fields::slice`], for a part that was checked to be ASCII.
    pub(crate) fn text(&self, position: (u32, u32)) -> &str {
        std::str::from_utf8(self.slice(position)).unwrap_or_default()
    }

    /// Returns all fields as received: names with their original case, values without surrounding
    /// white space.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.spans.iter().map(|span| (self.text(span.name), self.slice(span.value)))
    }

    /// Returns all values of the field `name`, in the order received. The case of `name` does not
    /// matter.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let is_named = |span: &&Span| self.slice(span.name).eq_ignore_ascii_case(name.as_bytes());
        self.spans.iter().filter(is_named).map(|span| self.slice(span.value))
    }

    /// Returns the first value of the field `name`, without surrounding white space. The case of
    /// `name` does not matter.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let span = self
            .spans
            .iter()
            .find(|span| self.slice(span.name).eq_ignore_ascii_case(name.as_bytes()));
        span.map(|span| self.slice(span.value))
    }

    /// Returns the fields that a proxy relays: all except the hop-by-hop ones
    /// ([`is_hop_by_hop`](crate::h1::is_hop_by_hop)) and those that `Connection` names (RFC 9110
    /// §7.6.1). `Host` is returned even if `Connection` names it.
    pub fn end_to_end(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let listed = self.listed_by_connection();
        let relayed = move |span: &&Span| {
            let name = self.slice(span.name);
            listed.binary_search_by(|other| compare(other, name)).is_err() && !is_hop_by_hop(name)
        };
        let relayed = self.spans.iter().filter(relayed);
        relayed.map(|span| (self.slice(span.name), self.slice(span.value)))
    }

    /// The names that `Connection` fields list, sorted: they are read once, not for every field.
    /// `Host` is exempt: a client must not be able to make a proxy drop the field that every request
    /// needs.
    fn listed_by_connection(&self) -> Vec<&[u8]> {
        if !self.connection_names {
            return Vec::new();
        }
        let values = self.headers().filter(|(field, _)| field.eq_ignore_ascii_case("connection"));
        let names = values.flat_map(|(_, value)| list(value));
        let mut names: Vec<&[u8]> =
            names.filter(|name| !name.eq_ignore_ascii_case(b"host")).collect();
        names.sort_unstable_by(|a, b| compare(a, b));
        names
    }
}

/// The order of names, whatever their case.
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase))
}

/// Returns whether a field concerns only one connection. A proxy never relays such fields (RFC 9110
/// §7.6.1): `Connection`, `Keep-Alive`, `Proxy-Connection`, `TE`, `Trailer`, `Transfer-Encoding`,
/// `Upgrade`, and the two `Proxy-Auth…` fields. Fields that `Connection` lists are also hop-by-hop:
/// see [`Fields::end_to_end`].
pub fn is_hop_by_hop(name: &[u8]) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    // The length rules out most fields before any comparison.
    match name.len() {
        2 => is("te"),
        7 => is("trailer") || is("upgrade"),
        10 => is("connection") || is("keep-alive"),
        16 => is("proxy-connection"),
        17 => is("transfer-encoding"),
        18 => is("proxy-authenticate"),
        19 => is("proxy-authorization"),
        _ => false,
    }
}
