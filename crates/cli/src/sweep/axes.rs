//! What is varied, as a file and flags say it.

use curtail_sim::sweep::{Axis, Range, Value};
use toml::Value as Toml;

use crate::exit::Stop;
use crate::sim::args::GridTable;

/// The axes of the file in its order, each overridden by the flag of the same name, then those that
/// only flags have.
pub(super) fn all(table: &GridTable, flags: &[String]) -> Result<Vec<Axis>, Stop> {
    let mut written: Vec<_> = table.iter().collect();
    written.sort_by_key(|(_, value)| value.span().start);
    let mut flagged = flags.iter().map(|flag| of_flag(flag)).collect::<Result<Vec<_>, _>>()?;
    let mut axes = Vec::with_capacity(written.len() + flagged.len());
    for (key, value) in written {
        axes.push(match flagged.iter().position(|axis| axis.key() == key) {
            Some(place) => flagged.remove(place),
            None => of_file(key, value.get_ref())?,
        });
    }
    axes.append(&mut flagged);
    Ok(axes)
}

fn of_flag(flag: &str) -> Result<Axis, Stop> {
    let Some((key, values)) = flag.split_once('=') else {
        return Err(bad(format_args!("--grid {flag}: write KEY=VALUES, as utilization=0.1,0.2")));
    };
    Axis::parse(key.trim(), values.trim()).map_err(bad)
}

fn of_file(key: &str, value: &Toml) -> Result<Axis, Stop> {
    match value {
        Toml::Array(values) => {
            let values = values.iter().map(|value| {
                scalar(value).ok_or_else(|| {
                    bad(format_args!("[grid] {key}: {value} is neither a number nor a text"))
                })
            });
            Axis::new(key, values.collect::<Result<_, _>>()?).map_err(bad)
        }
        Toml::Table(range) => {
            let range: Range = range.clone().try_into().map_err(|error: toml::de::Error| {
                let why = error.message();
                bad(format_args!(
                    "[grid] {key}: {why}; write {{ from = 0.1, to = 0.9, step = 0.1 }} or \
                     {{ from = 1e-5, to = 0.1, count = 9, scale = \"log\" }}"
                ))
            })?;
            Axis::range(key, &range).map_err(bad)
        }
        other => Err(bad(format_args!("[grid] {key} is {other}; give a list, as [{other}]"))),
    }
}

/// A number, a text, or a list of numbers, which is a value of `speeds`.
fn scalar(value: &Toml) -> Option<Value> {
    match value {
        Toml::Integer(whole) => Some(Value::Whole(*whole)),
        Toml::Float(number) => Some(Value::number(*number)),
        Toml::String(text) => Some(Value::Text(text.clone())),
        Toml::Array(list) => {
            let numbers = list.iter().map(|item| Some(scalar(item)?.as_number()?.to_string()));
            Some(Value::Text(numbers.collect::<Option<Vec<_>>>()?.join(",")))
        }
        _ => None,
    }
}

fn bad(why: impl std::fmt::Display) -> Stop {
    Stop::BadInput(why.to_string())
}
