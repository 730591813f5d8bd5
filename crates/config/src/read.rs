//! Reads files, deserializes them, and reports all errors from serde, not just the first.
//!
//! serde stops at its first error. This module reports the error, removes the wrong value from the
//! document, and runs serde again until it succeeds.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::document::{NO_NAME, Value, Wrong};
use crate::report::{ConfigErrors, Report};
use crate::words::closest;

/// Maximum number of errors. A file with more errors is probably not a configuration file at all.
const ERRORS_MAX: usize = 50;

/// Size limit of a file, in bytes. A configuration of the proxy with a thousand shards, each with
/// ten replicas, has a third of this size.
const BYTES_MAX: u64 = 1 << 20;

/// Reads and deserializes a file.
///
/// # Errors
/// The file cannot be read, or every error that [`parse`] finds.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigErrors> {
    parse(&path.display().to_string(), &read_text(path)?)
}

/// Deserializes the text of a file. Errors refer to the file as `name`.
///
/// # Errors
/// Every error in the file, each with its line and the fix. However, if the file has a TOML syntax
/// error, only that error is reported.
pub fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, ConfigErrors> {
    let mut report = Report::new(name, text);
    let value = deserialize(&mut report);
    report.finish()?;
    Ok(value.expect("a file without errors has a value"))
}

/// Reads a whole file. Because of the size limit, reading also stops if the file is a device that
/// produces endless data.
///
/// # Errors
/// The file cannot be read, or is too long.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        let limit = BYTES_MAX >> 20;
        return Err(io::Error::other(format!("it is longer than the limit of {limit} MiB")));
    }
    Ok(bytes)
}

/// Reads a file as text.
///
/// # Errors
/// The file cannot be read, is too long, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, ConfigErrors> {
    let name = path.display().to_string();
    let bytes = read_bytes(path).map_err(|why| ConfigErrors::unreadable(&name, &why))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes());
        // The two texts are the same up to the invalid byte, so the position is also valid in
        // `text`.
        let at = valid..valid + char::REPLACEMENT_CHARACTER.len_utf8();
        let mut report = Report::new(&name, &text);
        report.misshapen(&at, "is not UTF-8; save the file as UTF-8");
        report.finish().expect_err("something was just reported")
    })
}

/// Deserializes the text of a report. Returns `None` if nothing usable remains. The report then
/// contains the errors.
pub fn deserialize<T: DeserializeOwned>(report: &mut Report<'_>) -> Option<T> {
    let mut table = match DeTable::parse(report.text()) {
        Ok(table) => table,
        Err(error) => {
            // Reports only the first error, because the parser has to guess after that.
            let at = error.span().unwrap_or_default();
            report.misshapen(&at, &syntax(error.message()));
            return None;
        }
    };
    loop {
        if report.count() >= ERRORS_MAX {
            report.more();
            return None;
        }
        match T::deserialize(Value::of(table.clone())) {
            Ok(file) => return Some(file),
            Err(Wrong { message, at }) => {
                let at = at.unwrap_or_default();
                let key = cut(table.get_mut(), &at);
                match message.strip_prefix("missing field ") {
                    Some(missing) => {
                        let wrong = format!("{} is missing", missing.trim_matches('`'));
                        report.missing(&at, &wrong, "add it");
                    }
                    None => {
                        let help = report.described();
                        report.misshapen(&at, &explain(key.as_deref(), &message, help));
                    }
                }
                key?;
            }
        }
    }
}

