//! Checks of pages, for tests.

use roxmltree::Document;

/// Checks that a page is well-formed and self-contained, that its ids are unique and its references
/// exist, and that its tables have names. Passes the page to `look`.
pub(crate) fn look_at(page: &str, look: impl FnOnce(&Document<'_>)) {
    // Apart from its document type, a page is well-formed XML.
    let xml = page.strip_prefix("<!DOCTYPE html>\n").expect("a document type");
    let document = Document::parse(xml).unwrap_or_else(|error| panic!("not well-formed: {error}"));
    let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    for (at, id) in ids.iter().enumerate() {
        assert!(!ids[..at].contains(id), "{id} is there twice");
    }
    for node in document.descendants() {
        assert!(!node.has_tag_name("script"));
        for name in ["href", "src", "srcset", "data"] {
            assert_eq!(node.attribute(name), None, "{:?} loads something", node.tag_name());
        }
        let labels = node.attribute("aria-labelledby").unwrap_or_default();
        for id in labels.split(' ').filter(|id| !id.is_empty()) {
            assert!(ids.contains(&id), "no {id}");
        }
        let has_name = !labels.is_empty() || node.attribute("aria-label").is_some();
        assert!(!node.has_tag_name("table") || has_name, "a table without a name");
    }
    assert!(!page.contains("url(") && !page.contains("@import"));
    look(&document);
}
