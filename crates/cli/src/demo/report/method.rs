//! How it was measured: enough to judge it, and to repeat it.

use std::fmt::Write as _;

use crate::demo::findings::View;
use crate::demo::results::Setup;
use crate::plot::format::{count, elapsed, escape, policy, three};

/// One line that says what this is.
pub(super) fn summary(view: View<'_>) -> String {
    let Setup { shards, replicas, slots, requests, elapsed_s, seed, .. } = view.results.setup;
    format!(
        "{} policies at {} loads on {} × {} × {}. {} measured requests for each, seed {seed}; took {}.",
        view.results.order.len(),
        view.results.loads.len(),
        plural(shards, "shard"),
        plural(replicas, "replica"),
        plural(slots, "slot"),
        count(requests),
        elapsed(elapsed_s)
    )
}

fn plural(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The definition list of the setup.
pub(super) fn setup(view: View<'_>) -> String {
    let setup = &view.results.setup;
    let leaves = u64::from(setup.shards) * u64::from(setup.replicas);
    let (service, hiccup) = (escape(&setup.service_time), escape(&setup.hiccup));
    let mean = three(setup.service_mean_ms);
    let entries = [
        (
            "System",
            format!(
                "{} × {} = {leaves} leaves, with {} each. A request asks every shard, and is done \
                 when the last of them has answered.",
                plural(setup.shards, "shard"),
                plural(setup.replicas, "replica"),
                plural(setup.slots, "slot")
            ),
        ),
        ("Corpus", format!("{}, {} documents", escape(&setup.corpus), count(setup.documents))),
        ("Service time", format!("<code>{service}</code> per query, mean P̄ = {mean} ms")),
        ("Hiccups", format!("<code>{hiccup}</code>, on one replica: a second copy may be spared")),
        (
            "Utilization",
            "λ P̄ / (r c): the part of the leaves’ slots that the queries’ own service time fills, \
             for λ queries per second on a shard of r replicas with c slots. Hiccups and second \
             copies come on top."
                .to_owned(),
        ),
        (
            "Load",
            "Open loop: requests are due at times drawn beforehand, however slow the answers are."
                .to_owned(),
        ),
        (
            "Latency",
            "Of whole requests, from the time at which they were due to be sent, so that a system \
             that stalls cannot hide the requests that it holds up. A percentile with fewer than 10 \
             requests above it is not told, nor is a 99.9th one where the load generator was late \
             too often for it. Requests without a good answer have no latency and are counted as \
             errors."
                .to_owned(),
        ),
        (
            "How sure",
            "Intervals of differences are those of a paired bootstrap over 25 blocks of consecutive \
             requests, with a confidence of 95 %: both runs ask the same requests at the same times. \
             A difference whose interval allows a gain and a loss is called undecided."
                .to_owned(),
        ),
        (
            "Real or stretched",
            if setup.honesty.is_empty() { "not said".to_owned() } else { escape(&setup.honesty) },
        ),
        (
            "Requests",
            format!("{} measured per policy and load; seed {}", count(setup.requests), setup.seed),
        ),
        ("Took", elapsed(setup.elapsed_s)),
        ("To repeat", format!("<code class=\"command\">{}</code>", escape(&setup.command))),
    ];
    list(entries.map(|(term, text)| (term.to_owned(), text)))
}

/// What the policies do.
pub(super) fn policies(view: View<'_>) -> String {
    list(view.policies().map(|name| {
        let named = policy(name);
        let code = format!("<code>{}</code>", escape(name));
        let text = match &named.does[..] {
            "" => code,
            does => format!("{code}: {}", escape(does)),
        };
        (escape(&named.short), text)
    }))
}

fn list(entries: impl IntoIterator<Item = (String, String)>) -> String {
    let mut html = String::from("<dl>");
    for (term, text) in entries {
        let _ = write!(html, "<div><dt>{term}</dt><dd>{text}</dd></div>");
    }
    html + "</dl>"
}
