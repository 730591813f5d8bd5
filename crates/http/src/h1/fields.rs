//! The header fields of a request or response, stored as positions in the received bytes.

use std::cmp::Ordering;

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use crate::h1::framing::{Digest, Framing, Version};
use crate::h1::token::{is_named, list, put_field};

/// A range of the bytes of a head. Heads are shorter than 2^32 bytes: `HEAD_BYTES_MAX`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Part {
    start: u32,
    end: u32,
}

impl Part {
    pub(crate) fn new(start: usize, end: usize) -> Part {
        Part { start: start as u32, end: end as u32 }
    }

    /// The position of `part` inside `whole`. Both are of one buffer, so this is plain arithmetic;
    /// if they were not, the result is an empty range instead of a panic.
    pub(crate) fn of(whole: &[u8], part: &[u8]) -> Part {
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        match start.checked_add(part.len()) {
            Some(end) if end <= whole.len() => Part::new(start, end),
            _ => Part::default(),
        }
    }

    /// The bytes of the part.
    pub(crate) fn slice(self, whole: &[u8]) -> &[u8] {
        whole.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// Where a name and its value are in the head.
#[derive(Debug, Clone, Copy)]
struct Span {
    name: Part,
    value: Part,
    /// Set only if the line is `name: value`, without other white space.
    plain: bool,
}

/// The bytes of a head and its fields, in the order received. Cloning shares the bytes.
#[derive(Debug, Clone)]
pub struct Fields(Box<Parsed>);

/// What [`Fields`] holds. Boxed, because heads are moved many times.
#[derive(Debug, Clone)]
struct Parsed {
    head: Bytes,
    spans: SmallVec<[Span; 16]>,
    /// Set if `Connection` names anything but `close` and `keep-alive`; then those names are
    /// hop-by-hop too.
    connection_names: bool,
    version: Version,
    framing: Framing,
    keep_alive: bool,
}

/// A part of a head, with its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'h> {
    pub(crate) part: Part,
    pub(crate) bytes: &'h [u8],
}

impl<'h> Found<'h> {
    /// Finds a part of `head` that another parser returned.
    fn of(head: &[u8], bytes: &'h [u8]) -> Self {
        Self { part: Part::of(head, bytes), bytes }
    }
}

/// The fields of a head that is being parsed.
#[derive(Debug)]
pub(crate) struct Draft {
    parsed: Box<Parsed>,
    pub(crate) digest: Digest,
}

impl Draft {
    pub(crate) fn new() -> Draft {
        let parsed = Parsed {
            head: Bytes::new(),
            spans: SmallVec::new(),
            connection_names: false,
            version: Version::Http11,
            framing: Framing::Empty,
            keep_alive: false,
        };
        Draft { parsed: Box::new(parsed), digest: Digest::default() }
    }

    /// Adds the next field of a head. `plain` states that its line is `name: value`, without other
    /// white space.
    #[inline(always)]
    pub(crate) fn add(&mut self, name: Found<'_>, value: Found<'_>, plain: bool) {
        let spans = &mut self.parsed.spans;
        self.digest.read(spans.len(), name.bytes, value.bytes);
        spans.push(Span { name: name.part, value: value.part, plain });
    }

    /// Adds the fields that httparse has found in `head`.
    pub(crate) fn add_all(&mut self, head: &[u8], headers: &[httparse::Header<'_>]) {
        for header in headers {
            let name = Found::of(head, header.name.as_bytes());
            self.add(name, Found::of(head, header.value), false);
        }
    }

    /// The value of the first `Host` field of `head`.
    pub(crate) fn host<'h>(&self, head: &'h [u8]) -> &'h [u8] {
        let span = self.digest.host.and_then(|at| self.parsed.spans.get(at));
        span.map_or(&[], |span| span.value.slice(head))
    }

    /// All names and values.
    #[cfg(test)]
    pub(crate) fn fields<'h>(&self, head: &'h [u8]) -> Vec<(&'h [u8], &'h [u8])> {
        let spans = self.parsed.spans.iter();
        spans.map(|span| (span.name.slice(head), span.value.slice(head))).collect()
    }

    /// Completes the fields with the bytes of their head.
    pub(crate) fn finish(self, head: Bytes, version: Version, framing: Framing) -> Fields {
        let Draft { mut parsed, digest } = self;
        parsed.head = head;
        parsed.connection_names = digest.connection_names;
        parsed.version = version;
        parsed.framing = framing;
        parsed.keep_alive = framing != Framing::UntilClose && digest.persists(version);
        Fields(parsed)
    }
}

