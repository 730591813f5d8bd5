//! Parses and compares addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use curtail_net::Address;

/// Parses `IP:PORT` or `localhost:PORT`, where localhost is 127.0.0.1. The text of an error is a
/// predicate, followed by the fix.
pub(super) fn read(text: &str) -> Result<SocketAddr, (&'static str, String)> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Some((_, rest)) = text.split_once("://") {
        let rest = rest.split(['/', '?']).next().unwrap_or_default();
        return Err(("is a URL", format!("write the address alone, like {rest:?}")));
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        let like = SocketAddr::new(ip, 9001);
        return Err(("has no port", format!("write IP:PORT, like \"{like}\"")));
    }
    let like = "write IP:PORT or localhost:PORT, like \"127.0.0.1:9001\"".to_string();
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(("has no port", like));
    };
    let Some(port) = port.parse::<u16>().ok().filter(|_| !port.starts_with('+')) else {
        return Err(("has no port from 0 to 65535", like));
    };
    if host == "localhost" {
        return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
    }
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if host.starts_with(|c: char| c.is_ascii_alphabetic()) && host.chars().all(name) {
        return Err((
            "is a host name, and a listener needs an IP address",
            format!("write its IP address, like \"10.0.0.1:{port}\", or localhost:{port}"),
        ));
    }
    Err(("is not an address", like))
}

/// Parses the address of a replica: `IP:PORT`, `NAME:PORT` or `unix:PATH`.
pub(super) fn replica(text: &str) -> Result<Address, (&'static str, String)> {
    match Address::parse(text) {
        Ok(Address::Tcp { host, port }) => {
            // Two spellings of an IP address are the same server.
            let ip = host.parse::<IpAddr>().map(|ip| ip.to_string());
            Ok(Address::Tcp { host: ip.unwrap_or(host), port })
        }
        Ok(unix) => Ok(unix),
        Err(error) => Err(match read(text) {
            Err((wrong, fix)) if !text.starts_with("unix:") => (wrong, fix),
            _ => ("is not an address", error.to_string()),
        }),
    }
}

/// Returns the socket address, if it does not depend on a resolver.
pub(super) fn socket(address: &Address) -> Option<SocketAddr> {
    let Address::Tcp { host, port } = address else { return None };
    if host == "localhost" {
        return Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), *port));
    }
    host.parse().ok().map(|ip| SocketAddr::new(ip, *port))
}

/// Returns the other addresses that may be the same server. The system decides which of them
/// `localhost` is.
pub(super) fn aliases(address: &Address) -> impl Iterator<Item = Address> {
    let others: &[&str] = match address.host() {
        Some("localhost") => &["127.0.0.1", "::1"],
        Some("127.0.0.1" | "::1") => &["localhost"],
        _ => &[],
    };
    let port = if let Address::Tcp { port, .. } = address { *port } else { 0 };
    others.iter().map(move |&host| Address::Tcp { host: host.to_owned(), port })
}

/// Returns whether a connection to `address` reaches `listener`, judging by the addresses alone. A
/// listener on all addresses also accepts connections to loopback addresses.
pub(super) fn reaches(address: SocketAddr, listener: SocketAddr) -> bool {
    let (to, on) = (address.ip().to_canonical(), listener.ip().to_canonical());
    same_port(address, listener) && (to == on || (to.is_loopback() && covers(on, to)))
}

/// Returns whether two listeners cannot have these addresses at the same time.
pub(super) fn clash(one: SocketAddr, other: SocketAddr) -> bool {
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

    #[test]
    fn addresses_are_read() {
        for (text, address) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("localhost:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(read(text).map(|read| read.to_string()), Ok(address.to_string()));
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
            let [to, on] = [replica, listener].map(|text| read(text).expect("an address"));
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
            let [one, other] = [one, other].map(|text| read(text).expect("an address"));
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
            let (message, how) = read(text).expect_err(text);
            assert!(message.contains(wrong) && how.contains(fix), "{text}: {message}; {how}");
        }
    }
}
