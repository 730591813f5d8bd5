//! What the report says of a run, and that it is sound as a document.

use roxmltree::{Document, Node};

use super::{picture, render, sample};
use crate::demo::results::{Cell, Results};

/// The page as XML, which it is but for the document type.
fn parse(page: &str) -> Document<'_> {
    let xml = page.strip_prefix("<!DOCTYPE html>\n").expect("a document type");
    Document::parse(xml).unwrap_or_else(|error| panic!("not well-formed: {error}"))
}

fn with_class<'a>(page: &'a Document<'_>, class: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    page.descendants().filter(move |node| {
        node.attribute("class").is_some_and(|classes| classes.split(' ').any(|name| name == class))
    })
}

fn cell<'a>(results: &'a mut Results, policy: &str, load: f64) -> &'a mut Cell {
    let cells = results.policies.get_mut(policy).expect("a policy of the sample");
    cells.iter_mut().find(|cell| (cell.load - load).abs() < 1e-9).expect("a load of the sample")
}

/// All text, with a space between elements.
fn text(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(Node::is_text).filter_map(|node| node.text());
    texts.collect::<Vec<_>>().join(" ").replace('\u{a0}', " ")
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    let page = render(&sample::results());
    let document = parse(&page);
    assert!(!document.descendants().any(|node| node.has_tag_name("script")));
    for node in document.descendants() {
        for name in ["href", "src", "srcset", "data"] {
            assert_eq!(node.attribute(name), None, "{:?} loads something", node.tag_name());
        }
    }
    assert!(!page.contains("url(") && !page.contains("@import"));
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
fn ids_are_unique_and_references_lead_somewhere() {
    let page = render(&sample::results());
    let document = parse(&page);
    let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    for (i, id) in ids.iter().enumerate() {
        assert!(!ids[..i].contains(id), "{id} is there twice");
    }
    for node in document.descendants() {
        let labels = node.attribute("aria-labelledby").unwrap_or_default();
        for id in labels.split(' ').filter(|id| !id.is_empty()) {
            assert!(ids.contains(&id), "no {id}");
        }
    }
}

#[test]
fn every_plot_has_a_title_and_says_its_figures() {
    let page = render(&sample::results());
    let document = parse(&page);
    let plots: Vec<_> = with_class(&document, "plot").collect();
    assert!(plots.len() >= 6, "{}", plots.len());
    for plot in &plots {
        let tags = plot.children().filter(Node::is_element).map(|node| node.tag_name().name());
        assert_eq!(tags.take(2).collect::<Vec<_>>(), ["title", "desc"]);
    }
    let main = text(plots[0]);
    assert!(main.contains("LÆDGE: 50.4 ms at 10 %"), "{main}");
}

#[test]
fn nothing_is_drawn_outside_of_a_plot() {
    let page = render(&sample::results());
    let document = parse(&page);
    for plot in with_class(&document, "plot") {
        let extent =
            plot.attribute("viewBox").expect("a viewBox").split(' ').map(str::parse::<f64>);
        let extent: Vec<f64> = extent.map(Result::unwrap).collect();
        for path in plot.descendants().filter(|node| node.has_tag_name("path")) {
            let data = path.attribute("d").expect("path data");
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
}

#[test]
fn what_collapses_leaves_the_chart_and_is_told() {
    let page = render(&sample::results());
    let document = parse(&page);
    let main = with_class(&document, "plot").next().expect("the main plot");
    let off: Vec<String> = main
        .descendants()
        .filter(|node| node.attribute("class").is_some_and(|class| class.starts_with("off")))
        .map(text)
        .collect();
    assert_eq!(off, ["↑742", "↑7,980", "↑18,600", "↑611"]);
    let ticks = with_class(&document, "tick").map(text).collect::<Vec<_>>();
    assert!(!ticks.contains(&"20,000".to_owned()), "{ticks:?}");
}

#[test]
fn text_from_outside_is_escaped() {
    let mut results = sample::results();
    let evil = "<script>alert('x')</script>&\"".to_owned();
    let cells = results.policies.remove("naive").expect("in the sample");
    results.policies.insert(evil.clone(), cells);
    for name in results.order.iter_mut().filter(|name| *name == "naive") {
        name.clone_from(&evil);
    }
    results.setup.corpus.clone_from(&evil);
    results.setup.honesty.clone_from(&evil);
    results.setup.command.clone_from(&evil);
    results.setup.service_time.clone_from(&evil);
    results.setup.hiccup.clone_from(&evil);
    cell(&mut results, "laedge", 0.7).valid = false;
    cell(&mut results, "laedge", 0.7).invalid_because = vec![evil.clone()];
    let page = render(&results);
    assert!(!page.contains("<script"));
    let document = parse(&page);
    let told = document.descendants().filter(|node| node.text() == Some(&evil)).count();
    assert!(told >= 5, "{told}");
}

#[test]
fn an_unsound_cell_gives_its_reason_and_is_not_compared() {
    let mut results = sample::results();
    let unsound = cell(&mut results, "laedge", 0.3);
    unsound.valid = false;
    unsound.p99_ms = Some(1.0);
    unsound.invalid_because = vec!["fell behind".to_owned(), "dropped".to_owned()];
    let page = render(&results);
    let document = parse(&page);
    let notes = with_class(&document, "notes").next().expect("notes");
    assert!(text(notes).contains("LÆDGE at 30 %: fell behind; dropped."), "{}", text(notes));
    let best: Vec<String> =
        document.descendants().filter(|node| node.has_tag_name("strong")).map(text).collect();
    assert!(!best.contains(&"1.00".to_owned()), "{best:?}");
}

#[test]
fn a_missing_cell_is_a_gap_and_a_partial_run_says_so() {
    let mut results = sample::results();
    results.partial = true;
    results.policies.get_mut("laedge").expect("in the sample").remove(3);
    let page = render(&results);
    let document = parse(&page);
    let warning = with_class(&document, "partial").next().expect("a warning");
    assert!(text(warning).contains("34 of 35 cells"), "{}", text(warning));
    assert_eq!(with_class(&document, "missing").count(), 1);
    let main = with_class(&document, "plot").next().expect("the main plot");
    let line = main.descendants().find(|node| node.attribute("stroke-width") == Some("3"));
    let path = line.and_then(|node| node.attribute("d")).expect("the line of LÆDGE");
    assert_eq!(path.matches('M').count(), 2, "{path}");
}

#[test]
fn a_run_without_any_cell_is_still_a_page() {
    let mut results = sample::results();
    results.partial = true;
    results.policies.clear();
    let page = render(&results);
    let document = parse(&page);
    assert_eq!(with_class(&document, "plot").count(), 0);
    assert_eq!(with_class(&document, "missing").count(), 35);
    results.loads.clear();
    results.order.clear();
    parse(&render(&results));
}

#[test]
fn a_single_load_without_percentiles_is_still_a_page() {
    let mut results = sample::results();
    results.loads = vec![0.2];
    for cell in results.policies.values_mut().flatten() {
        (cell.p99_ms, cell.p999_ms) = (None, None);
        cell.copies_per_query = 0.0;
        cell.ccdf.clear();
    }
    let page = render(&results);
    let document = parse(&page);
    let plots: Vec<String> = with_class(&document, "plot").map(text).collect();
    assert_eq!(plots.len(), 1, "the median only: {plots:?}");
    assert!(text(document.root()).contains("No 99th percentile was measured."));
}

#[test]
fn a_tail_that_is_left_out_has_its_reason() {
    let mut results = sample::results();
    let at_10 = |results: &Results| {
        let page = render(results);
        let document = parse(&page);
        let captions = document.descendants().filter(|node| node.has_tag_name("figcaption"));
        let caption = captions.map(text).find(|text| text.contains("Figure 3."));
        caption.expect("the tails")
    };
    assert!(!at_10(&results).contains("Left out at 10 %"));
    cell(&mut results, "random", 0.1).ccdf.clear();
    cell(&mut results, "naive", 0.1).valid = false;
    let caption = at_10(&results);
    assert!(caption.contains("Left out at 10 %, being unsound: Naive hedge."), "{caption}");
    assert!(caption.contains("Left out at 10 %, having too few samples: Random."), "{caption}");
}

#[test]
fn a_tail_ends_above_a_p99_9_that_is_withheld() {
    let mut results = sample::results();
    let said = |results: &Results| {
        let page = render(results);
        let document = parse(&page);
        let mut plots = with_class(&document, "plot").map(text);
        plots.find(|text| text.contains("Distribution of latency at 10 %")).expect("a tail")
    };
    assert!(said(&results).contains("LÆDGE: 0.0"), "{}", said(&results));
    cell(&mut results, "laedge", 0.1).p999_ms = None;
    assert!(said(&results).contains("LÆDGE: 0.1"), "{}", said(&results));
}
