//! The document of `--json`. Times are in nanoseconds, as their names state.

use curtail_load::Histogram;
use serde_json::{Value, json};

use super::table::orders;
use crate::agreement::{self, LADDER, SLACK_NS, SLACK_SHARE, at};
use crate::function::Subject;
use crate::method::Method;
use crate::processors::Configuration;
use crate::run::{MethodSlices, Results};
use crate::slice::Slice;

pub(crate) fn document(results: &Results) -> Value {
    let size = results.size;
    let cells = results.cells.iter();
    let cells: Value =
        cells.map(|((subject, method), cell)| one(*subject, *method, cell)).collect();
    let orders = orders(results).into_iter().map(|(method, percent, (right, all))| {
        json!({"method": method.name(), "percentile": percent, "right": right, "pairs": all})
    });
    json!({
        "rate": size.rate,
        "seconds": size.seconds,
        "repetitions": size.repetitions,
        "processors": {
            "generator": results.places.generator,
            "function": results.places.function,
        },
        "rule": {"percentiles": LADDER, "slack_ns": SLACK_NS, "slack_share": SLACK_SHARE},
        "cells": cells,
        "orders": orders.collect::<Value>(),
    })
}

fn one(subject: Subject, method: Method, cell: &MethodSlices) -> Value {
    let (measured, tapped) = (cell.sum(|s| &s.measured), cell.sum(|s| &s.tapped));
    let offset_ns = agreement::offset_ns(&measured, &tapped);
    json!({
        "function": subject.function.name(),
        "configuration": subject.configuration.map(Configuration::name),
        "antagonist": subject.antagonist,
        "method": method.name(),
        "offered_rate": cell.mean(|s| s.offered),
        "achieved_rate": cell.mean(|s| s.achieved),
        "sent": cell.total(|s| s.sent),
        "skipped": cell.total(|s| s.skipped),
        "lost": cell.total(|s| s.lost),
        "unstamped": cell.total(|s| s.unstamped),
        "measured_ns": summary(&measured),
        "tapped_ns": summary(&tapped),
        "added_ns": summary(&cell.sum(|s| &s.added)),
        "offset_ns": offset_ns,
        "highest_percentile": agreement::highest(&measured),
        "agrees_up_to": agreement::up_to(&measured, &tapped, 0.0),
        "agrees_less_offset_up_to": agreement::up_to(&measured, &tapped, offset_ns),
        "turns": cell.slices.iter().map(turn).collect::<Value>(),
    })
}

fn turn(slice: &Slice) -> Value {
    let percentiles = |of: &Histogram<u64>| json!({"p50": at(of, 50.0), "p99": at(of, 99.0), "p999": at(of, 99.9)});
    json!({
        "achieved_rate": slice.achieved,
        "lost": slice.lost,
        "measured_ns": percentiles(&slice.measured),
        "tapped_ns": percentiles(&slice.tapped),
    })
}

/// Percentiles with fewer than ten packets above them are null.
fn summary(of: &Histogram<u64>) -> Value {
    let some = |value: u64| (!of.is_empty()).then_some(value);
    json!({
        "count": of.len(), "min": some(of.min()), "p50": at(of, 50.0), "p90": at(of, 90.0),
        "p99": at(of, 99.0), "p999": at(of, 99.9), "p9999": at(of, 99.99), "max": some(of.max()),
    })
}
