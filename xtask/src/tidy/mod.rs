//! `cargo xtask tidy`: checks the repository's own rules. A test also checks these rules.
//!
//! Each rule is a small function that takes the files and returns its findings. To add a rule,
//! write the function and call it in [`check`].

mod circles;
mod documents;
mod locks;
mod orphans;
mod phrases;
mod signatures;
mod source;
mod tree;
pub(crate) mod weight;

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

pub(crate) use tree::{SourceFile, Tree, is_test_code};

/// A place that breaks a rule, printed as `file:line: problem; fix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    /// Counted from 1.
    line: usize,
    problem: String,
    fix: String,
}

impl Finding {
    pub(crate) fn new(
        path: impl Into<String>,
        line: usize,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), line, problem: problem.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.problem, self.fix)
    }
}

/// The rules that are data.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    phrase: Vec<phrases::Phrase>,
}

impl Limits {
    fn read(tree: &Tree) -> Result<Self> {
        const FILE: &str = "xtask/tidy.toml";
        let file = tree.file(FILE).with_context(|| format!("{FILE} is missing"))?;
        toml::from_str(&file.text).context(FILE)
    }
}

/// Returns everything in the files that breaks a rule.
fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let limits = Limits::read(tree)?;
    Ok([
        weight::long_files(tree),
        circles::findings(tree),
        locks::findings(tree)?,
        orphans::findings(tree),
        signatures::findings(tree),
        phrases::findings(tree, &limits)?,
        documents::architecture(tree),
        documents::readme(tree),
        documents::links(tree),
    ]
    .concat())
}

/// Checks the repository and prints the findings. Returns false if there are any findings.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let tree = Tree::load(root)?;
    let findings = check(&tree)?;
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
        let findings = check(&Tree::load(root).expect("readable")).expect("limits");
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }
}
