//! Tests the content and the structure of the demo's report.

use roxmltree::{Document, Node};

use super::{picture, render, sample};
use crate::demo::results::{LoadPoint, Results};
use crate::page_check;

fn look_at(results: &Results, look: impl FnOnce(&Document<'_>)) {
    page_check::look_at(&render(results), look);
}

fn with_class<'a>(page: &'a Document<'_>, class: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    page.descendants().filter(move |node| {
        node.attribute("class").is_some_and(|classes| classes.split(' ').any(|name| name == class))
    })
}

fn cell<'a>(results: &'a mut Results, policy: &str, at: usize) -> &'a mut LoadPoint {
    &mut results.policies.get_mut(policy).expect("a policy of the sample")[at]
}

/// All text, with a space between elements.
fn text(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(Node::is_text).filter_map(|node| node.text());
    texts.collect::<Vec<_>>().join(" ").replace('\u{a0}', " ")
}

#[test]
fn the_picture_is_a_document_of_its_own() {
    let picture = picture(&sample::results()).expect("a measured sample");
    let document = Document::parse(&picture).expect("well-formed");
    let root = document.root_element();
    assert!(root.has_tag_name(("http://www.w3.org/2000/svg", "svg")));
    assert!(text(root).contains("--paper") && text(root).contains("99th percentile"));
    let mut nothing = sample::results();
    nothing.policies.clear();
    assert_eq!(super::picture(&nothing), None);
}

#[test]
fn every_plot_describes_its_figures_and_stays_inside() {
    look_at(&sample::results(), |page| {
        let plots: Vec<_> = with_class(page, "plot").collect();
        assert_eq!(plots.len(), 2 + 3 + 2 * 2);
        assert!(text(plots[0]).contains("LÆDGE: 50.4 ms at 10 %"), "{}", text(plots[0]));
        for plot in plots {
            let tags = plot.children().filter(Node::is_element).map(|node| node.tag_name().name());
            assert_eq!(tags.take(2).collect::<Vec<_>>(), ["title", "desc"]);
            let extent = plot.attribute("viewBox").expect("a viewBox").split(' ').map(str::parse);
            let extent: Vec<f64> = extent.map(Result::unwrap).collect();
            for data in plot.descendants().filter_map(|node| node.attribute("d")) {
                assert!(!data.contains("NaN") && !data.contains("inf"), "{data}");
                for pair in data.split(['M', 'L', 'Z']).filter_map(|pair| pair.split_once(' ')) {
                    let (Ok(x), Ok(y)) = (pair.0.parse::<f64>(), pair.1.parse::<f64>()) else {
                        continue;
                    };
                    // Arrow heads are drawn around their own origin.
                    let inside = x <= extent[2] && y <= extent[3] && x >= -10.0 && y >= -10.0;
                    assert!(inside, "({x}, {y}) of {data}");
                }
            }
        }
        // The points of a policy that collapses are off the chart, and their values are printed at
        // the edge.
        let main = with_class(page, "plot").next().expect("the main plot");
        let off = main
            .descendants()
            .filter(|node| node.attribute("class").is_some_and(|class| class.starts_with("off")));
        assert_eq!(off.map(text).collect::<Vec<_>>(), ["↑742", "↑18,600"]);
    });
}

#[test]
fn text_from_outside_is_escaped() {
    let mut results = sample::results();
    let evil = "<script>alert('x')</script>&\"".to_owned();
    let cells = results.policies.remove("naive").expect("in the sample");
    results.policies.insert(evil.clone(), cells);
    results.order[1].clone_from(&evil);
    let setup = &mut results.setup;
    for text in [&mut setup.corpus, &mut setup.honesty, &mut setup.command, &mut setup.hiccup] {
        text.clone_from(&evil);
    }
    cell(&mut results, "laedge", 3).valid = false;
    cell(&mut results, "laedge", 3).invalid_because = vec![evil.clone()];
    assert!(!render(&results).contains("<script"));
    look_at(&results, |page| {
        let texts = page
            .descendants()
            .filter(|node| node.is_text() && node.text().is_some_and(|text| text.contains(&evil)));
        assert!(texts.count() >= 6);
    });
}

#[test]
fn an_unsound_cell_gives_its_reason_and_is_not_compared() {
    let mut results = sample::results();
    let unsound = cell(&mut results, "laedge", 1);
    (unsound.valid, unsound.p99_ms) = (false, Some(1.0));
    unsound.invalid_because = vec!["fell behind".to_owned(), "dropped".to_owned()];
    look_at(&results, |page| {
        let notes = with_class(page, "notes").next().map(text).expect("notes");
        assert!(notes.contains("LÆDGE is not sound at 30 %: fell behind; dropped."), "{notes}");
        let mut best = page.descendants().filter(|node| node.has_tag_name("strong")).map(text);
        assert!(!best.any(|text| text == "1.00"));
    });
}

#[test]
fn a_missing_cell_is_a_gap_and_a_partial_run_is_marked() {
    let mut results = sample::results();
    results.partial = true;
    results.policies.get_mut("laedge").expect("in the sample").remove(2);
    look_at(&results, |page| {
        let warning = with_class(page, "partial").next().map(text).expect("a warning");
        assert!(warning.contains("11 of 12 cells"), "{warning}");
        let main = with_class(page, "plot").next().expect("the main plot");
        let line = main.descendants().find(|node| node.attribute("stroke-width") == Some("3"));
        let path = line.and_then(|node| node.attribute("d")).expect("the line of LÆDGE");
        assert_eq!(path.matches('M').count(), 1, "{path}");
    });
}

#[test]
fn a_run_without_any_figure_is_still_a_page() {
    let mut results = sample::results();
    for cell in results.policies.values_mut().flatten() {
        (cell.p99_ms, cell.p999_ms, cell.copies_per_query) = (None, None, 0.0);
        cell.histogram.reset();
    }
    look_at(&results, |page| {
        assert_eq!(with_class(page, "plot").count(), 1, "the median only");
        assert!(text(page.root()).contains("No 99th percentile was measured."));
    });
    results.policies.clear();
    look_at(&results, |page| assert_eq!(with_class(page, "plot").count(), 0));
    results.loads.clear();
    results.order.clear();
    look_at(&results, |_| ());
}
