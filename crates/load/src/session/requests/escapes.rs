//! Bytes as people type them.

/// The bytes of a text with the escapes `\n`, `\r`, `\t`, `\0`, `\\` and `\xHH`.
///
/// ```
/// assert_eq!(curtail_load::unescape(r"ping\r\n"), Ok(b"ping\r\n".to_vec()));
/// assert_eq!(curtail_load::unescape(r"\x00\xff"), Ok(vec![0, 255]));
/// assert!(curtail_load::unescape(r"\q").unwrap_err().contains(r"`\q`"));
/// ```
///
/// # Errors
///
/// What is wrong, and what to write instead, for any other escape.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let (byte, after) = escape(&rest[at + 1..])?;
        bytes.push(byte);
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// The byte that follows a backslash stands for, and what comes after it.
pub(super) fn escape(rest: &str) -> Result<(u8, &str), String> {
    let mut characters = rest.chars();
    let byte = match characters.next() {
        Some('n') => b'\n',
        Some('r') => b'\r',
        Some('t') => b'\t',
        Some('0') => 0,
        Some('\\') => b'\\',
        Some('"') => b'"',
        Some('\'') => b'\'',
        Some('x') => {
            let digits = characters.as_str().get(..2);
            let fine = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let byte = digits.filter(fine).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let byte = byte.ok_or(r"`\x` takes two hexadecimal digits, such as \x0a")?;
            return Ok((byte, &characters.as_str()[2..]));
        }
        Some(other) => {
            return Err(format!(
                r"`\{other}` is no escape; write \n, \r, \t, \0, \\ or \xHH, or \\{other} for itself"
            ));
        }
        None => return Err(r"a backslash at the end; write \\ for one".to_owned()),
    };
    Ok((byte, characters.as_str()))
}
