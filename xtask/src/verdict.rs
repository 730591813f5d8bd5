//! Why a measurement is not valid: the kinds of reasons in its document.

use serde_json::{Value, json};

/// The reasons in a document.
pub(crate) fn reasons(document: &Value) -> Vec<&Value> {
    document["invalid_because"].as_array().into_iter().flatten().collect()
}

/// A document in which every reason has a kind and a text.
pub(crate) fn with_kinds(mut document: Value) -> Value {
    match &mut document {
        Value::Array(values) => {
            values.iter_mut().for_each(|value| *value = with_kinds(value.take()));
        }
        Value::Object(members) => {
            for (name, value) in members {
                *value = match value.take() {
                    Value::Array(reasons) if name == "invalid_because" => {
                        reasons.into_iter().map(typed).collect()
                    }
                    other => with_kinds(other),
                };
            }
        }
        _ => {}
    }
    document
}

fn typed(reason: Value) -> Value {
    match reason.as_str() {
        Some(text) => json!({"kind": kind(text), "text": text}),
        None => reason,
    }
}

/// For documents that have sentences only: what these begin with. A generator that fell behind because
/// the server kept all connections busy is not the one at fault.
fn kind(sentence: &str) -> &'static str {
    match sentence.split_once(": ").map_or(sentence, |(beginning, _)| beginning) {
        "fell behind" if sentence.ends_with(" connections busy: use more") => "connections_busy",
        "fell behind" => "fell_behind",
        "fell short" => "fell_short",
        "left out" => "left_out",
        "dropped" => "dropped",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_kind() {
        let document = json!({"cells": [{"invalid_because": [
            {"kind": "fell_short", "text": "fell short: x"},
            "fell behind: 40 of 1050 requests were sent more than 1 ms after their intended times",
            "fell behind: 9 of 10; 8 found all 64 connections busy: use more",
            "interrupted: partial results",
        ]}]});
        let typed = with_kinds(document);
        let reasons = reasons(&typed["cells"][0]);
        let kinds: Vec<&Value> = reasons.iter().map(|reason| &reason["kind"]).collect();
        assert_eq!(kinds, ["fell_short", "fell_behind", "connections_busy", "other"]);
        assert_eq!(reasons[3]["text"], "interrupted: partial results");
    }
}
