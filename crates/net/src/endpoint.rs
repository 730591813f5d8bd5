//! One end of a connection: a socket address or the path of a Unix socket.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Where a socket is bound, or where it connects to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// A TCP port of an IP address.
    Ip(SocketAddr),
    /// A Unix socket in the file system.
    Unix(PathBuf),
}

impl Endpoint {
    /// Returns the IP address, or none for a Unix socket. Returns an IPv4 address that is mapped
    /// into IPv6 (`::ffff:192.0.2.1`) as the IPv4 address, so that it matches rules for IPv4. A
    /// listener on `[::]` reports such addresses.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Endpoint::Ip(address) => Some(address.ip().to_canonical()),
            Endpoint::Unix(_) => None,
        }
    }

    /// Converts the address of a Unix socket. Returns none for a socket without a path.
    pub(crate) fn of_unix(address: &tokio::net::unix::SocketAddr) -> Option<Endpoint> {
        address.as_pathname().map(|path| Endpoint::Unix(path.to_owned()))
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Endpoint {
        Endpoint::Ip(address)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Ip(address) => address.fmt(f),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
