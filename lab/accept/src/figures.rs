//! Figures from JSON documents, and functions that reduce several figures to one. NaN stands for a
//! figure that is missing; functions leave it out unless they state otherwise.

use serde_json::Value;

/// Returns the number at a JSON pointer (RFC 6901); `true` is 1 and `false` is 0. NaN if there is
/// none.
pub(crate) fn at(document: &Value, pointer: &str) -> f64 {
    let number = |value: &Value| value.as_f64().or_else(|| Some(value.as_bool()?.into()));
    document.pointer(pointer).and_then(number).unwrap_or(f64::NAN)
}

/// Returns the number at a pointer in each document.
pub(crate) fn each<'a>(documents: impl IntoIterator<Item = &'a Value>, pointer: &str) -> Vec<f64> {
    documents.into_iter().map(|document| at(document, pointer)).collect()
}

/// Returns the text at a pointer: that of a string, or the JSON of any other value.
pub(crate) fn text(document: &Value, pointer: &str) -> String {
    let value = document.pointer(pointer).unwrap_or(&Value::Null);
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the texts at a pointer in each document.
pub(crate) fn texts<'a>(
    documents: impl IntoIterator<Item = &'a Value>,
    pointer: &str,
) -> Vec<String> {
    documents.into_iter().map(|document| text(document, pointer)).collect()
}

/// Returns the elements of a list. None if the value is not a list.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the numbers in a text.
pub(crate) fn numbers(text: &str) -> Vec<f64> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Returns the first number in each text, such as the number of tests that passed in the text
/// behind "test result: ".
pub(crate) fn first_numbers(texts: &[String]) -> Vec<f64> {
    texts.iter().map(|text| numbers(text).first().copied().unwrap_or(f64::NAN)).collect()
}

/// Returns the numbers of all members of the objects at a pointer, such as the counts of errors of
/// all kinds.
pub(crate) fn members<'a>(
    documents: impl IntoIterator<Item = &'a Value>,
    pointer: &str,
) -> Vec<f64> {
    let objects =
        documents.into_iter().filter_map(|document| document.pointer(pointer)?.as_object());
    objects.flat_map(|object| object.values().map(|value| at(value, ""))).collect()
}

/// Returns the outcome of a policy in the results of `curtail sim`, or of a point of a sweep.
pub(crate) fn policy<'a>(results: &'a Value, name: &str) -> &'a Value {
    let outcomes = results.get("outcomes").unwrap_or(results);
    let mut all = outcomes.as_array().into_iter().flatten();
    all.find(|outcome| outcome["policy"] == name).unwrap_or(&Value::Null)
}

/// Returns the first of several values that has these members, such as
/// `{"grid": {"clients": 50}}` for a point of a sweep.
pub(crate) fn find<'a>(values: &'a [Value], members: &Value) -> &'a Value {
    values.iter().find(|value| has(value, members)).unwrap_or(&Value::Null)
}

fn has(value: &Value, members: &Value) -> bool {
    match (value, members) {
        (_, Value::Object(members)) => members.iter().all(|(name, of)| has(&value[name], of)),
        // The steps of a grid add up to values such as 0.30000000000000004.
        (Value::Number(value), Value::Number(wanted)) => {
            value.as_f64().zip(wanted.as_f64()).is_some_and(|(a, b)| (a - b).abs() < 1e-9)
        }
        _ => value == members,
    }
}

/// Returns the p99 of requests with a policy over that with another one, in the same results.
pub(crate) fn p99_over(results: &Value, name: &str, other: &str) -> f64 {
    let p99 = |name| at(policy(results, name), "/request/p99");
    p99(name) / p99(other)
}

/// Combines two lists, figure by figure.
pub(crate) fn with(left: &[f64], right: &[f64], of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    left.iter().zip(right).map(|(left, right)| of(*left, *right)).collect()
}

/// Divides the figures of one list by those of another.
pub(crate) fn over(left: &[f64], right: &[f64]) -> Vec<f64> {
    with(left, right, |left, right| left / right)
}

fn there(figures: &[f64]) -> Vec<f64> {
    let mut there: Vec<f64> = figures.iter().copied().filter(|value| !value.is_nan()).collect();
    there.sort_by(f64::total_cmp);
    there
}

pub(crate) fn min(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::NAN, f64::min)
}

pub(crate) fn max(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::NAN, f64::max)
}

pub(crate) fn mean(figures: &[f64]) -> f64 {
    let there = there(figures);
    there.iter().sum::<f64>() / there.len() as f64
}

pub(crate) fn median(figures: &[f64]) -> f64 {
    let there = there(figures);
    match there.len() {
        0 => f64::NAN,
        count => f64::midpoint(there[(count - 1) / 2], there[count / 2]),
    }
}

/// Returns the mean of the highest quarter of the figures. Noise mostly makes runs slower, and a
/// single fast run may be due to a core's boost.
pub(crate) fn fastest(figures: &[f64]) -> f64 {
    let there = there(figures);
    mean(&there[there.len() - there.len().div_ceil(4)..])
}

