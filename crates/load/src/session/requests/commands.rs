//! Encodes memcached and Redis commands that are written as a user would type them, and raw text.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::plan::error::PlanError;
use crate::plan::target::Scheme;
use crate::session::requests::{Rendered, Texts, refused};

const KEY_BYTES_MAX: usize = 250;
const KNOWN: &str = "memcached commands are get and gets KEY..., gat and gats SECONDS KEY..., set, add, \
                     replace, append and prepend KEY VALUE [SECONDS], delete KEY, incr and decr KEY N, \
                     touch KEY SECONDS, and version";
/// Redis commands that have no response, or more than one.
const STREAMS: [&str; 7] =
    ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "HELLO"];

type Words = Vec<Vec<u8>>;

pub(super) fn render(scheme: Scheme, texts: &Texts<'_>) -> Result<Vec<Bytes>, PlanError> {
    let mut rendered = Rendered::with_capacity(texts.len());
    for (text, _) in texts.iter() {
        append(scheme, &text, &mut rendered.buffer).map_err(|why| refused(&text, why))?;
        rendered.finish();
    }
    Ok(rendered.into_bytes())
}

fn append(scheme: Scheme, line: &str, buffer: &mut BytesMut) -> Result<(), String> {
    match scheme {
        Scheme::Redis => redis(&words(line)?, buffer),
        Scheme::Memcached => memcached(&words(line)?, buffer),
        _ if line.is_empty() => Err("is empty, so no server would respond".to_owned()),
        _ => {
            buffer.put_slice(&unescape(line)?);
            Ok(())
        }
    }
}

/// Appends a command as an array of bulk strings (RESP2).
fn redis(words: &Words, buffer: &mut BytesMut) -> Result<(), String> {
    let name = words.first().ok_or("there is no command; write one such as GET key")?;
    let streams = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
    if let Some(name) = STREAMS.iter().find(|known| streams(known)) {
        return Err(format!("{name} does not have exactly one response per request; leave it out"));
    }
    buffer.put_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        buffer.put_slice(format!("${}\r\n", word.len()).as_bytes());
        buffer.put_slice(word);
        buffer.put_slice(b"\r\n");
    }
    Ok(())
}

/// Appends a command as a line, followed by a data block for some commands (doc/protocol.txt of
/// memcached).
fn memcached(words: &Words, buffer: &mut BytesMut) -> Result<(), String> {
    let (name, arguments) = words.split_first().ok_or(KNOWN)?;
    let name = name.to_ascii_lowercase();
    let (keys, data) = match (&*name, arguments) {
        (b"get" | b"gets", keys) if !keys.is_empty() => (keys, None),
        (b"gat" | b"gats", [seconds, keys @ ..]) if !keys.is_empty() => {
            number(seconds)?;
            (keys, None)
        }
        (b"set" | b"add" | b"replace" | b"append" | b"prepend", [key, data]) => {
            (std::slice::from_ref(key), Some((data, &b"0"[..])))
        }
        (b"set" | b"add" | b"replace" | b"append" | b"prepend", [key, data, seconds]) => {
            (std::slice::from_ref(key), Some((data, number(seconds)?)))
        }
        (b"delete", [key]) => (std::slice::from_ref(key), None),
        (b"incr" | b"decr" | b"touch", [key, value]) => {
            number(value)?;
            (std::slice::from_ref(key), None)
        }
        (b"version", []) => (&[][..], None),
        _ => return Err(KNOWN.to_owned()),
    };
    let plain = |key: &Vec<u8>| key.iter().all(u8::is_ascii_graphic);
    if let Some(key) = keys.iter().find(|key| !plain(key) || key.len() > KEY_BYTES_MAX) {
        let key = String::from_utf8_lossy(key);
        return Err(format!("key `{key}`: a key must have 1 to 250 visible ASCII characters"));
    }
    buffer.put_slice(&name);
    if let Some((data, seconds)) = data {
        let [key, ..] = keys else { return Err(KNOWN.to_owned()) };
        for piece in [b" ", &key[..], b" 0 ", seconds, b" "] {
            buffer.put_slice(piece);
        }
        buffer.put_slice(format!("{}\r\n", data.len()).as_bytes());
        buffer.put_slice(data);
    } else {
        for argument in arguments {
            buffer.put_u8(b' ');
            buffer.put_slice(argument);
        }
    }
    buffer.put_slice(b"\r\n");
    Ok(())
}

