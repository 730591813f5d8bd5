//! `report.html` of `curtail jitter`: one file that needs nothing else.

use std::fmt::Write as _;

use curtail_jitter::Bias;

use super::figures::{CLASSES, Figures, Part, parts};
use super::result::{Found, Hiccup};
use super::table::{gaps, least, machines, often};
use crate::plot::format::{NONE, count, counted, escape, share, three};
use crate::plot::html::{figure, list, table};
use crate::plot::palette::key_of;
use crate::plot::{FIGURE_SIZES, Page};

/// What the words of the report mean.
const READING: [(&str, &str); 7] = [
    (
        "P",
        "The least time that a query took: what the query itself takes. Another replica would need \
         it, too.",
    ),
    (
        "J, IQ-jitter",
        "What an execution took beyond the P of its query: the machine's, the runtime's, the \
         neighbors' doing. Another replica would not have had it at that moment.",
    ),
    (
        "hiccup",
        "An execution from the slow component of J, where a test finds two modes. Its duration is \
         how much longer its J is than that of the others.",
    ),
    (
        "in between",
        "Executions from a component between the body of J and the hiccups, which is neither: \
         often the second of two ways in which a server answers, or short pauses of the machine.",
    ),
    (
        "the machine's",
        "How often, and for how long, a loop that does nothing was stopped on the same processors: a \
         leaf would have been stopped as well.",
    ),
    (
        "95 % interval",
        "If the same were measured again and again, 95 of 100 such intervals would hold the truth. \
         That hiccups come in clusters is part of it. Where none were found, as many as are beyond the \
         clearest valley of J, however doubtful, could be some: it ends there.",
    ),
    (
        "too high by",
        "The least of some executions is above the least possible. How far still is estimated from \
         the least of half as many.",
    ),
];

