//! What a capability file holds, and how variables are put into it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

/// Names and what stands for them: `{name}` in a text.
pub(crate) type Vars = BTreeMap<String, String>;

/// A file of lines.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    /// Variables of all lines, and what they are in a quick run.
    pub(super) vars: Vars,
    pub(super) quick: Vars,
    pub(super) line: Vec<Line>,
    /// What continuous integration runs.
    pub(super) step: Vec<Step>,
}

/// Commands that have to end with 0, each.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(super) needs: Vec<String>,
    pub(super) env: Vars,
    pub(super) run: Vec<Vec<String>>,
}

/// One line of what a capability is done by.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Line {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) text: String,
    /// How long it takes, about; 0: it is left out of such a run.
    pub(super) seconds: u32,
    pub(super) quick_seconds: u32,
    pub(super) vars: Vars,
    pub(super) quick: Vars,
    /// What has to be here, as `program:valgrind`, `apt:nginx`, `cores:2`.
    pub(super) needs: Vec<String>,
    /// Run everything in a fresh clone of what is committed.
    pub(super) clone: bool,
    /// Files of `xtask/capabilities/files` to copy into the line's folder, with variables put in.
    pub(super) files: Vec<String>,
    /// Commands before each round.
    pub(super) prepare: Vec<Vec<String>>,
    /// Processes beside all runs.
    pub(super) server: Vec<Server>,
    /// How often all runs are run, one after the other; each round begins with the next run. A
    /// round in which the load generator fell behind, and nothing failed, is run again.
    pub(super) rounds: Option<String>,
    pub(super) run: Vec<Run>,
    /// A function of `steps.rs` that works on the document of all runs.
    pub(super) step: Option<String>,
    pub(super) check: Vec<Value>,
    /// Lines of another file, by name, that stand for this one.
    pub(super) include: Option<Include>,
}

/// Lines of another file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Include {
    pub(super) file: String,
    pub(super) names: Vec<String>,
    /// Variables of them.
    pub(super) set: Vars,
}

/// A process that is asked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Server {
    pub(super) command: Vec<String>,
    pub(super) env: Vars,
    pub(super) files: Vec<String>,
    /// The address where it listens, with `{port}` for a free one. Where there is none, its first
    /// line says so.
    pub(super) listen: Option<String>,
    /// What it has to respond to with 200 before anything else is asked.
    pub(super) ready: Option<String>,
}

/// A command, whose output becomes a part of the document.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Run {
    /// Where in the document it stands. The only run of a line needs no name.
    pub(super) name: String,
    pub(super) command: Vec<String>,
    pub(super) env: Vars,
    pub(super) needs: Vec<String>,
    /// It is run once for each row.
    pub(super) each: Option<Each>,
    pub(super) again: Option<Again>,
    pub(super) server: Vec<Server>,
    pub(super) read: Read,
    /// The file that it writes, JSON or one JSON value per line, rather than its output.
    pub(super) document: Option<String>,
    /// What the last server is asked for afterwards; the response is `stats` of the document.
    pub(super) then_get: Option<String>,
    /// A function of `steps.rs` that works on the run's part of the document.
    pub(super) step: Option<String>,
    /// It may end with any exit code.
    pub(super) may_fail: bool,
}

/// How output is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Read {
    /// As one JSON value.
    #[default]
    Json,
    /// Its lines behind this text, each with the numbers in it.
    Lines(String),
    /// As `name=value`.
    Fields,
}

/// Variables that take several values.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Each {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
    /// Rows are in this file of `xtask/capabilities/files`, columns in its first line: so many of them are
    /// left out, and so many taken.
    csv: Option<String>,
    skip: Option<String>,
    most: Option<String>,
    /// In a quick run only so many rows.
    quick: Option<usize>,
}

