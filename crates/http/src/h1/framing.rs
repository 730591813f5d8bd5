//! Determines the length of a body and whether the connection persists, in one pass over the fields
//! of a head.

use crate::h1::token::{is_named, list, trim};

/// How the end of a body is found (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// The body has this many bytes (`Content-Length`).
    Length(u64),
    /// The body ends with its last chunk or, in HTTP/2, with its last frame.
    Chunked,
    /// The body lasts until the peer closes. Responses only.
    UntilClose,
}

/// The version of a message. Others are rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: no chunked coding, and the connection closes unless `Connection: keep-alive`.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2. Its messages have the fields of HTTP/1.1, and frames of their own.
    Http2,
}

impl Version {
    /// Returns the value of `Via` by which a proxy called `curtail` announces that it received a
    /// message of this version (RFC 9110 §7.6.3).
    pub fn via(self) -> &'static [u8] {
        match self {
            Version::Http10 => b"1.0 curtail",
            Version::Http11 => b"1.1 curtail",
            Version::Http2 => b"2.0 curtail",
        }
    }
}

/// Why the length of a body cannot be trusted (RFC 9112 §6.1–6.3). With each of these, two
/// recipients could find different messages in the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingFault {
    /// Both fields that give a length are present.
    #[error("both Content-Length and Transfer-Encoding")]
    BothLengths,
    /// There is more than one `Content-Length`, even if they agree.
    #[error("more than one Content-Length")]
    ManyLengths,
    /// `Content-Length` is not a plain decimal number below 2^64.
    #[error("Content-Length is not a decimal number below 2^64")]
    BadLength,
    /// An HTTP/1.0 message has `Transfer-Encoding`.
    #[error("Transfer-Encoding in HTTP/1.0")]
    CodingInHttp10,
    /// `Transfer-Encoding` does not end in exactly one `chunked`.
    #[error("Transfer-Encoding does not end in exactly one chunked")]
    NotChunkedLast,
    /// There is a coding other than `chunked`, and `chunked` is in its proper place.
    #[error("transfer coding other than chunked")]
    UnknownCoding,
}

/// What the fields of one head say about framing and persistence.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Digest {
    length: Option<Result<u64, FramingFault>>,
    codings: Codings,
    close: bool,
    keep_alive: bool,
    /// `Connection` names other fields.
    pub(crate) connection_names: bool,
    /// Number of `Host` fields.
    pub(crate) hosts: usize,
    /// Index of the first `Host` field.
    pub(crate) host: Option<usize>,
    /// `Expect: 100-continue`.
    pub(crate) expects_continue: bool,
}

/// The codings of all `Transfer-Encoding` fields, as one list.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Codings {
    present: bool,
    chunked: u32,
    others: u32,
    chunked_last: bool,
}

impl Digest {
    /// Reads the next field, if it matters here. `at` is its index.
    pub(crate) fn read(&mut self, at: usize, name: &[u8], value: &[u8]) {
        // The length of the name rules out nearly every field before a comparison.
        match name.len() {
            4 if is_named(name, b"host") => {
                self.hosts += 1;
                self.host = self.host.or(Some(at));
            }
            6 if is_named(name, b"expect") => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            }
            10 if is_named(name, b"connection") => self.connection(value),
            14 if is_named(name, b"content-length") => {
                self.length = Some(match self.length {
                    Some(_) => Err(FramingFault::ManyLengths),
                    None => decimal(trim(value)).ok_or(FramingFault::BadLength),
                });
            }
            17 if is_named(name, b"transfer-encoding") => self.codings.add(value),
            _ => {}
        }
    }

    fn connection(&mut self, value: &[u8]) {
        for option in list(value) {
            if is_named(option, b"close") {
                self.close = true;
            } else if is_named(option, b"keep-alive") {
                self.keep_alive = true;
            } else if !option.is_empty() {
                self.connection_names = true;
            }
        }
    }

    /// The framing that the fields declare; `None` if they declare none.
    pub(crate) fn framing(&self, version: Version) -> Result<Option<Framing>, FramingFault> {
        let codings = self.codings;
        if !codings.present {
            return Ok(self.length.transpose()?.map(Framing::Length));
        }
        if self.length.is_some() {
            return Err(FramingFault::BothLengths);
        }
        if version == Version::Http10 {
            return Err(FramingFault::CodingInHttp10);
        }
        if codings.chunked != 1 || !codings.chunked_last {
            return Err(FramingFault::NotChunkedLast);
        }
        if codings.others > 0 {
            return Err(FramingFault::UnknownCoding);
        }
        Ok(Some(Framing::Chunked))
    }

    /// Returns whether the sender keeps the connection open after this message (RFC 9112 §9.3).
    pub(crate) fn persists(&self, version: Version) -> bool {
        !self.close && (version != Version::Http10 || self.keep_alive)
    }
}

impl Codings {
    fn add(&mut self, value: &[u8]) {
        self.present = true;
        for coding in list(value) {
            self.chunked_last = is_named(coding, b"chunked");
            if self.chunked_last {
                self.chunked = self.chunked.saturating_add(1);
            } else {
                self.others = self.others.saturating_add(1);
            }
        }
    }
}

/// A number of digits only, below 2^64: no sign, no list, not empty.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    let (first, rest) = digits.split_first()?;
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    rest.iter()
        .try_fold(digit(first)?, |number, byte| number.checked_mul(10)?.checked_add(digit(byte)?))
}
