//! The table of all figures of a run.

use std::fmt::Write as _;

use curtail_load::{Parts, Report, Summary};

use crate::load::out::figures::{parts, values};
use crate::plot::format::{NONE, three};
use crate::plot::html::table;

const COLUMNS: [&str; 7] = ["p50", "p90", "p95", "p99", "p99.9", "max", "mean"];

/// Latencies, how sure they are, and what they are made of.
pub(super) fn figures(report: &Report) -> String {
    let mut head = String::new();
    for name in COLUMNS {
        let _ = write!(head, r#"<th scope="col">{name}<span>ms</span></th>"#);
    }
    let of = |summary: &Summary| {
        let Summary { p50, p90, p95, p99, p999, max, mean } = *summary;
        [p50, p90, p95, p99, p999, max, mean].map(ms)
    };
    let sure = report.latency_ci95_ns;
    let intervals = [sure.p50, sure.p90, sure.p95, sure.p99, sure.p999].map(interval);
    let mut body = String::from("<tbody>");
    body += &row("latency", &of(&report.latency_ns));
    body += &row("95 % interval", &intervals);
    body += &row("uncorrected", &of(&report.uncorrected_ns));
    body += &row("schedule lag", &of(&report.schedule_lag_ns));
    body += "</tbody><tbody>";
    let split = report.split_ns;
    let split = [split.p50, split.p90, split.p95, split.p99, split.p999];
    if split.iter().any(Option::is_some) {
        for (place, (name, _)) in parts(report).into_iter().enumerate() {
            let part = |of: Option<Parts>| ms(of.map(|of| values(&of)[place]));
            body += &row(&format!("of which {name}"), &split.map(part));
        }
    }
    body += "</tbody>";
    let head = format!(r#"<th scope="col">Of good answers</th>{head}"#);
    table("figures", "<b>Table 1.</b> Latencies in milliseconds, to three digits.", &head, &body)
}

fn row(name: &str, cells: &[String]) -> String {
    let mut html = format!(r#"<tr><th scope="row">{name}</th>"#);
    for place in 0..COLUMNS.len() {
        let _ = write!(html, "<td>{}</td>", cells.get(place).map_or("", String::as_str));
    }
    html + "</tr>"
}

fn ms(ns: Option<u64>) -> String {
    ns.map_or_else(|| NONE.to_owned(), |ns| three(ns as f64 / 1e6))
}

fn interval(borders: Option<[u64; 2]>) -> String {
    let ms = |ns: u64| three(ns as f64 / 1e6);
    borders
        .map_or_else(|| "unsure".to_owned(), |[low, high]| format!("{} to {}", ms(low), ms(high)))
}
