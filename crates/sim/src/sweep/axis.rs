//! An axis of a grid: a parameter and its values.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::{Error, MOST_POINTS};

/// A value of an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Whole(i64),
    /// A whole number that is too large for `Whole`, such as a large seed.
    Large(u64),
    /// Any other number.
    Number(f64),
    /// A text.
    Text(String),
}

/// The largest number up to which a float represents every whole number exactly.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

impl Value {
    /// Creates a number. The values 1.0 and 1 are the same.
    pub fn number(number: f64) -> Self {
        if number.fract() == 0.0 && number.abs() <= MOST_EXACT {
            Self::Whole(number as i64)
        } else {
            Self::Number(number)
        }
    }

    /// Parses a number. Any other text is kept as it is.
    pub fn parse(text: &str) -> Self {
        let number = || text.parse().ok().filter(|number: &f64| number.is_finite());
        if let Ok(whole) = text.parse() {
            return Self::Whole(whole);
        }
        if let Ok(large) = text.parse() {
            return Self::Large(large);
        }
        number().map_or_else(|| Self::Text(text.to_owned()), Self::number)
    }

    /// Returns the value as a number, if it is one.
    pub fn as_number(&self) -> Option<f64> {
        match *self {
            Self::Whole(whole) => Some(whole as f64),
            Self::Large(large) => Some(large as f64),
            Self::Number(number) => Some(number),
            Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(whole) => whole.fmt(f),
            Self::Large(large) => large.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The spacing of the values in a range.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Successive values have a constant difference.
    #[default]
    Linear,
    /// Successive values have a constant ratio.
    Log,
}

/// A range of numbers, given by a step or a count.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The first number.
    pub from: f64,
    /// The upper end of the range, which is included if a step reaches it exactly.
    pub to: f64,
    /// The difference from one number to the next.
    pub step: Option<f64>,
    /// The number of values.
    pub count: Option<u32>,
    /// The spacing of the numbers.
    #[serde(default)]
    pub scale: Scale,
}

impl Range {
    /// Returns the values, rounded to twelve digits: 0.15 instead of 0.15000000000000002.
    fn values(&self) -> Result<Vec<Value>, String> {
        let Self { from, to, step, count, scale } = *self;
        let numbers = [Some(from), Some(to), step];
        if let Some(number) = numbers.into_iter().flatten().find(|number| !number.is_finite()) {
            return Err(format!("{number} is not a finite number"));
        }
        if from > to {
            return Err(format!("from ({from}) is above to ({to}); swap them"));
        }
        if scale == Scale::Log && from <= 0.0 {
            return Err(format!("from is {from}; a log scale needs a number above 0"));
        }
        let count = match (step, count) {
            (Some(step), None) if scale == Scale::Linear => steps(from, to, step)?,
            (Some(_), None) => return Err("a log scale needs a count in place of a step".into()),
            (None, Some(count)) => f64::from(count),
            _ => return Err("give either a step or a count".to_owned()),
        };
        if count < 1.0 || (count < 2.0 && from < to && step.is_none()) {
            return Err(format!(
                "a count of {count} does not reach from {from} to {to}; use 2 or more"
            ));
        }
        if count > MOST_POINTS as f64 {
            return Err(format!("{count} values; at most {MOST_POINTS} can be run"));
        }
        let last = (count - 1.0).max(1.0);
        let at = |index: f64| match (scale, step) {
            (Scale::Log, _) => from * (to / from).powf(index / last),
            (Scale::Linear, Some(step)) => from + index * step,
            (Scale::Linear, None) => from + (to - from) * (index / last),
        };
        Ok((0..count as u32).map(|index| Value::number(rounded(at(f64::from(index))))).collect())
    }
}

/// Returns the number of values in a range with a step. A step that misses the end only by a
/// rounding error counts as landing on it.
fn steps(from: f64, to: f64, step: f64) -> Result<f64, String> {
    if step <= 0.0 {
        return Err(format!("a step of {step} is not allowed; use a step above 0"));
    }
    let count = ((to - from) / step + 1e-9).floor() + 1.0;
    if count < 2.0 && from < to {
        return Err(format!(
            "a step of {step} does not reach from {from} to {to}; use a smaller step, or a count, \
             like FROM..TO:COUNT:log"
        ));
    }
    Ok(count)
}

fn rounded(number: f64) -> f64 {
    format!("{number:.11e}").parse().unwrap_or(number)
}

/// A parameter that varies over a grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// The name of a parameter, or of a placeholder in the texts of parameters.
    pub(super) key: String,
    /// The values: at least one, and no duplicates.
    pub(super) values: Vec<Value>,
}