/// Returns the share of figures, in percent, for which a condition holds. A missing figure, such as
/// the latency of a policy without a steady state, counts as infinitely high.
pub(crate) fn share(figures: &[f64], holds: impl Fn(f64) -> bool) -> f64 {
    let value = |figure: &&f64| if figure.is_nan() { f64::INFINITY } else { **figure };
    let count = figures.iter().filter(|figure| holds(value(figure))).count();
    100.0 * count as f64 / figures.len() as f64
}

/// Returns the load at which the figures rise above 1, interpolated linearly between two loads. If
/// the second figure is missing, returns the middle of the two loads, because a policy without a
/// steady state counts as infinitely slow. NaN if the figures do not rise above 1.
pub(crate) fn crossing(loads: &[f64], figures: &[f64]) -> f64 {
    let mut points: Vec<(f64, f64)> = loads.iter().copied().zip(figures.iter().copied()).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let crossed = points.windows(2).find_map(|pair| {
        let ((from, before), (to, behind)) = (pair[0], pair[1]);
        match (before < 1.0, behind.is_nan()) {
            (true, true) => Some(f64::midpoint(from, to)),
            (true, false) if behind >= 1.0 => {
                Some(from + (to - from) * (1.0 - before) / (behind - before))
            }
            _ => None,
        }
    });
    crossed.unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_read_and_missing_ones_are_nan() {
        let document = json!([{"policy": "psq", "p99": 3, "ok": true}, {"policy": "a", "x": "y"}]);
        assert_eq!((at(&document, "/0/p99"), at(&document, "/0/ok")), (3.0, 1.0));
        assert!(at(&document, "/1/p99").is_nan());
        assert_eq!(text(policy(&document, "a"), "/x"), "y");
        let sweep = json!({"outcomes": document});
        assert_eq!(at(policy(&sweep, "psq"), "/p99"), 3.0);
        assert!(at(policy(&sweep, "none"), "/p99").is_nan());
    }

    #[test]
    fn values_are_found_by_their_members() {
        let points = json!([
            {"grid": {"T": 10, "load": 0.5}, "case": "low"},
            {"grid": {"T": 10.0, "load": 0.7}, "case": "same"},
        ]);
        let case = |members: Value| text(find(list(&points), &members), "/case");
        assert_eq!(case(json!({"grid": {"T": 10}})), "low");
        assert_eq!(case(json!({"grid": {"T": 10, "load": 0.7}})), "same");
        assert_eq!(case(json!({"case": "same"})), "same");
        assert_eq!(case(json!({"grid": {"T": 20}})), "null");
        let results = json!([
            {"policy": "a", "request": {"p99": 6}}, {"policy": "b", "request": {"p99": 4}},
        ]);
        assert_eq!(p99_over(&results, "a", "b"), 1.5);
        assert!(p99_over(&results, "a", "c").is_nan() && list(&results[0]).is_empty());
    }

    #[test]
    fn texts_contain_numbers() {
        assert_eq!(
            numbers("kill -9, psq: 0 of 600 failed, after 301 ms."),
            [9.0, 0.0, 600.0, 301.0]
        );
        let results = ["ok. 5 passed; 0 failed".to_owned(), "none".to_owned()];
        let [passed, none] = first_numbers(&results)[..] else { panic!("two texts") };
        assert!(passed == 5.0 && none.is_nan());
        let cells = json!({"cells": [{"ok": true}, {"ok": "no"}]});
        assert_eq!(texts(list(&cells["cells"]), "/ok"), ["true", "no"]);
        assert!(list(&cells["none"]).is_empty());
        let runs = [json!({"errors": {"reset": 1, "timeout": 2}}), json!({"errors": {}, "ok": 3})];
        assert_eq!(members(&runs, "/errors"), [1.0, 2.0]);
        assert_eq!(texts(&runs, "/ok"), ["null", "3"]);
    }

    #[test]
    fn figures_are_reduced() {
        let eight: Vec<f64> = (1..=8).map(f64::from).collect();
        assert_eq!((fastest(&eight), median(&eight), mean(&eight)), (7.5, 4.5, 4.5));
        let gaps = [2.0, f64::NAN, 4.0];
        assert_eq!((min(&gaps), max(&gaps), mean(&gaps), median(&gaps)), (2.0, 4.0, 3.0, 3.0));
        assert!(median(&[]).is_nan() && mean(&[]).is_nan() && max(&[]).is_nan());
        assert_eq!(share(&[1.0, 2.0, f64::NAN, 0.5], |x| x > 0.9), 75.0);
        assert_eq!(over(&[4.0, 9.0], &[2.0, 3.0]), [2.0, 3.0]);
    }

    #[test]
    fn curves_cross_between_two_loads() {
        assert_eq!(crossing(&[0.3, 0.1, 0.2], &[1.5, 0.25, 0.5]), 0.25);
        assert!((crossing(&[0.1, 0.2], &[0.5, f64::NAN]) - 0.15).abs() < 1e-12);
        assert!(crossing(&[0.1, 0.2], &[0.5, 0.9]).is_nan());
    }
}
