//! A key that the processes of a system share, so that a call's metadata shows that one of them wrote it.
//!
//! Source: HMAC-SHA-256 (RFC 2104), cut to 128 bits (§5). A member that was seen on the wire can be sent again: the key
//! keeps out those who do not have it, and encryption of the connections keeps out those who listen.
//!
//! Cost: about 1 µs of CPU time per member, written or read.

use std::fmt::{self, Write as _};

use ring::hmac;

/// Hexadecimal digits of a tag.
const TAG_DIGITS: usize = 32;

/// A key of at least [`MemberKey::BYTES_MIN`] bytes. Its `Debug` does not show it.
#[derive(Clone)]
pub struct MemberKey(hmac::Key);

impl MemberKey {
    /// Fewer bytes can be guessed.
    pub const BYTES_MIN: usize = 16;

    /// None where there are too few bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= Self::BYTES_MIN).then(|| Self(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    fn tag(&self, text: &str) -> String {
        let tag = hmac::sign(&self.0, text.as_bytes());
        let mut digits = String::with_capacity(TAG_DIGITS);
        for byte in &tag.as_ref()[..TAG_DIGITS / 2] {
            // Writing into a string does not fail.
            let _ = write!(digits, "{byte:02x}");
        }
        digits
    }

    /// Appends the tag of a member's value, which begins at `from`, as a further field.
    pub(super) fn sign(&self, member: &mut String, from: usize) {
        let tag = self.tag(&member[from..]);
        member.push(':');
        member.push_str(&tag);
    }

    /// Is the last field of a value the tag of what precedes it?
    pub(super) fn has_signed(&self, value: &str) -> bool {
        let Some((text, tag)) = value.rsplit_once(':') else { return false };
        let ours = self.tag(text);
        // In a time that does not depend on where they differ.
        let differ = |sum, (a, b): (u8, u8)| sum | (a ^ b);
        ours.len() == tag.len() && ours.bytes().zip(tag.bytes()).fold(0, differ) == 0
    }
}

impl fmt::Debug for MemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemberKey")
    }
}

impl PartialEq for MemberKey {
    fn eq(&self, other: &Self) -> bool {
        self.tag("") == other.tag("")
    }
}
