//! `report.html`: one file that needs nothing else, on a screen, a phone, or paper.

use std::fmt::Write as _;

use curtail_load::{Errors, Report};

use super::document::{Asked, Document};
use super::figures::{Figures, latencies, over_time, parts, rates};
use crate::load::table::{remarks, when};
use crate::plot::distribution::Share;
use crate::plot::format::{count, escape, three};
use crate::plot::html::{figure, list};
use crate::plot::{FIGURE_SIZES, Page};

mod tables;

/// What the words of the report mean.
const READING: [(&str, &str); 7] = [
    (
        "latency",
        "From the time at which a request was meant to be sent to the end of its answer: what a user \
         waits. Where the server stalls, all requests that it holds up have the stall in their latency.",
    ),
    (
        "uncorrected",
        "From when a connection took the request up. Most load generators tell this. It leaves out what a \
         request waited before, and so is too good where the two differ.",
    ),
    (
        "schedule lag",
        "The difference: from the intended time until a connection took the request up. It is large where \
         all connections were busy, or this machine was.",
    ),
    (
        "client send",
        "From there until the system had taken the last byte. Opening a connection is part of it.",
    ),
    (
        "wire to wire",
        "From there until the answer was read: the network, the server, and the way back.",
    ),
    (
        "95 % interval",
        "If the same were measured again and again, 95 of 100 such intervals would hold the true \
         percentile. That neighbors in time are alike is part of it. “unsure”: the run is too short, or \
         changes too much, to tell.",
    ),
    ("—", "A percentile with fewer than 10 samples above it is chance, and not told."),
];

