//! Checks tokens and field values (RFC 9110 §5.5, §5.6.2).

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
    // The last word may overlap the one before.
    let (words, last) = (bytes.as_chunks().0, bytes.last_chunk());
    if last.is_some_and(|&last| !has_control(last) && !words.iter().any(|&of| has_control(of))) {
        return true;
    }
    // Short, or with a tab, which is rare.
    bytes.iter().fold(true, |fine, &byte| fine & ((byte >= b' ' && byte != 0x7f) | (byte == b'\t')))
}

/// True if one of eight bytes is a control byte, a tab among them.
fn has_control(word: [u8; 8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let (word, tops) = (u64::from_ne_bytes(word), ONES * 0x80);
    let below = |of: u64, least: u64| of.wrapping_sub(ONES * least) & !of & tops;
    below(word, 0x20) | below(word ^ (ONES * 0x7f), 1) != 0
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_judged_alike_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            let fine = byte == b'\t' || byte == b' ' || byte.is_ascii_graphic() || byte >= 0x80;
            for length in 1..=24 {
                for at in 0..length {
                    for other in [b' ', b'~', 0xff, b'\t'] {
                        let mut bytes = vec![other; length];
                        bytes[at] = byte;
                        assert_eq!(is_value(&bytes), fine, "{byte} at {at} of {length}");
                    }
                }
            }
        }
    }
}
