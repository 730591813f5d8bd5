//! The page of `--out`: a plot of the first server's queue over time.

use std::path::Path;

use curtail_sim::{Outcome, ServerLoad};

use crate::exit::Stop;
use crate::files::write_page;
use crate::plot::axes::Caption;
use crate::plot::curves::{Axis, Curve, Curves, draw};
use crate::plot::format::{escape, policy};
use crate::plot::palette::{Look, look};
use crate::plot::{FIGURE_SIZES, Page, html};
use crate::say;

/// Writes `queue.html`.
pub(super) fn write(out: &Path, outcomes: &[Outcome]) -> Result<(), Stop> {
    let path = write_page(out, "queue.html", &render(outcomes))?;
    say::aside(format_args!("the queue is drawn in {}", path.display()));
    Ok(())
}

fn render(outcomes: &[Outcome]) -> String {
    let loads = || {
        let named = |of: &Outcome| Some((of.policy.clone(), of.servers.clone()?));
        outcomes.iter().filter_map(named).enumerate()
    };
    let curve = |(at, (name, load)): (usize, (String, ServerLoad))| Curve {
        name: policy(&name).short.to_owned(),
        look: look(at + 1),
        points: (0..).zip(&load.queue).map(|(at, most)| point(&load, at, *most)).collect(),
    };
    let curves: Vec<Curve> = loads().map(curve).collect();
    let most = |curve: &Curve| curve.points.iter().map(|point| point.1).fold(0.0, f64::max);
    let spikes: Vec<String> =
        curves.iter().map(|curve| format!("{} with {}", most(curve), curve.name)).collect();
    let headline = format!("At most {} requests at the first server.", spikes.join(", "));
    let key: Vec<(String, Look)> =
        curves.iter().map(|curve| (curve.name.clone(), curve.look)).collect();
    let charts = FIGURE_SIZES.map(|(width, height, class, end)| {
        let all = || curves.iter().flat_map(|curve| &curve.points);
        let last = all().map(|point| point.0).max_by(f64::total_cmp)?;
        let mut x = Axis::linear("s", 0.0, last);
        x.ends.1 = last;
        x.ticks.retain(|(at, _)| *at <= last);
        let chart = Curves {
            caption: Caption {
                id: format!("queue{end}"),
                title: "The queue of the first server over time".to_owned(),
                description: headline.clone(),
            },
            x,
            y: Axis::linear(
                "Requests at the server",
                0.0,
                curves.iter().map(most).fold(1.0, f64::max),
            ),
            right: &[],
            curves: &curves,
            size: (width, height),
        };
        Some(draw(&chart, class))
    });
    let caption = "The highest number of requests at the server, queued or executing, per window \
                   of the first replication.";
    Page {
        verb: "sim",
        title: "The queue of a server that clients share",
        headline: &escape(&headline),
        more: "",
        main: &html::figure(&key, charts, caption),
    }
    .render()
}

/// A point at the end of its window.
fn point(load: &ServerLoad, at: usize, most: u32) -> (f64, f64) {
    ((at + 1) as f64 * load.window_ns as f64 / 1e9, f64::from(most))
}
