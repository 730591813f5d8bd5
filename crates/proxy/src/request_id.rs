//! The value of `X-Request-Id`, by which the log lines of all programs that handle a request can be
//! found.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use curtail_http::h1::RequestHead;

/// Maximum length of a client's value. Programs write the value to logs.
const BYTES_MAX: usize = 128;

/// Returns the client's value if there is exactly one valid one, and otherwise 128 random bits.
pub(crate) fn of(head: &RequestHead) -> Cow<'_, [u8]> {
    let mut values = head.values("x-request-id");
    match (values.next(), values.next()) {
        (Some(value), None) if is_valid(value) => Cow::Borrowed(value),
        _ => {
            // The keys of the standard hasher are random.
            let random = || RandomState::new().build_hasher().finish();
            Cow::Owned(format!("{:016x}{:016x}", random(), random()).into_bytes())
        }
    }
}

/// Returns whether a value has only characters that UUIDs, hexadecimal numbers and Base64 use, so
/// that it needs no escapes in logs.
fn is_valid(value: &[u8]) -> bool {
    let fine = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=:".contains(byte);
    (1..=BYTES_MAX).contains(&value.len()) && value.iter().all(fine)
}