/// Removes the entry or the list element at `at` from the document. Returns the key of the entry. A
/// list of one table has the same position as the table, and both are removed.
fn cut(table: &mut DeTable<'_>, at: &Range<usize>) -> Option<String> {
    for (key, value) in table.iter_mut() {
        let span = value.span();
        let found = match value.get_mut() {
            DeValue::Table(inner) => cut(inner, at),
            DeValue::Array(list) if span != *at => cut_list(list, key.get_ref(), at),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    let here = |span: Range<usize>| span == *at;
    let (key, _) = table.iter().find(|(key, value)| here(key.span()) || here(value.span()))?;
    let key = key.get_ref().to_string();
    table.remove(key.as_str());
    Some(key)
}

fn cut_list(list: &mut DeArray<'_>, key: &str, at: &Range<usize>) -> Option<String> {
    for item in list.iter_mut() {
        let found = match item.get_mut() {
            DeValue::Table(inner) => cut(inner, at),
            DeValue::Array(inner) => cut_list(inner, key, at),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    let before = list.len();
    let items = std::mem::replace(list, DeArray::new());
    *list = items.into_iter().filter(|item| item.span() != *at).collect();
    (list.len() < before).then(|| key.to_string())
}

/// Explains a syntax error, with a fix for the common ones.
fn syntax(message: &str) -> String {
    let (wrong, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    match (wrong, expected) {
        ("duplicate key", _) => "is given twice; delete one of them".into(),
        ("string values must be quoted" | "invalid float" | "invalid mantissa", _) => {
            "is not a TOML value; put text in quotes, like \"127.0.0.1:9001\", and write numbers \
             as 1 or 0.02"
                .into()
        }
        (_, "") => format!("is not TOML ({wrong}); write KEY = VALUE or [TABLE]"),
        _ => format!("is not TOML ({wrong}); expected {expected}"),
    }
}

/// Rewords an error from serde.
fn explain(key: Option<&str>, message: &str, help: &str) -> String {
    let key = key.unwrap_or("this");
    if message.starts_with("unknown field ") {
        let (wrong, known) = quoted(message);
        return match closest(wrong, &known) {
            Some(close) => format!("unknown key; did you mean {close}?"),
            None => format!("unknown key; valid keys here are {}", known.join(", ")),
        };
    }
    if message.starts_with("unknown variant ") {
        let (_, known) = quoted(message);
        let known: Vec<_> = known.iter().map(|name| format!("{name:?}")).collect();
        return format!("{key} has an invalid value; write {}", known.join(" or "));
    }
    if message == NO_NAME {
        return format!("{key} has the wrong type; write one of its values in quotes; {help}");
    }
    let kind = message.strip_prefix("invalid type: ");
    let kind = kind.or_else(|| message.strip_prefix("invalid value: "));
    match kind.and_then(|rest| rest.split_once(", expected ")) {
        Some((_, expected)) => {
            let expected = match expected {
                "u8" => "a whole number from 0 to 255, without quotes",
                "u32" => "a whole number from 0 to 4294967295, without quotes",
                "u64" => "a whole number of at least 0, without quotes",
                "f64" => "a number, without quotes",
                "a string" => "text in quotes",
                "a boolean" => "true or false, without quotes",
                "a sequence" => "a list, like [\"…\"]",
                "a map" => "a table",
                name if name.starts_with("struct ") => "a table",
                other => other,
            };
            format!("{key} has the wrong type; write {expected}")
        }
        // Errors of this crate's values already contain the fix.
        None if message.contains("; ") => format!("{key} {message}"),
        None => format!("{key} is invalid ({message}); write it as documented"),
    }
}

/// Returns the name that serde rejects and the names that it expects. serde puts each of them in
/// backticks.
fn quoted(message: &str) -> (&str, Vec<&str>) {
    // A name from the file may contain backticks. The expected names do not.
    let (wrong, known) = message.rsplit_once("`, expected ").unwrap_or((message, ""));
    let wrong = wrong.split_once('`').map_or("", |(_, name)| name);
    (wrong, known.split('`').skip(1).step_by(2).collect())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::{ConfigError, Given, OrFalse, Socket};

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its errors matter")]
    struct Sample {
        name: String,
        slots: Option<u32>,
        level: Option<Level>,
        listen: Option<OrFalse<Socket>>,
        shards: Option<Vec<Given<u8>>>,
        inner: Option<Inner>,
        plain: Option<Plain>,
    }

    #[derive(Debug, Deserialize)]
    struct Plain {}

    /// Not to be read from a list of its fields.
    #[derive(Debug, Deserialize)]
    #[serde(expecting = "{ number }")]
    #[allow(dead_code, reason = "only its errors matter")]
    struct Inner {
        number: u8,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Level {
        Info,
        Debug,
    }

    #[test]
    fn errors_have_the_line_the_value_and_the_fix() {
        for (text, errors) in [
            ("slots = 1", "f:1: (nothing): name is missing; add it"),
            ("name = 1", "f:1: 1: name has the wrong type; write text in quotes"),
            (
                "name = a",
                "f:1: a: is not a TOML value; put text in quotes, like \"127.0.0.1:9001\"",
            ),
            (
                "slots = 5_000_000_000",
                "slots has the wrong type; write a whole number from 0 to 42949",
            ),
            (
                "slots = 99999999999999999999",
                "slots is not a whole number of at most 64 bits; write",
            ),
            ("name = 1979-05-27", "name has the wrong type; write text in quotes"),
            ("inner = [1]", "[1]: inner has the wrong type; write { number }"),
            ("slot = 5", "f:1: slot: unknown key; did you mean slots?"),
            ("none = 5", "f:1: none: unknown key; valid keys here are name, slots, level, listen"),
            ("level = \"inf\"", "\"inf\": level has an invalid value; write \"info\" or \"debug\""),
            ("level = 3", "3: level has the wrong type; write one of its values in quotes; the"),
            ("listen = \"a:1\"", "\"a:1\": listen is a host name, not an IP address; write its IP"),
            ("listen = true", "true: listen has the wrong type; write an address in quotes, like"),
            ("[[plain]]", "f:1: [[plain]]: plain has the wrong type; write a table"),
            (
                "\n\nshards = [1, \"a\", 300]",
                "f:3: \"a\": shards has the wrong type; write a whole",
            ),
        ] {
            let found = parse::<Sample>("f", text).expect_err(text).to_string();
            assert!(found.contains(errors), "{text}: {found}");
        }
        // All errors are reported, in the order of the lines. A misspelled key is not missing.
        let found = parse::<Sample>("f", "slot = 1\nname = 2\nlevel = 3").expect_err("errors");
        let lines: Vec<_> = found.errors().iter().filter_map(ConfigError::line).collect();
        assert_eq!(lines, [1, 2, 3], "{found}");
        // A table in place of another kind is reported once, and what is left out is said.
        let found = parse::<Sample>("f", "name = 'a'\n[[plain]]").expect_err("a list");
        assert_eq!(found.errors().len(), 1, "{found}");
        let many: String = (0..99).map(|at| format!("k{at} = {at}\n")).collect();
        let found = parse::<Sample>("f", &many).expect_err("errors").to_string();
        assert_eq!(found.lines().count(), ERRORS_MAX + 1, "{found}");
        assert!(found.ends_with("f: there are more errors; fix these first"), "{found}");
    }
}
