//! Addresses of sockets, and whether two of them are the same place.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// The address of a socket, written as `IP:PORT` or `localhost:PORT`, where localhost is 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(inline)]
pub struct Socket(#[schemars(with = "String")] SocketAddr);

/// What is wrong with a text that is not an address, and the fix. Displayed as a predicate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wrong}; {fix}")]
pub struct SocketError {
    /// What is wrong, a predicate.
    pub wrong: &'static str,
    /// The fix.
    pub fix: String,
}

impl Socket {
    /// Returns the address.
    #[must_use]
    pub const fn get(self) -> SocketAddr {
        self.0
    }
}

impl FromStr for Socket {
    type Err = SocketError;

    fn from_str(text: &str) -> Result<Self, SocketError> {
        if let Ok(address) = text.parse() {
            return Ok(Self(address));
        }
        let bad = |wrong, fix| Err(SocketError { wrong, fix });
        if let Some((_, rest)) = text.split_once("://") {
            let rest = rest.split(['/', '?']).next().unwrap_or_default();
            return bad("is a URL", format!("write the address alone, like {rest:?}"));
        }
        if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            let like = SocketAddr::new(ip, 9001);
            return bad("has no port", format!("write IP:PORT, like \"{like}\""));
        }
        let like = "write IP:PORT or localhost:PORT, like \"127.0.0.1:9001\"".to_string();
        let Some((host, port)) = text.rsplit_once(':') else {
            return bad("has no port", like);
        };
        let Some(port) = port.parse::<u16>().ok().filter(|_| !port.starts_with('+')) else {
            return bad("has no port from 0 to 65535", like);
        };
        if host == "localhost" {
            return Ok(Self(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)));
        }
        let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if host.starts_with(|c: char| c.is_ascii_alphabetic()) && host.chars().all(name) {
            return bad(
                "is a host name, not an IP address",
                format!("write its IP address, like \"10.0.0.1:{port}\", or localhost:{port}"),
            );
        }
        bad("is not an address", like)
    }
}

impl<'de> Deserialize<'de> for Socket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Socket;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address in quotes, like \"127.0.0.1:9001\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Socket, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Reader)
    }
}

/// Returns whether a connection to `address` reaches `listener`, judging by the addresses alone. A
/// listener on all addresses also accepts connections to loopback addresses.
#[must_use]
pub fn reaches(address: SocketAddr, listener: SocketAddr) -> bool {
    let (to, on) = (address.ip().to_canonical(), listener.ip().to_canonical());
    same_port(address, listener) && (to == on || (to.is_loopback() && covers(on, to)))
}

/// Returns whether two listeners cannot have these addresses at the same time.
#[must_use]
pub fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    same_port(one, other) && (a == b || covers(a, b) || covers(b, a))
}

/// Port 0 stands for any free port, so it never matches.
fn same_port(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.port() != 0
}

/// Returns whether `all` is a wildcard address that includes `ip`. `[::]` includes IPv4 addresses.
fn covers(all: IpAddr, ip: IpAddr) -> bool {
    all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> SocketAddr {
        text.parse::<Socket>().expect(text).get()
    }

    #[test]
    fn addresses_are_read() {
        for (text, address) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("localhost:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(read(text).to_string(), address);
        }
    }

    #[test]
    fn a_listener_on_all_addresses_is_on_loopback_too() {
        for (replica, listener, itself) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.2:80", "127.0.0.1:80", false),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("127.9.9.9:80", "0.0.0.0:80", true),
            ("127.0.0.1:81", "0.0.0.0:80", false),
            ("10.0.0.1:80", "0.0.0.0:80", false),
            ("[::1]:80", "0.0.0.0:80", false),
            ("[::1]:80", "[::]:80", true),
            ("127.0.0.1:80", "[::]:80", true),
            ("[::ffff:127.0.0.1]:80", "0.0.0.0:80", true),
            ("127.0.0.1:0", "0.0.0.0:0", false),
        ] {
            let [to, on] = [replica, listener].map(read);
            assert_eq!(reaches(to, on), itself, "{replica} and {listener}");
        }
    }

    #[test]
    fn listeners_on_the_same_port_clash() {
        for (one, other, wrong) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "10.0.0.1:80", true),
            ("0.0.0.0:80", "10.0.0.1:81", false),
            ("0.0.0.0:80", "[::1]:80", false),
            ("[::]:80", "0.0.0.0:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("0.0.0.0:0", "0.0.0.0:0", false),
        ] {
            let [one, other] = [one, other].map(read);
            assert_eq!((clash(one, other), clash(other, one)), (wrong, wrong), "{one} and {other}");
        }
    }

    #[test]
    fn a_wrong_address_has_a_fix() {
        for (text, wrong, fix) in [
            ("10.0.0.1", "no port", "10.0.0.1:9001"),
            ("::1", "no port", "[::1]:9001"),
            ("leaf", "no port", "IP:PORT"),
            ("leaf:x", "no port from", "IP:PORT"),
            ("10.0.0.1:70000", "no port from", "IP:PORT"),
            ("leaf-1.example:80", "host name", "10.0.0.1:80"),
            ("http://10.0.0.1:80/x", "URL", "\"10.0.0.1:80\""),
            ("10.0.0.256:80", "not an address", "IP:PORT"),
            (":80", "not an address", "IP:PORT"),
            ("", "no port", "IP:PORT"),
        ] {
            let error = text.parse::<Socket>().expect_err(text);
            assert!(error.wrong.contains(wrong) && error.fix.contains(fix), "{text}: {error}");
        }
    }
}
