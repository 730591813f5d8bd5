//! The first bytes of a server: who answers?

/// What is known from the first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// Too few to tell.
    Unknown,
    Http1,
    Http2,
    /// A record of TLS that says no.
    Tls,
    /// None of them.
    Other,
}

/// What every answer of HTTP/1 begins with.
const HTTP1: &[u8] = b"HTTP/1.";
/// An alert of TLS (RFC 8446 §5.1).
const ALERT: &[u8] = &[21, 3];
/// Of a frame (RFC 9113 §4.1): the type, behind a length of 3 bytes; that of SETTINGS, which comes
/// first (§3.4), is 4.
const TYPE_AT: usize = 3;
const SETTINGS: u8 = 4;

impl Greeting {
    pub(crate) fn of(bytes: &[u8]) -> Greeting {
        for (start, greeting) in [(HTTP1, Greeting::Http1), (ALERT, Greeting::Tls)] {
            let known = bytes.len().min(start.len());
            if bytes[..known] == start[..known] {
                return if known == start.len() { greeting } else { Greeting::Unknown };
            }
        }
        match bytes.get(TYPE_AT) {
            // A frame of SETTINGS is short.
            _ if bytes[0] != 0 => Greeting::Other,
            None => Greeting::Unknown,
            Some(&SETTINGS) => Greeting::Http2,
            Some(_) => Greeting::Other,
        }
    }
}
