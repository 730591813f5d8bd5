//! Which bytes may stand where (RFC 9110 §5.5, §5.6.2).

/// True for the bytes of a token: method and field names.
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// True if `bytes` is a token: not empty, token bytes only.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().fold(true, |fine, &byte| fine & is_token_byte(byte))
}

/// True if `bytes` may be a field value: visible ASCII, spaces, tabs and obs-text; no control byte.
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    // Without an early exit, so that it compiles to vector instructions: values are nearly always
    // fine.
    bytes.iter().fold(true, |fine, &byte| fine & ((byte >= b' ' && byte != 0x7f) | (byte == b'\t')))
}

/// `bytes` without the spaces and tabs around it.
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = bytes.iter().position(|byte| !blank(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &bytes[start..end]
}

/// The elements of a comma-separated list, trimmed; empty ones are kept.
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim)
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_'
            )
            || matches!(b, b'`' | b'|' | b'~');
        byte += 1;
    }
    table
};