impl Each {
    /// The variables of each row.
    pub(super) fn vars(&self, vars: &Vars, quick: bool) -> Result<Vec<Vars>> {
        let most = self.quick.filter(|_| quick).unwrap_or(usize::MAX);
        if let Some(name) = &self.csv {
            let path = fill("{data}/", vars) + name;
            let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
            let count = |text: &Option<String>, default| {
                text.as_ref().map_or(Ok(default), |text| fill(text, vars).parse::<usize>())
            };
            let columns: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
            let rows = text.lines().skip(1 + count(&self.skip, 0)?).take(count(&self.most, most)?);
            let row = |line: &str| {
                let values = line.split(',').map(str::to_owned);
                columns.iter().map(ToString::to_string).zip(values).collect()
            };
            return Ok(rows.map(row).collect());
        }
        let rows = self.rows.iter().take(most).map(|row| {
            let texts =
                row.iter().map(|value| value.as_str().map_or(value.to_string(), Into::into));
            self.columns.iter().cloned().zip(texts).collect()
        });
        Ok(rows.collect())
    }
}

/// A run whose checks do not hold is run once more, with other variables.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Again {
    pub(super) set: Vars,
    pub(super) check: Vec<Value>,
}

impl File {
    pub(super) fn read(root: &Path, name: &str) -> Result<Self> {
        let path = root.join("xtask/capabilities").join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let mut file: Self = toml::from_str(&text).with_context(|| path.display().to_string())?;
        let mut lines = Vec::new();
        for line in std::mem::take(&mut file.line) {
            match &line.include {
                None => {
                    let vars = joined(&file.vars, &line.vars);
                    lines.push(Line { vars, quick: joined(&file.quick, &line.quick), ..line });
                }
                Some(include) => lines.extend(included(root, &file, &line, include)?),
            }
        }
        Ok(Self { line: lines, ..file })
    }
}

/// The lines that stand for one.
fn included(root: &Path, file: &File, line: &Line, include: &Include) -> Result<Vec<Line>> {
    let other = File::read(root, &include.file)?;
    let named = |name| other.line.iter().filter(move |line: &&Line| &line.name == name);
    let mut found: Vec<Line> = include.names.iter().flat_map(named).cloned().collect();
    ensure!(!found.is_empty(), "line {}: {} has none of its lines", line.number, include.file);
    for (at, of) in found.iter_mut().enumerate() {
        of.number = line.number;
        // The first takes the time of all; where none is given, each takes its own.
        (of.seconds, of.quick_seconds) = match (at, line.seconds + line.quick_seconds) {
            (_, 0) => (of.seconds, of.quick_seconds),
            (0, _) => (line.seconds, line.quick_seconds),
            _ => (line.seconds.min(1), line.quick_seconds.min(1)),
        };
        of.vars = joined(&joined(&file.vars, &of.vars), &include.set);
        of.quick = joined(&joined(&file.quick, &of.quick), &include.set);
    }
    Ok(found)
}

/// The second over the first.
pub(super) fn joined(one: &Vars, other: &Vars) -> Vars {
    let mut all = one.clone();
    all.extend(other.iter().map(|(name, value)| (name.clone(), value.clone())));
    all
}

/// A text with what stands for its variables. Other braces stay.
pub(super) fn fill(text: &str, vars: &Vars) -> String {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some(start) = rest.find('{') {
        filled += &rest[..start];
        let inner = &rest[start + 1..];
        match inner.split_once('}').and_then(|(name, after)| Some((vars.get(name)?, after))) {
            Some((value, after)) => {
                filled += &fill(value, vars);
                rest = after;
            }
            None => {
                filled.push('{');
                rest = inner;
            }
        }
    }
    filled + rest
}

/// A value with what stands for its variables; a text that is a variable becomes a number where
/// that is one.
pub(super) fn fill_value(value: &Value, vars: &Vars) -> Value {
    match value {
        Value::String(text) => {
            let filled = fill(text, vars);
            let number = text.starts_with('{') && text.ends_with('}');
            let number = filled.parse::<f64>().ok().filter(|_| number);
            number.and_then(serde_json::Number::from_f64).map_or(filled.into(), Value::Number)
        }
        Value::Array(values) => values.iter().map(|value| fill_value(value, vars)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), fill_value(value, vars))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_filled_and_other_braces_stay() {
        let vars = Vars::from([("a".into(), "1".into()), ("b".into(), "{a}{a}".into())]);
        assert_eq!(fill(r#"x{a}y{b}{"q": {c}}"#, &vars), r#"x1y11{"q": {c}}"#);
        let value = fill_value(&json!({"most": "{b}", "text": "is {a}"}), &vars);
        assert_eq!(value, json!({"most": 11.0, "text": "is 1"}));
    }
}
