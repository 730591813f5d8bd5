//! The format of capability files, and the substitution of variables.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

/// Variables by name. `{name}` in a text stands for the value of a variable.
pub(crate) type Vars = BTreeMap<String, String>;

/// A capability file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    /// Variables of all lines, and their values in a quick run.
    pub(super) vars: Vars,
    pub(super) quick: Vars,
    pub(super) line: Vec<Line>,
    /// The steps of continuous integration.
    pub(super) step: Vec<Step>,
}

/// A list of commands, each of which must exit with 0.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// Whether the step runs only if it is named.
    pub(crate) heavy: bool,
    pub(super) needs: Vec<String>,
    pub(super) env: Vars,
    pub(super) run: Vec<Vec<String>>,
}

/// One of the lines that define a capability.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Line {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) text: String,
    /// The approximate duration in full and quick runs. 0 leaves the line out of runs of that kind.
    pub(super) seconds: u32,
    pub(super) quick_seconds: u32,
    pub(super) vars: Vars,
    pub(super) quick: Vars,
    /// Requirements, such as `program:valgrind`, `apt:nginx` or `cores:2`.
    pub(super) needs: Vec<String>,
    /// Whether to run everything in a fresh clone of the committed tree.
    pub(super) clone: bool,
    /// Files in `xtask/capabilities/files` that are copied into the line's folder, with variables
    /// substituted.
    pub(super) files: Vec<String>,
    /// Commands to run before each round.
    pub(super) prepare: Vec<Vec<String>>,
    /// Processes that run alongside all runs.
    pub(super) server: Vec<Server>,
    /// The number of rounds. A round executes all runs one after the other, and each round begins
    /// with a different run. If the load generator fell behind and nothing failed, the round is
    /// repeated.
    pub(super) rounds: Option<String>,
    pub(super) run: Vec<Run>,
    /// The name of a function in `steps.rs` that processes the combined document of all runs.
    pub(super) step: Option<String>,
    pub(super) check: Vec<Value>,
    /// Lines from another file that replace this line.
    pub(super) include: Option<Include>,
}

/// Lines from another file, selected by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Include {
    pub(super) file: String,
    pub(super) names: Vec<String>,
    /// Variables that are set in the included lines.
    pub(super) set: Vars,
}

/// A server process.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Server {
    pub(super) command: Vec<String>,
    pub(super) env: Vars,
    pub(super) files: Vec<String>,
    /// The address on which the process listens. `{port}` stands for a free port. `None` if the
    /// process prints its address in its first line.
    pub(super) listen: Option<String>,
    /// The path that must respond with 200 before the run starts.
    pub(super) ready: Option<String>,
}

/// A command whose output becomes part of the document.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Run {
    /// The name of the part in the document. If a line has only one run, that run needs no name.
    pub(super) name: String,
    pub(super) command: Vec<String>,
    pub(super) env: Vars,
    pub(super) needs: Vec<String>,
    /// Runs the command once for each row.
    pub(super) each: Option<Each>,
    pub(super) again: Option<Again>,
    pub(super) server: Vec<Server>,
    pub(super) read: Read,
    /// The file that the command writes, which is read instead of its output: JSON, or one JSON
    /// value per line.
    pub(super) document: Option<String>,
    /// The path that is requested from the last server after the command has ended. The response
    /// becomes `stats` in the document.
    pub(super) then_get: Option<String>,
    /// The name of a function in `steps.rs` that processes the run's part of the document.
    pub(super) step: Option<String>,
    /// Whether any exit code is accepted, and servers that do not start. The document then contains
    /// none of the run's figures.
    pub(super) may_fail: bool,
}

/// The format of a command's output.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Read {
    /// One JSON value, or the points of a sweep, one per line.
    #[default]
    Json,
    /// The text after this marker in each line that contains it, with the numbers in that text.
    Lines(String),
    /// Words of the form `name=value`.
    Fields,
}

/// Variables that take several values, one row at a time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Each {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
    /// A file in `xtask/capabilities/files` that contains the rows. Its first line names the
    /// columns. The first `skip` rows are left out, and at most `most` rows are used.
    csv: Option<String>,
    skip: Option<String>,
    most: Option<String>,
    /// The maximum number of rows in a quick run.
    quick: Option<usize>,
}

impl Each {
    /// Returns the variables of each row.
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

/// Variables for a second attempt at a run whose checks do not hold.
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

/// Returns the lines that replace a line if it includes another file.
fn included(root: &Path, file: &File, line: &Line, include: &Include) -> Result<Vec<Line>> {
    let other = File::read(root, &include.file)?;
    let named = |name| other.line.iter().filter(move |line: &&Line| &line.name == name);
    let mut found: Vec<Line> = include.names.iter().flat_map(named).cloned().collect();
    ensure!(!found.is_empty(), "line {}: {} contains none of its lines", line.number, include.file);
    for (at, of) in found.iter_mut().enumerate() {
        of.number = line.number;
        // The first included line gets the durations of the line that includes it. If that line
        // specifies no durations, each included line keeps its own.
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

/// Merges two sets of variables; the second takes precedence.
pub(super) fn joined(one: &Vars, other: &Vars) -> Vars {
    let mut all = one.clone();
    all.extend(other.iter().map(|(name, value)| (name.clone(), value.clone())));
    all
}

/// Substitutes variables in a text. Other braces stay.
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

/// Substitutes variables in a value. A text that consists only of a variable becomes a number if
/// the result parses as one.
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