fn number(word: &[u8]) -> Result<&[u8], String> {
    let digits = (1..=20).contains(&word.len()) && word.iter().all(u8::is_ascii_digit);
    let shown = || format!("`{}` is not a whole number", String::from_utf8_lossy(word));
    if digits { Ok(word) } else { Err(shown()) }
}

/// Splits a line into words at unquoted white space. Double quotes support escapes.
fn words(line: &str) -> Result<Words, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut word = Vec::new();
        if matches!(first, '"' | '\'') {
            rest = quoted(&rest[1..], first, &mut word)?;
            if rest.starts_with(|c: char| !c.is_ascii_whitespace()) {
                return Err("text follows a closing quote; put a space between them".to_owned());
            }
        } else {
            let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
            word.extend_from_slice(&rest.as_bytes()[..end]);
            rest = &rest[end..];
        }
        words.push(word);
        rest = rest.trim_start();
    }
    Ok(words)
}

/// Appends the quoted text, and returns the text after the closing quote.
fn quoted<'a>(mut rest: &'a str, quote: char, word: &mut Vec<u8>) -> Result<&'a str, String> {
    let stops = [quote, '\\'];
    while let Some(at) = rest.find(stops) {
        word.extend_from_slice(&rest.as_bytes()[..at]);
        let after = &rest[at + 1..];
        if rest[at..].starts_with(quote) {
            return Ok(after);
        }
        if quote == '"' || after.starts_with(quote) {
            let (byte, after) = escape(after)?;
            word.push(byte);
            rest = after;
        } else {
            word.push(b'\\');
            rest = after;
        }
    }
    Err(format!("a quote is not closed; write another {quote}"))
}

/// Decodes text with the escapes `\n`, `\r`, `\t`, `\0`, `\\` and `\xHH`.
///
/// ```
/// assert_eq!(curtail_load::unescape(r"ping\r\n"), Ok(b"ping\r\n".to_vec()));
/// assert_eq!(curtail_load::unescape(r"\x00\xff"), Ok(vec![0, 255]));
/// assert!(curtail_load::unescape(r"\q").unwrap_err().contains(r"`\q`"));
/// ```
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

/// Decodes the escape after a backslash. Returns the decoded byte and the remaining text.
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
                r"`\{other}` is not an escape; write \n, \r, \t, \0, \\ or \xHH, or \\{other} for itself"
            ));
        }
        None => return Err(r"a backslash at the end; write \\ for one".to_owned()),
    };
    Ok((byte, characters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(scheme: Scheme, line: &str) -> Result<String, String> {
        let mut buffer = BytesMut::new();
        append(scheme, line, &mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer).into_owned())
    }

    #[test]
    fn commands_of_redis_are_arrays_of_their_words() {
        let of = |line| rendered(Scheme::Redis, line).unwrap();
        assert_eq!(of("GET key"), "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
        let quoted = of(r#"  set  "a b\n"  'c "d\'' "#);
        assert_eq!(quoted, "*3\r\n$3\r\nset\r\n$4\r\na b\n\r\n$5\r\nc \"d'\r\n");
        for (line, why) in [
            ("", "no command"),
            ("GET \"a", "not closed"),
            ("GET 'a'b", "a space between"),
            ("GET \"\\q\"", r"`\q`"),
            ("monitor", "MONITOR does not have exactly one response"),
        ] {
            let error = rendered(Scheme::Redis, line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn commands_of_memcached_are_lines_with_their_data() {
        let of = |line| rendered(Scheme::Memcached, line).unwrap();
        assert_eq!(of("GET a b"), "get a b\r\n");
        assert_eq!(of("set key value"), "set key 0 0 5\r\nvalue\r\n");
        assert_eq!(of("add key 'a b' 60"), "add key 0 60 3\r\na b\r\n");
        assert_eq!(of("incr n 2"), "incr n 2\r\n");
        assert_eq!(of("version"), "version\r\n");
        let long = format!("get {}", "x".repeat(251));
        for (line, why) in [
            ("get", "memcached commands are"),
            ("flush_all", "memcached commands are"),
            ("set a", "memcached commands are"),
            ("incr a b", "`b` is not a whole number"),
            ("get 'a b'", "key `a b`"),
            (&long, "1 to 250"),
        ] {
            let error = rendered(Scheme::Memcached, line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
