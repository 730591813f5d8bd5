//! Checks that the page on distributions and arrivals lists all of them, and that its examples can
//! be parsed.

use curtail_dist::Spec;
use curtail_dist::arrivals::{Arrivals, FORMS};

const PAGE: &str = include_str!("../../../../docs/distributions.md");

/// Returns the form and the example of each row of the tables.
fn rows() -> Vec<(&'static str, &'static str)> {
    let cell = |text: &'static str| text.trim().strip_prefix('`')?.strip_suffix('`');
    let row = |line: &'static str| {
        let mut cells = line.strip_prefix('|')?.strip_suffix('|')?.split(" | ");
        Some((cell(cells.next()?)?, cell(cells.last()?)?))
    };
    PAGE.lines().filter_map(row).collect()
}

#[test]
fn every_form_is_documented_with_an_example_that_parses() {
    let distributions = "nothing".parse::<Spec>().expect_err("no distribution").to_string();
    let (_, distributions) = distributions.split_once("use one of ").expect("the list of forms");
    let arrivals = FORMS.split(", ");
    let documented: Vec<&str> = rows().into_iter().map(|(form, _)| form).collect();
    assert_eq!(documented, distributions.split(", ").chain(arrivals).collect::<Vec<_>>());
    for (form, example) in rows() {
        let name = form.split(':').next();
        assert_eq!(example.split(':').next(), name, "{example}");
        // The trace file in the example does not exist.
        let reads = example.parse::<Spec>().is_ok()
            || Arrivals::parse(example, 1e6).is_ok()
            || example.starts_with("trace:");
        assert!(reads, "{example}");
    }
}