/// Renders the report.
pub(super) fn render(document: &Document<'_>, figures: &Figures<'_>) -> String {
    let report = document.report;
    let (headline, but) = headline(report);
    let lost = match document.samples_lost {
        0 => None,
        lost => Some(format!(
            "{} requests are missing in the table of samples, which was not written fast enough.",
            count(lost)
        )),
    };
    let but: String = but
        .iter()
        .chain(&lost)
        .chain(&remarks(document.report))
        .map(|text| format!(r#"<p class="but">{}</p>"#, escape(text)))
        .collect();
    let main = format!(
        include_str!("page.html"),
        distributions = distributions(figures),
        parts = of_parts(figures),
        over_time = times(figures),
        table = tables::figures(report),
        failures = failures(report),
        asked = list(asked(document)),
        reading = list(READING.map(|(term, text)| (term, text.to_owned()))),
    );
    let summary = escape(&summary(document));
    Page {
        verb: "load",
        title: &escape(&document.plan.target),
        headline: &escape(&headline),
        more: &format!(r#"{but}<p class="summary">{summary}</p>"#),
        main: main.trim_end(),
    }
    .render()
}

/// The verdict in a sentence, and what else there is to say.
pub(super) fn headline(report: &Report) -> (String, Vec<String>) {
    let ms = |ns: u64| format!("{} ms", three(ns as f64 / 1e6));
    let mut within = Vec::new();
    for (share, percentile) in [("half", report.latency_ns.p50), ("99 %", report.latency_ns.p99)] {
        within.extend(percentile.map(|ns| format!("{share} within {}", ms(ns))));
    }
    let rate = three(report.achieved_rate);
    let of = report.offered_rate.map_or(String::new(), |offered| format!(" of {}", three(offered)));
    let within = within.join(", ");
    let measured = match &within[..] {
        "" => format!("{rate}{of} requests per second were answered well."),
        within => format!("{rate}{of} requests per second were answered well: {within}."),
    };
    let mut reasons = report.invalid_because.iter().map(|reason| format!("{reason}."));
    match reasons.next() {
        None => (format!("Valid: {measured}"), report.warning().into_iter().collect()),
        Some(first) => {
            let rest = reasons.map(|reason| format!("Also: {reason}"));
            (format!("Not valid: {first}"), rest.chain([measured]).collect())
        }
    }
}

fn summary(document: &Document<'_>) -> String {
    let Document { plan, host, report, .. } = document;
    let requests = count(report.requests);
    format!(
        "{} measured requests to {}, from {}; seed {}.",
        requests, plan.target, document.started_utc, plan.seed
    ) + &format!(" Sent by {} {} with curtail {}.", host.system, host.kernel, document.curtail)
}

fn distributions(figures: &Figures<'_>) -> String {
    let both = |which| FIGURE_SIZES.map(|size| figures.distribution(which, size));
    let html = figure(
        &latencies(),
        both(Share::Above),
        "<b>Figure 1.</b> The share of requests that took longer than a given time; further left is \
         better. Both scales are logarithmic. The last 10 requests are chance and not drawn.",
    ) + &figure(
        &latencies(),
        both(Share::Below),
        "<b>Figure 2.</b> The share of requests that took at most a given time.",
    );
    match &html[..] {
        "" => r#"<p class="nothing">Too few good answers for a distribution.</p>"#.to_owned(),
        _ => html,
    }
}

fn of_parts(figures: &Figures<'_>) -> String {
    let named = parts(figures.report).into_iter().map(|(name, look)| (name.to_owned(), look));
    figure(
        &named.collect::<Vec<_>>(),
        FIGURE_SIZES.map(|size| figures.parts(size)),
        "<b>Figure 3.</b> What the latency is made of, at its percentiles: the mean parts of the \
         requests around each.",
    )
}

fn times(figures: &Figures<'_>) -> String {
    let html = figure(
        &over_time(),
        FIGURE_SIZES.map(|size| figures.percentiles(size)),
        "<b>Figure 4.</b> Latency over time, on a logarithmic scale. Intervals are as long as their \
         percentile takes, so those of the 99th are the longest.",
    ) + &figure(
        &rates(),
        FIGURE_SIZES.map(|size| figures.rate(size)),
        "<b>Figure 5.</b> Good answers per second, and the rate that was asked for.",
    );
    match &html[..] {
        "" => r#"<p class="nothing">Nothing was measured for long enough.</p>"#.to_owned(),
        _ => html,
    }
}

fn failures(report: &Report) -> String {
    let Errors { connect, tls, timeout, reset, malformed, .. } = report.errors;
    let Errors { status_5xx, status_other, refused, dropped, .. } = report.errors;
    let kinds = [
        ("No connection could be opened", connect),
        ("TLS was not agreed on, or not kept to", tls),
        ("No whole answer in time", timeout),
        ("The server closed before the end of its answer", reset),
        ("The answer is not one of the protocol", malformed),
        ("A bad status of the server (5xx)", status_5xx),
        ("Another bad status", status_other),
        ("An error reply of the protocol", refused),
        ("Never sent: all connections busy, backlog full", dropped),
    ];
    let mut rows = String::new();
    for (kind, count_of) in kinds.into_iter().filter(|(_, count)| *count > 0) {
        let _ = write!(rows, r#"<tr><th scope="row">{kind}</th><td>{}</td></tr>"#, count(count_of));
    }
    if rows.is_empty() {
        return "<p>Every request had a good answer.</p>".to_owned();
    }
    let said = report
        .failures
        .as_ref()
        .map_or(String::new(), |failures| format!("<p>{}.</p>", escape(&when(failures))));
    format!(
        r#"{said}<div class="scroll"><table class="one" aria-label="Failures by kind"><thead><tr><th scope="col">Kind</th><th scope="col">Requests</th></tr></thead><tbody>{rows}</tbody></table></div>"#
    )
}

fn asked(document: &Document<'_>) -> Vec<(&'static str, String)> {
    let Asked { rate, arrivals, duration_s, requests, queries, .. } = &document.plan;
    let plan = &document.plan;
    let pace = match (rate, arrivals) {
        (Some(rate), Some(arrivals)) => format!("open loop, {rate} per second, {arrivals}"),
        _ => "closed loop: each connection asks again once it is answered".to_owned(),
    };
    let mut extent = match (duration_s, requests) {
        (_, Some(requests)) => format!("{} requests", count(*requests)),
        (seconds, None) => format!("{} s", three(seconds.unwrap_or_default())),
    };
    if plan.warmup_s > 0.0 {
        let _ = write!(extent, ", after {} s of warm-up", three(plan.warmup_s));
    }
    if let Some(relative) = plan.until_ci {
        let _ =
            write!(extent, "; less once percentiles are known to ±{} %", three(relative * 100.0));
    }
    let mut what = match queries {
        0 => "one request, the target's own".to_owned(),
        all => format!(
            "{} requests, {}",
            count(*all as u64),
            if plan.shuffle { "at random" } else { "in turn" }
        ),
    };
    if !plan.headers.is_empty() {
        let _ = write!(what, "; headers: {}", plan.headers.join(", "));
    }
    what += &plan.protocol.remarks();
    let waits = if plan.spin { "never sleeping" } else { "sleeping while they wait" };
    let on = plan.processors.as_ref().map_or(String::new(), |on| format!(", on processor {on}"));
    let host = &document.host;
    let processors = host.processors.map_or("?".to_owned(), |processors| processors.to_string());
    vec![
        ("Target", plan.target.clone()),
        ("Pace", pace),
        ("Measured", extent),
        ("Requests", what),
        (
            "Connections",
            format!(
                "at most {}, {} opened; backlog {}",
                plan.connections,
                document.report.connections_opened,
                count(plan.backlog as u64)
            ),
        ),
        ("Time-out", format!("{} s after the intended time", three(plan.timeout_s))),
        ("Threads", format!("{}, {waits}{on}", plan.threads)),
        ("Seed", plan.seed.to_string()),
        (
            "Sent by",
            format!(
                "{} {}, {}, {processors} processors",
                host.system, host.kernel, host.architecture
            ),
        ),
    ]
}
