//! Addresses as people write them: `IP:PORT`, `NAME:PORT` or `unix:/PATH`.
//!
//! An address is only text until [`Address::resolve`] looks its name up. The system decides what a
//! name means, `localhost` included.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;
use std::str::FromStr;

use crate::endpoint::Endpoint;

/// The maximum length of a host name (RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 253;
/// The maximum length of the path of a Unix socket: `sun_path` without the zero at its end.
const PATH_BYTES_MAX: usize = 107;

/// An address from a configuration or a command line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A TCP port of a host.
    Tcp {
        /// An IP address without brackets, or a name.
        host: String,
        /// The port. A listener on port 0 gets a free port from the system.
        port: u16,
    },
    /// A Unix socket in the file system.
    Unix(PathBuf),
}

/// Why a text is not an [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address `{text}`: {problem}")]
pub struct AddressError {
    text: String,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("has no port; append one, as in `localhost:8080`")]
    NoPort,
    #[error("port `{0}` is not a number from 0 to 65535; write digits without leading zeros")]
    Port(String),
    #[error("starts with a scheme; write only `HOST:PORT`")]
    Scheme,
    #[error("has no host; write `0.0.0.0:PORT`, `[::]:PORT` or `NAME:PORT`")]
    NoHost,
    #[error("an IPv6 address needs brackets; write `[ADDRESS]:PORT`")]
    Brackets,
    #[error("`{0}` is not an IPv6 address; write one such as `[::1]:80`")]
    Ipv6(String),
    #[error("`{0}` is not an IPv4 address; write four numbers from 0 to 255, or a name")]
    Ipv4(String),
    #[error(
        "host contains `{0}`; use only letters, digits, `-`, `_` and single dots between labels"
    )]
    HostCharacter(String),
    #[error("host has {0} bytes; use at most {HOST_BYTES_MAX}")]
    HostLength(usize),
    #[error("has no path; write `unix:/run/NAME.sock`")]
    NoPath,
    #[error("path contains a zero byte; remove it")]
    PathZero,
    #[error("path has {0} bytes; use at most {PATH_BYTES_MAX}")]
    PathLength(usize),
    #[error("abstract sockets are not supported; write a path such as `unix:/run/NAME.sock`")]
    Abstract,
}

impl Address {
    /// Parses `IP:PORT`, `[IPV6]:PORT`, `NAME:PORT` or `unix:PATH`.
    ///
    /// # Errors
    ///
    /// The text has another form, or its host, port or path is not valid.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        let parsed = match text.strip_prefix("unix:") {
            Some(path) => unix(path),
            None => tcp(text),
        };
        parsed.map_err(|problem| AddressError { text: text.to_owned(), problem })
    }

    /// Returns the host without brackets, or none for a Unix socket.
    pub fn host(&self) -> Option<&str> {
        match self {
            Address::Tcp { host, .. } => Some(host),
            Address::Unix(_) => None,
        }
    }

    /// Looks the name up and returns its endpoints without duplicates, in the resolver's order
    /// (RFC 6724). An IP address or a path needs no lookup.
    ///
    /// # Errors
    ///
    /// The name does not exist, has no address, or cannot be resolved now. The error contains the
    /// address.
    pub async fn resolve(&self) -> io::Result<Vec<Endpoint>> {
        let (host, port) = match self {
            Address::Unix(path) => return Ok(vec![Endpoint::Unix(path.clone())]),
            Address::Tcp { host, port } => (host, *port),
        };
        if let Ok(address) = self.to_string().parse::<SocketAddr>() {
            return Ok(vec![Endpoint::Ip(address)]);
        }
        let failed = |kind, why: &dyn fmt::Display| {
            io::Error::new(kind, format!("address `{self}`: host `{host}` is not resolved: {why}"))
        };
        let found = tokio::net::lookup_host((host.as_str(), port)).await;
        let mut endpoints = Vec::new();
        for address in found.map_err(|error| failed(error.kind(), &error))? {
            let endpoint = Endpoint::Ip(address);
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
        if endpoints.is_empty() {
            return Err(failed(io::ErrorKind::NotFound, &"it has no address"));
        }
        Ok(endpoints)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        Address::parse(text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn unix(path: &str) -> Result<Address, Problem> {
    match path.len() {
        0 => Err(Problem::NoPath),
        _ if path.starts_with('@') => Err(Problem::Abstract),
        _ if path.contains('\0') => Err(Problem::PathZero),
        length if length > PATH_BYTES_MAX => Err(Problem::PathLength(length)),
        _ => Ok(Address::Unix(path.into())),
    }
}

fn tcp(text: &str) -> Result<Address, Problem> {
    if text.contains("://") {
        return Err(Problem::Scheme);
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(inside) => {
            let (host, after) = inside.split_once(']').ok_or(Problem::Brackets)?;
            if format!("[{host}]:0").parse::<SocketAddrV6>().is_err() {
                return Err(Problem::Ipv6(host.to_owned()));
            }
            (host, after.strip_prefix(':').ok_or(Problem::NoPort)?)
        }
        None => {
            let (host, port) = text.rsplit_once(':').ok_or(Problem::NoPort)?;
            check_host(host)?;
            (host, port)
        }
    };
    let number = port.parse::<u16>().ok().filter(|number| number.to_string() == port);
    let port = number.ok_or_else(|| Problem::Port(port.to_owned()))?;
    Ok(Address::Tcp { host: host.to_owned(), port })
}

/// Checks an IPv4 address or a name. A name whose last label is a number is an IPv4 address with a
/// mistake: resolvers read `10.1` as `10.0.0.1`.
fn check_host(host: &str) -> Result<(), Problem> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // The dot at the end of an absolute name.
    let name = host.strip_suffix('.').unwrap_or(host);
    let last = name.rsplit('.').next().unwrap_or_default();
    if host.is_empty() {
        return Err(Problem::NoHost);
    }
    if host.contains(':') {
        return Err(Problem::Brackets);
    }
    if host.len() > HOST_BYTES_MAX {
        return Err(Problem::HostLength(host.len()));
    }
    if let Some(found) = host.chars().find(|c| !allowed(*c)) {
        return Err(Problem::HostCharacter(found.to_string()));
    }
    if name.split('.').any(str::is_empty) {
        return Err(Problem::HostCharacter("..".to_owned()));
    }
    if last.bytes().all(|byte| byte.is_ascii_digit()) && host.parse::<Ipv4Addr>().is_err() {
        return Err(Problem::Ipv4(host.to_owned()));
    }
    Ok(())
}
