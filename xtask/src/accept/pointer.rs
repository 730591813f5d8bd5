//! Pointers into documents, as in RFC 6901, plus two kinds of segments that match several values.
//!
//! `*` matches every element of a list or member of an object. `key=value,…` matches every element
//! of a list (or member of an object) with these values. `key` may be a path with dots, and a value
//! may be a range `from..to`.

use serde_json::Value;

/// Returns the values at a pointer. A matched element that lacks the value yields null.
pub(super) fn select<'a>(document: &'a Value, pointer: &str) -> Vec<&'a Value> {
    let mut found = vec![document];
    for segment in pointer.split('/').skip(1) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        found = found.into_iter().flat_map(|value| step(value, &segment)).collect();
    }
    found
}

fn step<'a>(value: &'a Value, segment: &str) -> Vec<&'a Value> {
    let all = || match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => Vec::new(),
    };
    if segment == "*" {
        return all();
    }
    if segment.contains('=') {
        return all().into_iter().filter(|value| meets(value, segment)).collect();
    }
    let at = segment.parse().ok().and_then(|index: usize| value.get(index));
    vec![value.get(segment).or(at).unwrap_or(&Value::Null)]
}

fn meets(value: &Value, conditions: &str) -> bool {
    conditions.split(',').all(|condition| {
        let Some((key, wanted)) = condition.split_once('=') else { return false };
        let is = key.split('.').fold(value, |value, key| step(value, key)[0]);
        match (is, wanted.split_once("..")) {
            (Value::Number(is), Some((from, to))) => {
                let is = is.as_f64().unwrap_or(f64::NAN);
                let bound = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
                bound(from) <= is && is <= bound(to)
            }
            (Value::Number(is), None) => {
                let by = is.as_f64().unwrap_or(f64::NAN) - wanted.parse().unwrap_or(f64::NAN);
                by.abs() < 1e-9
            }
            (Value::String(is), _) => is == wanted,
            (Value::Bool(is), _) => is.to_string() == wanted,
            _ => false,
        }
    })
}

/// Converts a value to a number; `true` is 1 and `false` is 0.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(|yes| f64::from(u8::from(yes))))
}

/// Computes figures from a document by an expression such as `median /runs/*/p99 over /base/p99`.
/// Each term is either a function of a pointer or a constant. The terms are combined from left to
/// right by `over`, `under` (`over` with swapped operands), `times`, `minus`, `from` (`minus` with
/// swapped operands) and `least` (the lesser of the two). A single figure is combined with each
/// figure of a list.
pub(super) fn figures(document: &Value, text: &str) -> Vec<Option<f64>> {
    let mut combined: Option<Vec<Option<f64>>> = None;
    let (mut operator, mut term) = (None, Vec::new());
    for word in text.split_whitespace().chain(["over"]) {
        if !["over", "under", "times", "minus", "from", "least"].contains(&word) {
            term.push(word);
            continue;
        }
        let values = of_term(document, &term);
        combined = Some(match (combined, operator) {
            (Some(left), Some(operator)) => combine(&left, &values, operator),
            _ => values,
        });
        (operator, term) = (Some(word), Vec::new());
    }
    combined.unwrap_or_default()
}

fn of_term(document: &Value, term: &[&str]) -> Vec<Option<f64>> {
    let Some((pointer, functions)) = term.split_last() else { return Vec::new() };
    let values = match pointer.parse() {
        Ok(constant) => vec![Some(constant)],
        Err(_) => select(document, pointer).into_iter().map(number).collect(),
    };
    functions.iter().rev().fold(values, |values, function| vec![reduce(&values, function)])
}

