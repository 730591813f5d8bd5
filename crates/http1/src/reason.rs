//! Reason phrases.

/// The reason phrase of a status code (RFC 9110 §15, RFC 5842, RFC 6585); "Unknown" if it has none here.
/// Phrases carry no meaning: those received from a peer are not passed on.
pub fn reason_phrase(status: u16) -> &'static str {
    let known = http::StatusCode::from_u16(status).ok();
    known.and_then(|status| status.canonical_reason()).unwrap_or("Unknown")
}
