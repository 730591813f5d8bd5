//! The PROXY protocol, version 2: a header with which a load balancer reports the address of the
//! client, ahead of the bytes of the connection (HAProxy, `doc/proxy-protocol.txt`, §2.2).
//!
//! [`parse`] and [`Header::to_bytes`] do no input or output. [`read`] reads the header of a stream.
//! The header is required: a server that accepts connections with and without it lets every client
//! choose its own address. Version 1 is detected and refused.
//!
//! **The verdict depends on the bytes alone, not on how they were split into reads.**

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt as _;

use crate::endpoint::Endpoint;
use crate::stream::Stream;

/// The first bytes of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The first bytes of version 1.
const VERSION_1: &[u8; 6] = b"PROXY ";
/// Signature, version and command, family and protocol, length.
const FIXED_BYTES: usize = 16;
/// The maximum length of addresses and extensions (TLVs), in bytes. The protocol permits 65535.
const VARIABLE_BYTES_MAX: usize = 4096;
/// The length of the path of a Unix socket, padded with zeros.
const PATH_BYTES: usize = 108;

const COMMAND_LOCAL: u8 = 0;
const COMMAND_PROXY: u8 = 1;
const UNSPECIFIED: u8 = 0x00;
const TCP_IPV4: u8 = 0x11;
const TCP_IPV6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;

/// What a header reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// The load balancer connected for itself, for example for a health check.
    Local,
    /// The load balancer cannot report the address of the client.
    Unknown,
    /// A client that connected over TCP.
    Ip {
        /// The client.
        source: SocketAddr,
        /// Where the client connected to.
        destination: SocketAddr,
    },
    /// A client that connected over a Unix socket.
    Unix {
        /// The socket of the client. Empty if it has no path.
        source: PathBuf,
        /// Where the client connected to.
        destination: PathBuf,
    },
}

/// The result of [`parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The header is not complete. Call again with more bytes.
    NeedsMore,
    /// The header is complete.
    Complete {
        /// What the header reports.
        header: Header,
        /// The length of the header in bytes. The bytes of the connection follow.
        length: usize,
    },
}

/// Why a connection has no usable header.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyHeaderError {
    /// The connection begins with something else.
    #[error(
        "the connection does not begin with a PROXY header; enable PROXY version 2 in the load \
         balancer, or disable it here"
    )]
    Missing,
    /// The header has the text format.
    #[error("the PROXY header has version 1; set the load balancer to version 2")]
    Version1,
    /// The header has a later version.
    #[error("the PROXY header has version {0}; set the load balancer to version 2")]
    Version(u8),
    /// The command is none of version 2.
    #[error(
        "the PROXY header has command {0}; set the load balancer to version 2, which has 0 and 1"
    )]
    Command(u8),
    /// Addresses and extensions are too long.
    #[error(
        "the PROXY header has {0} bytes of addresses and extensions, at most {VARIABLE_BYTES_MAX} \
         are accepted; remove extensions in the load balancer"
    )]
    TooLong(usize),
    /// The length is too small for the addresses.
    #[error(
        "the PROXY header has {length} bytes of addresses, but its family {family:#04x} needs {needed}; fix the sender"
    )]
    TooShort {
        /// The length in the header.
        length: usize,
        /// The byte with family and protocol.
        family: u8,
        /// The length that the family needs.
        needed: usize,
    },
    /// The peer closed the connection before the end of the header.
    #[error("the connection was closed before the end of its PROXY header")]
    Closed,
    /// The peer was too slow.
    #[error("the PROXY header was not complete after {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The transport failed.
    #[error("the PROXY header cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Reads the header of a connection. The returned stream has the client as its peer, unless the
/// header does not report one, and its reads return the bytes after the header.
///
/// # Errors
///
/// The connection has no usable header, or it is not complete within `timeout`.
pub async fn read(mut stream: Stream, timeout: Duration) -> Result<Stream, ProxyHeaderError> {
    let header = async {
        let mut input = BytesMut::with_capacity(FIXED_BYTES + VARIABLE_BYTES_MAX);
        loop {
            if let Parsed::Complete { header, length } = parse(&input)? {
                return Ok((header, input.split_off(length).freeze()));
            }
            // The longest header fits into the buffer, which therefore never grows.
            if stream.read_buf(&mut input).await? == 0 {
                return Err(ProxyHeaderError::Closed);
            }
        }
    };
    let elapsed = |_| ProxyHeaderError::Timeout(timeout);
    let (header, after) = tokio::time::timeout(timeout, header).await.map_err(elapsed)??;
    let stream = stream.with_prefix(after);
    Ok(match header.source() {
        Some(source) => stream.with_peer(source),
        None => stream,
    })
}