fn combine(left: &[Option<f64>], right: &[Option<f64>], operator: &str) -> Vec<Option<f64>> {
    let count = if left.is_empty() || right.is_empty() { 0 } else { left.len().max(right.len()) };
    let of = |values: &[Option<f64>], at: usize| {
        if values.len() == 1 { values[0] } else { values.get(at).copied().flatten() }
    };
    let apply = |(a, b): (f64, f64)| match operator {
        "times" => a * b,
        "minus" => a - b,
        "from" => b - a,
        "under" => b / a,
        _ => a / b,
    };
    let both = |at: usize| match (of(left, at), of(right, at)) {
        (a, b) if operator == "least" => a.into_iter().chain(b).reduce(f64::min),
        (a, b) => a.zip(b).map(apply),
    };
    (0..count).map(both).collect()
}

/// Reduces the known values to one figure.
pub(super) fn reduce(values: &[Option<f64>], function: &str) -> Option<f64> {
    let mut there: Vec<f64> = values.iter().copied().flatten().collect();
    there.sort_by(f64::total_cmp);
    let count = there.len();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    match function {
        "count" => return Some(values.len() as f64),
        "sum" => return Some(there.iter().sum()),
        _ if count == 0 => return None,
        _ => {}
    }
    Some(match function {
        "min" => there[0],
        "max" => there[count - 1],
        "mean" => mean(&there),
        "median" => f64::midpoint(there[(count - 1) / 2], there[count / 2]),
        // Returns the mean of the highest quarter of the values. Noise mostly makes runs slower,
        // and a single fast run may be due to a core's boost.
        "fastest" => mean(&there[count - count.div_ceil(4)..]),
        "abs" => there[0].abs(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_match_one_value_or_several() {
        let document = json!({
            "a/b": [{"load": 0.1, "of": {"policy": "psq"}, "p99": 3}, {"load": 0.2, "p99": null}],
            "c": {"x": {"ok": true}, "y": {"ok": false}},
        });
        let shown = |pointer: &str| {
            let found: Vec<String> =
                select(&document, pointer).into_iter().map(Value::to_string).collect();
            found.join(" ")
        };
        for (pointer, found) in [
            ("/a~1b/0/p99", "3"),
            ("/a~1b/*/p99", "3 null"),
            ("/a~1b/load=0.1/p99", "3"),
            ("/a~1b/load=0.15..0.3/load", "0.2"),
            ("/a~1b/of.policy=psq,load=0.1/p99", "3"),
            ("/a~1b/of.policy=naive/p99", ""),
            ("/c/*/ok", "true false"),
            ("/c/ok=true/ok", "true"),
            ("/nowhere/at", "null"),
        ] {
            assert_eq!(shown(pointer), found, "{pointer}");
        }
        assert_eq!(select(&document, ""), [&document]);
    }

    #[test]
    fn figures_are_combined_from_left_to_right() {
        let document = json!({"ours": [2, 4, null, 9], "theirs": [1, 2, 3, 3], "one": 2});
        let of = |text: &str| figures(&document, text);
        assert_eq!(of("/ours/*"), [Some(2.0), Some(4.0), None, Some(9.0)]);
        let ratios = [Some(2.0), Some(2.0), None, Some(3.0)];
        assert_eq!(of("/ours/* over /theirs/*"), ratios);
        assert_eq!(of("/ours/* minus /one over 2")[3], Some(3.5));
        assert_eq!(of("median /ours/* over max /theirs/*"), [Some(4.0 / 3.0)]);
        assert_eq!(of("mean /theirs/* times 2"), [Some(4.5)]);
        assert_eq!(of("abs median /one"), [Some(2.0)]);
        assert_eq!(of("/ours/* least /theirs/*")[2..], [Some(3.0), Some(3.0)]);
        assert_eq!((of("/one from 5"), of("/one under 5")), (vec![Some(3.0)], vec![Some(2.5)]));
        assert_eq!(of("/none/* over /one"), []);
        assert_eq!((of("count /ours/*"), of("sum /none/*")), (vec![Some(4.0)], vec![Some(0.0)]));
        let eight: Vec<_> = (1..=8).map(|n| Some(f64::from(n))).collect();
        assert_eq!(reduce(&eight, "fastest"), Some(7.5));
        assert_eq!(reduce(&eight, "median"), Some(4.5));
    }
}
