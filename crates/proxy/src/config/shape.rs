//! Deserializes text to [`raw::File`], and reports all errors from serde, not just the first.
//!
//! serde stops at its first error. This module reports the error, removes the wrong value from the
//! document, and runs serde again until it succeeds.

use std::ops::Range;

use serde::Deserialize as _;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use super::raw;
use super::report::Report;

/// Maximum number of errors. A file with more errors is probably not a configuration file at all.
const ERRORS_MAX: usize = 50;

/// Reads the file. Returns `None` if nothing usable remains. The report then contains the errors.
pub(super) fn read(report: &mut Report<'_>) -> Option<raw::File> {
    let mut table = match DeTable::parse(report.text()) {
        Ok(table) => table,
        Err(error) => {
            // Reports only the first error, because the parser has to guess after that.
            let at = error.span().unwrap_or_default();
            report.misshapen(&at, &syntax(error.message()));
            return None;
        }
    };
    while report.count() < ERRORS_MAX {
        match raw::File::deserialize(Deserializer::from(table.clone())) {
            Ok(file) => return Some(file),
            Err(error) => {
                let at = error.span().unwrap_or_default();
                let key = cut(table.get_mut(), &at);
                report.misshapen(&at, &explain(key.as_deref(), error.message()));
                key?;
            }
        }
    }
    None
}

/// Removes the entry or the list element at `at` from the document. Returns the key of the entry.
fn cut(table: &mut DeTable<'_>, at: &Range<usize>) -> Option<String> {
    for (key, value) in table.iter_mut() {
        let found = match value.get_mut() {
            DeValue::Table(inner) => cut(inner, at),
            DeValue::Array(list) => cut_list(list, key.get_ref(), at),
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
fn explain(key: Option<&str>, message: &str) -> String {
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
    // serde's error for a value that is not one of the permitted names.
    if message == "wanted string or table" {
        return format!(
            "{key} has the wrong type; write one of its values in quotes; 'curtail proxy \
             --schema' lists them"
        );
    }
    let kind = message.strip_prefix("invalid type: ");
    let kind = kind.or_else(|| message.strip_prefix("invalid value: "));
    match kind.and_then(|rest| rest.split_once(", expected ")) {
        Some((_, expected)) => {
            let expected = match expected {
                "u64" => "a whole number of at least 0, without quotes",
                "f64" => "a number, without quotes",
                "a string" => "text in quotes",
                "a boolean" => "true or false, without quotes",
                "a sequence" => "a list, like [\"…\"]",
                other => other,
            };
            format!("{key} has the wrong type; write {expected}")
        }
        // Errors of the module `values` already contain the fix.
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

/// Returns the name that was probably intended.
pub(super) fn closest<'k>(wrong: &str, known: &[&'k str]) -> Option<&'k str> {
    // Up to a third of the letters may differ. Two neighboring letters in the wrong order count as
    // one difference.
    let near = |name: &str| {
        let letters = wrong.chars().count().max(name.chars().count());
        let off = strsim::damerau_levenshtein(wrong, name);
        (off * 3 <= letters).then_some(off)
    };
    let candidates = known.iter().filter_map(|&name| Some((near(name)?, name)));
    candidates.min_by_key(|&(off, _)| off).map(|(_, name)| name)
}
