//! Where requests go.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::error::TargetError;

/// An address of the form `http://HOST:PORT/path`, with or without a query string. Without a port
/// it is 80, without a path `/`.
///
/// ```
/// let target: curtail_load::Target = "http://127.0.0.1:8080/search?q=tail".parse()?;
/// assert_eq!(target.authority(), "127.0.0.1:8080");
/// assert_eq!(target.path(), "/search?q=tail");
/// # Ok::<(), curtail_load::TargetError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    path: String,
}

impl Target {
    /// The host: a name or an address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, 1 to 65535.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The request target: path and query string, beginning with `/`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `HOST:PORT`, as a `Host` header has it.
    #[must_use]
    pub fn authority(&self) -> String {
        let Target { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let shown = || text.to_owned();
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
                return Err(TargetError::Https(shown()));
            }
            _ => return Err(TargetError::Scheme(shown())),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(TargetError::UserInfo(shown()));
        }
        let (host, port) = split_port(authority);
        if host.is_empty() {
            return Err(TargetError::NoHost(shown()));
        }
        let host = clean_host(host).ok_or_else(|| TargetError::BadHost(shown()))?;
        let port = match port {
            None | Some("") => 80,
            Some(port) => parse_port(port).ok_or_else(|| TargetError::BadPort(shown()))?,
        };
        if path.contains('#') {
            return Err(TargetError::Fragment(shown()));
        }
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TargetError::BadPath(shown()));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Target { host: host.to_owned(), port, path: format!("{slash}{path}") })
    }
}

/// Host and port of `HOST:PORT`; the colons of an IPv6 address in brackets are not its end.
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

/// The host without brackets, if it is one.
fn clean_host(host: &str) -> Option<&str> {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.strip_suffix(']').filter(|inner| inner.parse::<Ipv6Addr>().is_ok());
    }
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    host.bytes().all(fine).then_some(host)
}

/// A port: digits only, for `u16::from_str` would take a sign.
fn parse_port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}
