//! The address and protocol of the server.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::plan::error::PlanError;

/// The protocol prefix of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP/1.1, or HTTP/2 if the plan selects it.
    Http,
    /// HTTP over TLS.
    Https,
    /// gRPC over HTTP/2.
    Grpc,
    /// gRPC over TLS.
    Grpcs,
    /// The text protocol of memcached.
    Memcached,
    /// RESP2, the protocol of Redis and many compatible servers.
    Redis,
    /// Raw bytes in both directions.
    Tcp,
    /// Datagrams that the server echoes.
    Udp,
}

/// Scheme names and default ports.
const SCHEMES: [(Scheme, &str, Option<u16>); 8] = [
    (Scheme::Http, "http", Some(80)),
    (Scheme::Https, "https", Some(443)),
    (Scheme::Grpc, "grpc", None),
    (Scheme::Grpcs, "grpcs", None),
    (Scheme::Memcached, "memcached", Some(11211)),
    (Scheme::Redis, "redis", Some(6379)),
    (Scheme::Tcp, "tcp", None),
    (Scheme::Udp, "udp", None),
];

impl Scheme {
    /// The prefix before `://`.
    pub fn name(self) -> &'static str {
        SCHEMES[self as usize].1
    }

    /// Whether this is HTTP, with or without TLS.
    pub fn is_http(self) -> bool {
        matches!(self, Scheme::Http | Scheme::Https)
    }

    /// Whether this is gRPC, with or without TLS.
    pub fn is_grpc(self) -> bool {
        matches!(self, Scheme::Grpc | Scheme::Grpcs)
    }

    /// Whether a connection may have many requests in flight, with responses in the same order.
    pub(crate) fn is_pipelined(self) -> bool {
        matches!(self, Scheme::Memcached | Scheme::Redis | Scheme::Tcp)
    }

    /// Whether the protocol runs over TLS.
    pub fn is_tls(self) -> bool {
        matches!(self, Scheme::Https | Scheme::Grpcs)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An address of the form `SCHEME://HOST:PORT/path`.
///
/// - `http` and `https`: the query string is optional. The default port is 80 or 443, the default
///   path `/`.
/// - `grpc` and `grpcs`: the path is the method, `/package.Service/Method`.
/// - `memcached` (port 11211), `redis` (port 6379), `tcp` and `udp`: no path.
///
/// ```
/// let target: curtail_load::Target = "http://127.0.0.1:8080/search?q=tail".parse()?;
/// assert_eq!(target.authority(), "127.0.0.1:8080");
/// assert_eq!(target.path(), "/search?q=tail");
/// # Ok::<(), curtail_load::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Target {
    scheme: Scheme,
    /// The host, without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// The path, which is empty for protocols without paths.
    path: String,
}

impl Target {
    /// The protocol.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host: a name or an address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, 1 to 65535.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The request target: path and query string, starting with `/`; for gRPC the method. Empty for
    /// protocols without paths.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `HOST:PORT`, as in a `Host` header.
    pub fn authority(&self) -> String {
        let Target { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority(), self.path)
    }
}

impl From<Target> for String {
    fn from(target: Target) -> String {
        target.to_string()
    }
}

impl TryFrom<String> for Target {
    type Error = PlanError;

    fn try_from(text: String) -> Result<Target, PlanError> {
        text.parse()
    }
}

impl FromStr for Target {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Target, PlanError> {
        let refuse = |why: &str| PlanError::Value(format!("`{text}`{why}"));
        let (scheme, default_port, rest) = text
            .split_once("://")
            .and_then(|(text, rest)| {
                let named = |(_, name, _): &(_, &str, _)| name.eq_ignore_ascii_case(text);
                let (scheme, _, port) = SCHEMES.into_iter().find(named)?;
                Some((scheme, port, rest))
            })
            .ok_or_else(|| refuse(" does not begin with http://; write http://HOST:PORT/path, or one of https://, grpc://, \
                     grpcs://, memcached://, redis://, tcp:// and udp://"))?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(match scheme {
                Scheme::Redis => refuse(
                    ": a name or password before the host is not supported; write AUTH PASSWORD as the first \
                     query, and use one connection",
                ),
                _ => refuse(": a name or password before the host is not supported; use a header"),
            });
        }
        let (host, port) = split_port(authority);
        if is_bare_ipv6(authority) {
            return Err(refuse(": write an IPv6 address in [ ], such as http://[::1]:9100/"));
        }
        if host.is_empty() {
            return Err(refuse(
                " has no host; write it after the ://, such as http://HOST:PORT/path",
            ));
        }
        let host = clean_host(host).ok_or_else(|| {
            refuse(
                ": the host may contain letters, digits, `.`, `-` and `_`, or be an IPv6 address \
                 in []",
            )
        })?;
        let port = match port {
            None | Some("") => default_port.ok_or_else(|| {
                refuse(" has no port; write it after the host, such as HOST:9000")
            })?,
            Some(port) => parse_port(port)
                .ok_or_else(|| refuse(": the port is not a number from 1 to 65535"))?,
        };
        let path = clean_path(scheme, path, text)?;
        Ok(Target { scheme, host: host.to_owned(), port, path })
    }
}

const NO_METHOD: &str = " names no method; write grpc://HOST:PORT/package.Service/Method";

fn clean_path(scheme: Scheme, path: &str, text: &str) -> Result<String, PlanError> {
    let refuse = |why: &str| PlanError::Value(format!("`{text}`{why}"));
    if path.contains('#') {
        return Err(refuse(
            ": a fragment (#) is never sent to a server; leave it out, or write %23",
        ));
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refuse(
            ": the path contains a character that must be percent-encoded, such as a space",
        ));
    }
    if scheme.is_http() {
        let slash = if path.starts_with('/') { "" } else { "/" };
        return Ok(format!("{slash}{path}"));
    }
    if scheme.is_grpc() {
        let parts: Vec<&str> = path.split('/').collect();
        let [_, service, method] = parts[..] else {
            return Err(refuse(NO_METHOD));
        };
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let named = |name: &str| !name.is_empty() && name.bytes().all(fine);
        return if named(service) && named(method) {
            Ok(path.to_owned())
        } else {
            Err(refuse(NO_METHOD))
        };
    }
    if matches!(path, "" | "/") {
        Ok(String::new())
    } else {
        Err(refuse(&format!(
            ": {scheme} URLs have no path; write {scheme}://HOST:PORT, and the request with --data"
        )))
    }
}

/// Splits `HOST:PORT`. Ignores the colons of a bracketed IPv6 address.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    let after_host = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority[after_host..].find(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(after_host + colon);
            (host, Some(&port[1..]))
        }
        None => (authority, None),
    }
}

/// Whether the text consists of hexadecimal groups with more than one colon, so that it cannot be
/// `HOST:PORT`.
fn is_bare_ipv6(authority: &str) -> bool {
    let of_groups = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
    authority.bytes().all(of_groups) && authority.matches(':').count() > 1
}

/// Returns the host without brackets, if it is valid.
fn clean_host(host: &str) -> Option<&str> {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.strip_suffix(']').filter(|inner| inner.parse::<Ipv6Addr>().is_ok());
    }
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    host.bytes().all(fine).then_some(host)
}

/// Parses a port. Allows only digits, because `u16::from_str` accepts a sign.
fn parse_port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}