/// Renders the report.
pub(super) fn render(figures: &Figures<'_>) -> String {
    let found = figures.found;
    let main = format!(
        include_str!("page.html"),
        components = components(figures),
        table = means(found),
        classes = classes(figures),
        ranked = ranked(figures),
        hiccups = hiccups(found),
        causes = causes(found),
        measured = list(measured(found)),
        reading = list(READING.map(|(term, text)| (term, text.to_owned()))),
    );
    let partial = if found.partial {
        let why = found.ended_because.as_ref().map_or("it was interrupted", |why| &why.text);
        format!(r#"<p class="partial" role="note"><strong>Partial:</strong> {}.</p>"#, escape(why))
    } else {
        String::new()
    };
    let missed = found.rate_missed.as_ref().map(|why| &why.text).map_or(String::new(), |why| {
        format!(r#"<p class="partial" role="note"><strong>But</strong> {}.</p>"#, escape(why))
    });
    let summary = format!(
        "{}, {} executions{}: {} ms on average, of which {} ms are P.",
        counted(found.queries, "query", "queries"),
        count(found.executions as u64),
        if found.unloaded { " one at a time" } else { "" },
        three(found.service_ns.mean / 1e6),
        three(found.p_ns.mean / 1e6),
    );
    Page {
        verb: "jitter",
        title: &escape(&found.target),
        headline: &escape(&found.verdict.text),
        more: &format!(r#"{partial}{missed}<p class="summary">{}</p>"#, escape(&summary)),
        main: main.trim_end(),
    }
    .render()
}

fn components(figures: &Figures<'_>) -> String {
    figure(
        &parts(figures.found),
        FIGURE_SIZES
            .map(|(width, height, class, end)| figures.components(((width, height), class, end))),
        "<b>Figure 1.</b> How often P of a query, and J and P + J of an execution, are as long as a \
         given time or longer. Both scales are logarithmic. The shortest 5 % are not drawn.",
    )
}

/// Table 6.1 of document 000.
fn means(found: &Found) -> String {
    let mut head = r#"<th scope="col">Queries</th>"#.to_owned();
    for name in ["mean P + J", "mean P", "mean J"] {
        let _ = write!(head, r#"<th scope="col">{name}<span>ms</span></th>"#);
    }
    head += r#"<th scope="col">Hiccups<span>of executions</span></th><th scope="col">Duration<span>ms</span></th>"#;
    let mut body = "<tbody>".to_owned();
    let mut row = |name: &str, means: [f64; 3], hiccup: &Hiccup| {
        let _ = write!(body, r#"<tr><th scope="row">{}</th>"#, escape(name));
        for mean in means {
            let _ = write!(body, "<td>{}</td>", three(mean / 1e6));
        }
        let duration = hiccup.duration_ns.map_or(NONE.to_owned(), |ns| three(ns / 1e6));
        let _ = write!(body, "<td>{}</td><td>{duration}</td></tr>", share(hiccup.probability));
    };
    let Found { service_ns, p_ns, j_ns, .. } = found;
    row("all", [service_ns.mean, p_ns.mean, j_ns.mean], &found.seen);
    for class in found.classes.iter().filter(|_| found.classes.len() > 1) {
        let name = if class.class.is_empty() { "(no class)" } else { &class.class };
        row(name, [class.service_ns.mean, class.p_ns.mean, class.j_ns.mean], &class.seen);
    }
    body += "</tbody>";
    let bias = match found.p_ns.bias {
        Some(Bias { ns, share: part, .. }) => format!(
            " {}, and so too high by about {} ms ({}).",
            least(found),
            three(ns.max(0.0) / 1e6),
            share(part.max(0.0)),
        ),
        None => String::new(),
    };
    let caption = format!("<b>Table 1.</b> What an execution takes on average.{bias}");
    table("means", &caption, &head, &body)
}

/// Figure 6.1 of document 000.
fn classes(figures: &Figures<'_>) -> String {
    let classes = figures.classes();
    let panels: String = Part::ALL.iter().filter_map(|part| figures.by_class(*part)).collect();
    if classes.is_empty() || panels.is_empty() {
        return String::new();
    }
    let mut key = vec![("all".to_owned(), crate::plot::palette::look(0))];
    key.extend(classes.into_iter().map(|(_, name, look)| (name, look)));
    let more = match figures.found.classes.len().saturating_sub(CLASSES) {
        0 => String::new(),
        more => format!(" {} more are in Table 1.", counted(more, "class", "classes")),
    };
    let key = key_of(&key, "");
    format!(
        r#"<section aria-labelledby="classes"><h2 id="classes">By class</h2><figure>{key}<div class="row three">{panels}</div><figcaption><b>Figure 2.</b> The same of each class of queries: P, J, and P + J.{more}</figcaption></figure></section>"#
    )
}

/// Figure 6.2 of document 000.
fn ranked(figures: &Figures<'_>) -> String {
    let named = parts(figures.found);
    let key: Vec<_> =
        named.into_iter().filter(|(name, _)| ["P", "J"].contains(&name.as_str())).collect();
    let caption = "<b>Figure 3.</b> J of single executions (dots), over their queries in the order of \
                   P (the line), on a logarithmic scale. Of many executions it is a random sample; \
                   the shortest 5 % are not drawn.";
    let whole = FIGURE_SIZES
        .map(|(width, height, class, end)| figures.ranked(((width, height), class, end)));
    let mut html = figure(&key, whole, caption);
    let panels: String = figures
        .classes()
        .into_iter()
        .filter_map(|(at, name, _)| {
            let panel = figures.ranked_class(at, &name)?;
            Some(format!("<div><p class=\"caption\"><b>{}</b></p>{panel}</div>", escape(&name)))
        })
        .collect();
    if !panels.is_empty() {
        let _ = write!(
            html,
            r#"<figure><div class="row two">{panels}</div><figcaption><b>Figure 4.</b> The same of each class.</figcaption></figure>"#
        );
    }
    html
}

fn hiccups(found: &Found) -> String {
    let mut head = r#"<th scope="col">Whose</th>"#.to_owned();
    for (name, unit) in [
        ("Probability", "of an execution"),
        ("95 % interval", ""),
        ("Duration", "ms"),
        ("95 % interval", "ms"),
    ] {
        let _ = write!(head, r#"<th scope="col">{name}<span>{unit}</span></th>"#);
    }
    let ms = |ns: f64| three(ns / 1e6);
    let mut body = "<tbody>".to_owned();
    for (name, hiccup) in [("seen", &found.seen), ("the leaf's own", &found.hiccup)] {
        let [low, high] = hiccup.probability_ci95.map(share);
        let duration = hiccup.duration_ns.map_or(NONE.to_owned(), ms);
        let borders = hiccup
            .duration_ci95
            .map_or(NONE.to_owned(), |[low, high]| format!("{} to {}", ms(low), ms(high)));
        let _ = write!(
            body,
            r#"<tr><th scope="row">{name}</th><td>{}</td><td>{low} to {high}</td><td>{duration}</td><td>{borders}</td></tr>"#,
            share(hiccup.probability),
        );
    }
    let machines = machines(found).map(|(of, duration)| ("the machine's", of, duration));
    let between = found
        .intermediate
        .iter()
        .map(|of| ("in between", of.probability, Some(of.duration_ns)))
        .chain(machines);
    for (name, probability, duration) in between {
        let duration = duration.map_or(NONE.to_owned(), ms);
        let _ = write!(
            body,
            r#"<tr><th scope="row">{name}</th><td>{}</td><td></td><td>{duration}</td><td></td></tr>"#,
            share(probability)
        );
    }
    body += "</tbody>";
    let caption = format!("<b>Table 2.</b> Hiccups; {}.", escape(&gaps(found)));
    table("hiccups", &caption, &head, &body)
}

fn causes(found: &Found) -> String {
    let Some(causes) = found.causes.as_ref().filter(|causes| !causes.0.is_empty()) else {
        let why = if found.seen.bimodal { &found.leaf.text } else { "there are no hiccups" };
        return format!("<p>No likely causes: {}.</p>", escape(why));
    };
    let mut body = "<tbody>".to_owned();
    for likely in &causes.0 {
        let _ = write!(
            body,
            r#"<tr><th scope="row">{}</th><td>{}</td></tr>"#,
            likely.cause.text(),
            count(likely.hiccups)
        );
    }
    body += "</tbody>";
    let caption = format!(
        "<b>Table 3.</b> Likely causes of what was seen, by what the kernel counted for {} meanwhile.",
        escape(&found.leaf.text)
    );
    let head = r#"<th scope="col">Cause</th><th scope="col">Hiccups</th>"#;
    table("causes", &caption, head, &body)
}

fn measured(found: &Found) -> Vec<(&'static str, String)> {
    let pace = match found.rate {
        Some(rate) => format!("{rate} per second, Poisson arrivals"),
        None => "one query at a time: none waited for another".to_owned(),
    };
    let enough = match found.enough {
        "converged" => "P has converged",
        "at-most" => "as often as asked for",
        _ => "it ended before P had converged",
    };
    let fit = &found.fit;
    vec![
        ("Target", found.target.clone()),
        ("Leaf", found.leaf.text.clone()),
        ("Pace", pace),
        ("Repetitions", format!("{}; {enough}", often(found))),
        ("Failed", found.errors.to_string()),
        (
            "Fit",
            format!(
                "a mixture of {} to the logarithm of J; at most {} of the executions off \
                 (Kolmogorov–Smirnov). {}",
                counted(fit.components, "normal distribution", "normal distributions"),
                share(fit.distance),
                match fit.ashman_d {
                    Some(d) => format!("Hiccups are apart from the others by D = {}.", three(d)),
                    None => format!("One mode: a valley by chance has p = {}.", three(fit.p_value)),
                }
            ),
        ),
        ("Samples", format!("{} (for curtail advise and curtail sim)", found.samples)),
    ]
}
