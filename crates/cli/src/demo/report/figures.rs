//! The table of all figures.

use std::fmt::Write as _;

use crate::demo::findings::{View, copies_per_query, interval};
use crate::demo::results::Cell;
use crate::plot::format::{NONE, count, escape, policy, three, three_or_none, utilization};

/// The table, and under it why some cells are not sound.
pub(super) fn table(view: View<'_>) -> String {
    let baseline = view.baseline.map_or(String::new(), |name| escape(&policy(name).short));
    let mut notes = Vec::new();
    let mut bodies = String::new();
    for load in &view.results.loads {
        bodies += &group(view, *load, &mut notes);
    }
    let mut html = format!(
        r#"<p class="caption" id="figures-caption"><b>Table 1.</b> All figures, to three digits; load is utilization. The lowest sound 99th percentile at each load is in bold.<span class="hint"> Scroll the table sideways for more.</span></p><div class="scroll" role="region" aria-labelledby="figures-caption" tabindex="0"><table aria-labelledby="figures-caption"><thead><tr><th scope="col">Load</th><th scope="col">Policy</th><th scope="col">p50<span>ms</span></th><th scope="col">p99<span>ms</span></th><th scope="col">p99.9<span>ms</span></th><th scope="col">Copies<span>per query</span></th><th scope="col">Gain in p99<span>over {baseline}</span></th><th scope="col">Offered<span>requests/s</span></th><th scope="col">Achieved<span>requests/s</span></th><th scope="col">Errors<span>requests</span></th></tr></thead>{bodies}</table></div>"#
    );
    if !notes.is_empty() {
        let items: String = notes.iter().map(|note| format!("<li>{note}</li>")).collect();
        let _ = write!(
            html,
            r#"<div class="notes"><p>Not sound, and left out of every comparison:</p><ol>{items}</ol></div>"#
        );
    }
    html
}

/// The policies at one load.
fn group(view: View<'_>, load: f64, notes: &mut Vec<String>) -> String {
    let mut html = String::from("<tbody>");
    let rows = view.policies().count();
    for (i, name) in view.policies().enumerate() {
        html += "<tr>";
        if i == 0 {
            let load = utilization(load);
            let _ = write!(html, r#"<th scope="rowgroup" rowspan="{rows}">{load}</th>"#);
        }
        let short = escape(&policy(name).short);
        match view.cell(name, load) {
            Some(cell) => html += &row(view, name, &short, cell, notes),
            None => {
                let _ = write!(
                    html,
                    r#"<th scope="row">{short}</th><td class="missing" colspan="8">not measured</td>"#
                );
            }
        }
        html += "</tr>";
    }
    html + "</tbody>"
}

fn row(view: View<'_>, name: &str, short: &str, cell: &Cell, notes: &mut Vec<String>) -> String {
    let mut mark = String::new();
    let mut class = "";
    if !cell.valid {
        let because = match &cell.invalid_because[..] {
            [] => "no reason was given".to_owned(),
            reasons => reasons.join("; "),
        };
        let because = escape(&because);
        notes.push(format!("{short} at {}: {because}.", utilization(cell.load)));
        let number = notes.len();
        class = r#" class="unsound""#;
        mark = format!(r#"<sup title="not sound: {because}">{number}</sup>"#);
    }
    let p99 = three_or_none(cell.p99_ms);
    let p99 = match view.best(cell.load) == Some(name) {
        true => format!("<strong>{p99}</strong>"),
        false => p99,
    };
    let gain = match view.gain(name, cell.load) {
        _ if view.baseline == Some(name) => r#"<span class="quiet">baseline</span>"#.to_owned(),
        Some(gain) => interval(gain),
        None => NONE.to_owned(),
    };
    let mut html = format!(r#"<th scope="row">{short}{mark}</th>"#);
    let cells = [
        three_or_none(cell.p50_ms),
        p99,
        three_or_none(cell.p999_ms),
        three_or_none(copies_per_query(cell)),
        gain,
        three(cell.offered_rate),
        three(cell.achieved_rate),
        count(cell.errors),
    ];
    for text in cells {
        let _ = write!(html, "<td{class}>{text}</td>");
    }
    html
}
