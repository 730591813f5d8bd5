//! `cargo xtask tidy`: the repository's own rules, checked by a test as well.
//!
//! Each rule is one small function from the files to what it found. To add one, write it and name
//! it in [`check`].

mod documents;
mod phrases;
mod size;
mod tree;

use std::fmt;
use std::path::Path;

use anyhow::Result;

pub(crate) use tree::{Tree, is_test_code};

/// A place that breaks a rule: `file:line: what; mend`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    /// Counted from 1.
    line: usize,
    what: String,
    mend: String,
}

impl Finding {
    pub(crate) fn new(
        path: impl Into<String>,
        line: usize,
        what: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), line, what: what.into(), mend: mend.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.what, self.mend)
    }
}

/// Everything in the files that breaks a rule.
fn check(tree: &Tree) -> Vec<Finding> {
    [
        size::long_files(tree),
        size::median(tree),
        phrases::leftovers(tree),
        documents::architecture(tree),
        documents::readme(tree),
        documents::links(tree),
    ]
    .concat()
}

/// Checks the repository and prints what it finds; false if that is anything.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let tree = Tree::load(root)?;
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("{} files are tidy", tree.files.len());
    }
    Ok(findings.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let root = crate::repository().expect("inside a repository");
        let findings = check(&Tree::load(root).expect("readable"));
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }

    #[test]
    fn findings_name_the_place_and_the_mend() {
        let finding = Finding::new("a.rs", 3, "too long", "split it");
        assert_eq!(finding.to_string(), "a.rs:3: too long; split it");
    }
}
