//! Checks tokens and field values (RFC 9110 §5.5, §5.6.2), and appends fields.

use bytes::BytesMut;

/// True for the bytes of a token: method and field names.
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// True if `bytes` is a token: not empty, token bytes only.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().fold(true, |fine, &byte| fine & is_token_byte(byte))
}

/// The number of bytes before the first one that may not be in a token.
pub(crate) fn token_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&[a, b, c, d]) = bytes[at..].first_chunk() {
        if !(is_token_byte(a) & is_token_byte(b) & is_token_byte(c) & is_token_byte(d)) {
            break;
        }
        at += 4;
    }
    at + bytes[at..].iter().take_while(|&&byte| is_token_byte(byte)).count()
}

/// True if `bytes` may be a field value: visible ASCII, spaces, tabs and obs-text; no control byte.
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    // The last word may overlap the one before.
    let (words, last) = (bytes.as_chunks().0, bytes.last_chunk());
    let is_fine = |&word: &[u8; 8]| controls(word) == 0;
    if last.is_some_and(is_fine) && words.iter().all(is_fine) {
        return true;
    }
    // Short, or with a tab, which is rare.
    bytes.iter().fold(true, |fine, &byte| fine & is_value_byte(byte))
}

/// The number of bytes before the first one that may not be in a field value.
pub(crate) fn text_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&word) = bytes[at..].first_chunk() {
        let found = controls(word);
        if found == 0 {
            at += word.len();
            continue;
        }
        at += found.trailing_zeros() as usize / 8;
        if bytes[at] != b'\t' {
            return at;
        }
        at += 1;
    }
    at + bytes[at..].iter().take_while(|&&byte| is_value_byte(byte)).count()
}

/// True for visible ASCII, spaces, tabs and obs-text.
fn is_value_byte(byte: u8) -> bool {
    (byte >= b' ' && byte != 0x7f) | (byte == b'\t')
}

/// Marks the control bytes of a word, tabs among them, in the top bits of its bytes. The lowest mark
/// is exact, and there is none without a control byte. Marks above the lowest may be wrong.
fn controls(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let (word, tops) = (u64::from_le_bytes(word), ONES * 0x80);
    let below = |of: u64, least: u64| of.wrapping_sub(ONES * least) & !of & tops;
    below(word, 0x20) | below(word ^ (ONES * 0x7f), 1)
}

/// Returns whether a field has the name `lower`, which is in lower case. Faster than
/// `eq_ignore_ascii_case`, because the length and the name are constants.
#[inline(always)]
pub(crate) fn is_named<const N: usize>(name: &[u8], lower: &[u8; N]) -> bool {
    let Ok(name) = <&[u8; N]>::try_from(name) else { return false };
    let mut difference = 0;
    for (byte, lower) in name.iter().zip(lower) {
        let case = if lower.is_ascii_lowercase() { 0x20 } else { 0 };
        difference |= (byte ^ lower) & !case;
    }
    difference == 0
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

/// Appends the line of a field. Constants are copied without calls.
#[inline]
pub(crate) fn put_field(buf: &mut BytesMut, name: &[u8], value: &[u8]) {
    buf.extend_from_slice(name);
    buf.extend_from_slice(b": ");
    buf.extend_from_slice(value);
    buf.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_equal_in_any_case_and_in_no_other_byte() {
        for at in 0..10 {
            for byte in 0..=u8::MAX {
                let mut name = *b"KEEP-alive";
                name[at] = byte;
                let equal = name.eq_ignore_ascii_case(b"keep-alive");
                assert_eq!(is_named(&name, b"keep-alive"), equal, "{byte} at {at}");
            }
        }
        assert!(!is_named(b"keep-aliv", b"keep-alive") && !is_named(b"hosts", b"host"));
    }

    #[test]
    fn a_token_ends_at_the_first_other_byte() {
        for length in 0..12 {
            for byte in 0..=u8::MAX {
                let mut bytes = vec![b'a'; 12];
                bytes[length] = byte;
                let end = if is_token_byte(byte) { 12 } else { length };
                assert_eq!(token_length(&bytes), end, "{byte} at {length}");
            }
        }
    }

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
                        let text = if fine { length } else { at };
                        assert_eq!(text_length(&bytes), text, "{byte} at {at} of {length}");
                    }
                }
            }
        }
    }
}
