//! Reads the axes of a grid from a file and from flags.

use std::collections::BTreeMap;

use curtail_sim::sweep::{Axis, Error, Range, Value};
use toml::Value as Toml;

use crate::exit::Stop;
use crate::sim::args::Varied;

/// The axes of a grid.
pub(super) struct Axes {
    pub(super) axes: Vec<Axis>,
    pub(super) places: Places,
}

/// The place of each key in the file, for error messages.
pub(super) struct Places(BTreeMap<String, String>);

impl Places {
    /// Formats an error about a grid with its place in the file.
    pub(super) fn describe(&self, error: &Error) -> String {
        match error.key().and_then(|key| self.0.get(key)) {
            Some(place) => format!("{place}: {error}"),
            None => error.to_string(),
        }
    }
}

/// Returns the axes of the file, in the order of the file, followed by those that only flags
/// define. A flag overrides the axis of the same name.
pub(super) fn all(written: &[Varied], flags: &[String]) -> Result<Axes, Stop> {
    let mut flagged = flags.iter().map(|flag| of_flag(flag)).collect::<Result<Vec<_>, _>>()?;
    let mut axes = Vec::with_capacity(written.len() + flagged.len());
    let mut places = BTreeMap::new();
    for Varied { key, value, place } in written {
        if let Some(at) = flagged.iter().position(|axis| axis.key() == key) {
            axes.push(flagged.remove(at));
            continue;
        }
        axes.push(of_file(key, value).map_err(|why| bad(format_args!("{place}: {why}")))?);
        places.insert(key.clone(), place.clone());
    }
    axes.append(&mut flagged);
    Ok(Axes { axes, places: Places(places) })
}

fn of_flag(flag: &str) -> Result<Axis, Stop> {
    let Some((key, values)) = flag.split_once('=') else {
        return Err(bad(format_args!(
            "--grid {flag}: write KEY=VALUES, such as utilization=0.1,0.2"
        )));
    };
    Axis::parse(key.trim(), values.trim()).map_err(bad)
}

/// Parses an axis of a file.
fn of_file(key: &str, value: &Toml) -> Result<Axis, String> {
    let axis = match value {
        Toml::Array(values) => {
            let values = values.iter().map(|value| {
                scalar(value)
                    .ok_or_else(|| format!("[grid] {key}: {value} must be a number or a string"))
            });
            Axis::new(key, values.collect::<Result<_, _>>()?)
        }
        Toml::Table(range) => {
            let range: Range = range.clone().try_into().map_err(|error: toml::de::Error| {
                let why = error.message();
                format!(
                    "[grid] {key}: {why}; write {{ from = 0.1, to = 0.9, step = 0.1 }} or \
                     {{ from = 1e-5, to = 0.1, count = 9, scale = \"log\" }}"
                )
            })?;
            Axis::range(key, &range)
        }
        // The same format as in a flag.
        Toml::String(values) => Axis::parse(key, values.trim()),
        other => return Err(format!("[grid] {key} is {other}; give a list, such as [{other}]")),
    };
    axis.map_err(|error| error.to_string())
}

/// Converts a number, a text or a list. A list of numbers is a value of `speeds`, and a list of
/// texts is a value of `change`.
fn scalar(value: &Toml) -> Option<Value> {
    match value {
        Toml::Integer(whole) => Some(Value::Whole(*whole)),
        Toml::Float(number) => Some(Value::number(*number)),
        Toml::String(text) => Some(Value::Text(text.clone())),
        Toml::Array(list) => {
            let all_texts = list.iter().all(Toml::is_str);
            let item = |item: &Toml| match scalar(item)? {
                Value::Text(text) => all_texts.then_some(text),
                number => Some(number.as_number()?.to_string()),
            };
            Some(Value::Text(list.iter().map(item).collect::<Option<Vec<_>>>()?.join(",")))
        }
        _ => None,
    }
}

fn bad(why: impl std::fmt::Display) -> Stop {
    Stop::BadInput(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_a_file_may_be_a_list() {
        let axis = |text: &str| {
            let table: toml::Table = format!("key = {text}").parse().expect("TOML");
            of_file("key", &table["key"])
        };
        let values = |text: &str| axis(text).expect(text).values().to_vec();
        let texts = |texts: &[&str]| texts.iter().map(|text| Value::Text((*text).into())).collect();
        let both: Vec<Value> = texts(&["jitter=none", "jitter=exp:1,speeds=1,0.5"]);
        assert_eq!(values(r#"["jitter=none", ["jitter=exp:1", "speeds=1,0.5"]]"#), both);
        let both: Vec<Value> = texts(&["1,1", "1,0.5"]);
        assert_eq!(values("[[1, 1], [1, 0.5]]"), both);
        let why = axis(r#"[["jitter=none", 1]]"#).expect_err("a mixture");
        assert!(why.contains("must be a number or a string"), "{why}");
    }
}