/// Parses a header at the start of `input`. Bytes after the header do not matter.
///
/// # Errors
///
/// The input does not begin with a usable header. More bytes do not change that.
pub fn parse(input: &[u8]) -> Result<Parsed, ProxyHeaderError> {
    let begins = |text: &[u8]| input.iter().zip(text).all(|(byte, expected)| byte == expected);
    if !begins(SIGNATURE) {
        return match (begins(VERSION_1), input.len() < VERSION_1.len()) {
            (true, true) => Ok(Parsed::NeedsMore),
            (true, false) => Err(ProxyHeaderError::Version1),
            (false, _) => Err(ProxyHeaderError::Missing),
        };
    }
    let command = match input.get(12) {
        None => return Ok(Parsed::NeedsMore),
        Some(byte) if byte >> 4 != 2 => return Err(ProxyHeaderError::Version(byte >> 4)),
        Some(byte) if byte & 15 > COMMAND_PROXY => {
            return Err(ProxyHeaderError::Command(byte & 15));
        }
        Some(byte) => byte & 15,
    };
    let Some(&[family, high, low]) = input.get(13..FIXED_BYTES) else {
        return Ok(Parsed::NeedsMore);
    };
    let variable = usize::from(u16::from_be_bytes([high, low]));
    if variable > VARIABLE_BYTES_MAX {
        return Err(ProxyHeaderError::TooLong(variable));
    }
    // The load balancer itself is the peer of a local connection, so its addresses do not matter.
    let family = if command == COMMAND_LOCAL { UNSPECIFIED } else { family };
    let needed = match family {
        TCP_IPV4 => 12,
        TCP_IPV6 => 36,
        UNIX_STREAM => 2 * PATH_BYTES,
        _ => 0,
    };
    if variable < needed {
        return Err(ProxyHeaderError::TooShort { length: variable, family, needed });
    }
    let length = FIXED_BYTES + variable;
    let Some(addresses) = input.get(FIXED_BYTES..length) else {
        return Ok(Parsed::NeedsMore);
    };
    let header = match family {
        _ if command == COMMAND_LOCAL => Header::Local,
        TCP_IPV4 => {
            Header::Ip { source: ipv4(addresses, 0, 8), destination: ipv4(addresses, 4, 10) }
        }
        TCP_IPV6 => {
            Header::Ip { source: ipv6(addresses, 0, 32), destination: ipv6(addresses, 16, 34) }
        }
        UNIX_STREAM => Header::Unix {
            source: path(&addresses[..PATH_BYTES]),
            destination: path(&addresses[PATH_BYTES..2 * PATH_BYTES]),
        },
        _ => Header::Unknown,
    };
    Ok(Parsed::Complete { header, length })
}

impl Header {
    /// Returns the client, or none if the header does not report it.
    pub fn source(&self) -> Option<Endpoint> {
        match self {
            Header::Ip { source, .. } => Some(Endpoint::Ip(*source)),
            Header::Unix { source, .. } if !source.as_os_str().is_empty() => {
                Some(Endpoint::Unix(source.clone()))
            }
            Header::Local | Header::Unknown | Header::Unix { .. } => None,
        }
    }

    /// Renders the header. If only one of two addresses is IPv4, it is mapped into IPv6. Paths are
    /// cut after 108 bytes, which is the longest that a socket can have.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut addresses = Vec::new();
        let family = match self {
            Header::Local | Header::Unknown => UNSPECIFIED,
            Header::Ip {
                source: SocketAddr::V4(source),
                destination: SocketAddr::V4(destination),
            } => {
                addresses.extend(source.ip().octets());
                addresses.extend(destination.ip().octets());
                TCP_IPV4
            }
            Header::Ip { source, destination } => {
                addresses.extend(mapped(source));
                addresses.extend(mapped(destination));
                TCP_IPV6
            }
            Header::Unix { source, destination } => {
                addresses.extend(padded(source));
                addresses.extend(padded(destination));
                UNIX_STREAM
            }
        };
        if let Header::Ip { source, destination } = self {
            addresses.extend(source.port().to_be_bytes());
            addresses.extend(destination.port().to_be_bytes());
        }
        let command = if *self == Header::Local { COMMAND_LOCAL } else { COMMAND_PROXY };
        let length = u16::try_from(addresses.len()).expect("at most 216 bytes").to_be_bytes();
        [&SIGNATURE[..], &[0x20 | command, family], &length, &addresses].concat()
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}

fn ipv4(bytes: &[u8], address: usize, port: usize) -> SocketAddr {
    let port = u16::from_be_bytes(array(bytes, port));
    SocketAddr::from((Ipv4Addr::from(array(bytes, address)), port))
}

fn ipv6(bytes: &[u8], address: usize, port: usize) -> SocketAddr {
    let port = u16::from_be_bytes(array(bytes, port));
    SocketAddr::from((Ipv6Addr::from(array::<16>(bytes, address)), port))
}

fn path(bytes: &[u8]) -> PathBuf {
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    std::ffi::OsString::from_vec(bytes[..length].to_vec()).into()
}

fn mapped(address: &SocketAddr) -> [u8; 16] {
    match address {
        SocketAddr::V4(address) => address.ip().to_ipv6_mapped().octets(),
        SocketAddr::V6(address) => address.ip().octets(),
    }
}

fn padded(path: &Path) -> [u8; PATH_BYTES] {
    let mut bytes = [0; PATH_BYTES];
    let path = path.as_os_str().as_bytes();
    let length = path.len().min(PATH_BYTES);
    bytes[..length].copy_from_slice(&path[..length]);
    bytes
}