impl Axis {
    /// Creates an axis with these values.
    pub fn new(key: impl Into<String>, values: Vec<Value>) -> Result<Self, Error> {
        let key = key.into();
        if values.is_empty() {
            return Err(Error::NoValues { key });
        }
        let endless = |value: &&Value| matches!(value, Value::Number(it) if !it.is_finite());
        if let Some(value) = values.iter().find(endless) {
            return Err(Error::Misfit { key, value: value.to_string(), wanted: "finite numbers" });
        }
        let mut seen = std::collections::BTreeSet::new();
        // Equal values have the same text.
        match values.iter().find(|value| !seen.insert(value.to_string())) {
            Some(value) => Err(Error::Duplicate { key, value: value.to_string() }),
            None => Ok(Self { key, values }),
        }
    }

    /// Creates an axis with the numbers of a range.
    pub fn range(key: impl Into<String>, range: &Range) -> Result<Self, Error> {
        let key = key.into();
        match range.values() {
            Ok(values) => Self::new(key, values),
            Err(why) => Err(Error::Range { key, why }),
        }
    }

    /// Parses `0.1,0.2,0.3`, `0.05..0.95:0.05` (with a step), or `1e-5..0.1:21:log` (with a count).
    pub fn parse(key: &str, text: &str) -> Result<Self, Error> {
        match parse_range(text) {
            Some(Ok(range)) => Self::range(key, &range),
            Some(Err(why)) => Err(Error::Range { key: key.to_owned(), why }),
            None if text.is_empty() => Self::new(key, Vec::new()),
            None => Self::new(key, text.split(',').map(|part| Value::parse(part.trim())).collect()),
        }
    }

    /// Returns the name of the parameter or placeholder.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the values.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns the values as numbers, if all are numbers.
    pub fn numbers(&self) -> Option<Vec<f64>> {
        self.values.iter().map(Value::as_number).collect()
    }
}

/// Parses a range. Returns `None` for other texts, such as paths, which can also contain two dots.
fn parse_range(text: &str) -> Option<Result<Range, String>> {
    let (from, rest) = text.split_once("..")?;
    let from = from.trim().parse().ok()?;
    let form = || format!("{text:?} is not a range; write FROM..TO:STEP or FROM..TO:COUNT:log");
    let parse = |text: &str| text.trim().parse::<f64>().map_err(|_| form());
    let parts: Vec<&str> = rest.split(':').collect();
    let range = match parts[..] {
        [to, step] => (|| {
            let (to, step) = (parse(to)?, Some(parse(step)?));
            Ok(Range { from, to, step, count: None, scale: Scale::Linear })
        })(),
        [to, count, "log"] => (|| {
            let count = Some(count.trim().parse().map_err(|_| form())?);
            Ok(Range { from, to: parse(to)?, step: None, count, scale: Scale::Log })
        })(),
        _ => Err(form()),
    };
    Some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        match Axis::parse("x", text) {
            Ok(axis) => axis.values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn ranges_have_round_numbers_and_their_end() {
        assert_eq!(written("0.05..0.3:0.05"), "0.05 0.1 0.15 0.2 0.25 0.3");
        assert_eq!(written("1..10:4"), "1 5 9");
        assert_eq!(written("1e-5..1e-1:5:log"), "0.00001 0.0001 0.001 0.01 0.1");
        assert_eq!(written("2..2:1"), "2");
        assert_eq!(written("0.1, 1.0,psq,../x"), "0.1 1 psq ../x");
        let five = Range { from: 0.0, to: 1.0, step: None, count: Some(5), scale: Scale::Linear };
        assert_eq!(Axis::range("x", &five).unwrap().numbers().unwrap()[1], 0.25);
    }

    #[test]
    fn range_errors_name_the_problem() {
        for (text, word) in [
            ("", "empty"),
            ("1,1.0", "1 is given twice"),
            ("2..1:1", "swap"),
            ("1..2:0", "step of 0"),
            ("1..2:-1", "step of -1"),
            ("0.1..0.9:10", "step of 10 does not reach from 0.1 to 0.9"),
            ("0..1:3:log", "above 0"),
            ("1..2:1:log", "2 or more"),
            ("1..2", "FROM..TO:STEP"),
            ("1..inf:1", "inf"),
            ("0..1:1e-9", "at most"),
        ] {
            assert!(written(text).contains(word), "{text}: {}", written(text));
        }
    }
}