impl Fields {
    /// Marks a head that was received as HTTP/2 and that frames the body in this way.
    pub(crate) fn set_http2(&mut self, framing: Framing) {
        let parsed = &mut self.0;
        (parsed.version, parsed.framing, parsed.keep_alive) = (Version::Http2, framing, true);
    }

    /// Returns whether `Connection` names anything but `close` and `keep-alive`.
    pub(crate) fn connection_names(&self) -> bool {
        self.0.connection_names
    }

    /// Returns the version of the message.
    pub fn version(&self) -> Version {
        self.0.version
    }

    /// Returns whether the connection can carry another request after this exchange (RFC 9112
    /// §9.3).
    pub fn keep_alive(&self) -> bool {
        self.0.keep_alive
    }

    /// Returns how the end of the body is found (RFC 9112 §6.3). A request never has
    /// [`Framing::UntilClose`].
    pub fn framing(&self) -> Framing {
        self.0.framing
    }

    /// The bytes of a part of the head.
    pub(crate) fn slice(&self, part: Part) -> &[u8] {
        part.slice(&self.0.head)
    }

    /// As [`Fields::slice`], for a part that was checked to be ASCII.
    pub(crate) fn text(&self, part: Part) -> &str {
        std::str::from_utf8(self.slice(part)).unwrap_or_default()
    }

    /// Returns all fields as received: names with their original case, values without surrounding
    /// white space.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.spans.iter().map(|span| (self.text(span.name), self.slice(span.value)))
    }

    /// Returns all values of the field `name`, in the order received. The case of `name` does not
    /// matter.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let is_named = |span: &&Span| self.slice(span.name).eq_ignore_ascii_case(name.as_bytes());
        self.0.spans.iter().filter(is_named).map(|span| self.slice(span.value))
    }

    /// Returns the first value of the field `name`, without surrounding white space. The case of
    /// `name` does not matter.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let span = self
            .0
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
        let relayed = move |span: &&Span| is_end_to_end(self.slice(span.name), &listed);
        let relayed = self.0.spans.iter().filter(relayed);
        relayed.map(|span| (self.slice(span.name), self.slice(span.value)))
    }

    /// Appends the lines of the end-to-end fields whose names `keep` returns true for. The parser
    /// has checked names and values.
    pub(crate) fn relay(&self, buf: &mut BytesMut, keep: impl Fn(&[u8]) -> bool) {
        let (head, listed) = (&self.0.head[..], self.listed_by_connection());
        // Lines that are relayed as they are, one after the other.
        let mut run = Part::default();
        for &Span { name: name_part, value, plain } in &self.0.spans {
            let name = name_part.slice(head);
            if !is_end_to_end(name, &listed) || !keep(name) {
                continue;
            }
            let line = Part { start: name_part.start, end: value.end + 2 };
            if plain && line.start == run.end {
                run.end = line.end;
                continue;
            }
            buf.extend_from_slice(run.slice(head));
            run = if plain { line } else { Part::default() };
            if !plain {
                put_field(buf, name, value.slice(head));
            }
        }
        buf.extend_from_slice(run.slice(head));
    }

    /// The names that `Connection` fields list, sorted: they are read once, not for every field.
    /// `Host` is exempt: a client must not be able to make a proxy drop the field that every request
    /// needs.
    fn listed_by_connection(&self) -> Vec<&[u8]> {
        if !self.0.connection_names {
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

/// Returns whether a proxy relays a field. `listed` are the names that `Connection` lists.
#[inline]
fn is_end_to_end(name: &[u8], listed: &[&[u8]]) -> bool {
    let is_listed = || listed.binary_search_by(|other| compare(other, name)).is_ok();
    !is_hop_by_hop(name) && (listed.is_empty() || !is_listed())
}

/// The order of names, whatever their case.
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase))
}

/// Returns whether a field concerns only one connection. A proxy never relays such fields (RFC 9110
/// §7.6.1): `Connection`, `Keep-Alive`, `Proxy-Connection`, `TE`, `Trailer`, `Transfer-Encoding`,
/// `Upgrade`, and the two `Proxy-Auth…` fields. Fields that `Connection` lists are also hop-by-hop:
/// see [`Fields::end_to_end`].
#[inline]
pub fn is_hop_by_hop(name: &[u8]) -> bool {
    // The length rules out most fields before any comparison.
    match name.len() {
        2 => is_named(name, b"te"),
        7 => is_named(name, b"trailer") || is_named(name, b"upgrade"),
        10 => is_named(name, b"connection") || is_named(name, b"keep-alive"),
        16 => is_named(name, b"proxy-connection"),
        17 => is_named(name, b"transfer-encoding"),
        18 => is_named(name, b"proxy-authenticate"),
        19 => is_named(name, b"proxy-authorization"),
        _ => false,
    }
}
