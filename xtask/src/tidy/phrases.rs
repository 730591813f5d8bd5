//! Patterns that certain files must not contain: the `[[phrase]]`s of
//! `xtask/tidy.toml`.

use anyhow::{Context as _, Result};
use regex::Regex;
use serde::Deserialize;

use super::{Finding, Limits, Tree};

/// A pattern that no line of `files` may match.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Phrase {
    /// A regular expression for paths.
    files: String,
    /// A regular expression for paths of `files` to which the rule does not apply.
    except: Option<String>,
    pattern: String,
    /// A comment that permits the pattern on its line.
    pardon: Option<String>,
    fix: String,
}

/// Finds lines that match a forbidden pattern.
pub(super) fn findings(tree: &Tree, limits: &Limits) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for Phrase { files, except, pattern, pardon, fix } in &limits.phrase {
        let compiled = |text: &str| Regex::new(text).with_context(|| text.to_owned());
        let (files, pattern) = (compiled(files)?, compiled(pattern)?);
        let except = except.as_deref().map(compiled).transpose()?;
        let applies = |path: &str| {
            files.is_match(path) && !except.as_ref().is_some_and(|except| except.is_match(path))
        };
        let pardoned = |line: &str| pardon.as_ref().is_some_and(|remark| line.contains(remark));
        for file in tree.files.iter().filter(|file| applies(&file.path)) {
            for (at, line) in file.text.lines().enumerate().filter(|(_, line)| !pardoned(line)) {
                if let Some(found) = pattern.find(line) {
                    let what = format!("`{}`", found.as_str().trim());
                    findings.push(Finding::new(&file.path, at + 1, what, fix));
                }
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_phrases_are_found() {
        let tree = Tree::load(crate::repository().expect("inside a repository")).expect("readable");
        let limits = Limits::read(&tree).expect("limits");
        let (source, test) = ("crates/a/src/b.rs", "crates/a/tests/b.rs");
        let (nap, path) = ("thread::sleep(pause);", concat!("/wo", "rk/x"));
        let pardoned = format!("{nap} // tidy: real time");
        let inside =
            ["https://example.com", "target", "..", "${OUT}"].map(|start| format!("{start}{path}"));
        let assigned = format!("DIR={path}");
        let cases = [
            (source, concat!("  to", "do!()"), true),
            (source, concat!("unimple", "mented!()"), true),
            (source, concat!("// FIX", "ME: x"), true),
            (source, concat!("let X", "X", "XX = 1;"), false),
            ("a.md", concat!("FIX", "ME stands in a document"), false),
            (test, concat!("#[", "ignore]"), true),
            (source, "unbounded_channel()", true),
            (source, "let (tx, rx) = mpsc::channel();", true),
            (source, "let (tx, rx) = mpsc::channel::<u8>();", true),
            (source, "let (tx, rx) = mpsc::channel::<u8>(16);", false),
            (source, "let (tx, rx) = mpsc::channel(16);", false),
            (test, "let (tx, rx) = mpsc::channel();", false),
            (test, nap, true),
            ("crates/a/src/tests.rs", "tokio::time::sleep(pause).await;", true),
            (test, &pardoned, false),
            (source, nap, false),
            ("crates/kernel/src/lib.rs", "extern crate std;", true),
            ("a.md", path, true),
            ("a", &assigned, true),
            ("a.md", &inside[0], false),
            ("a.md", &inside[1], false),
            ("a.md", &inside[2], false),
            ("a.md", &inside[3], false),
            ("a.md", concat!("Optimi", "se it"), true),
            ("a.rs", concat!("fn reutili", "se()"), true),
            ("a.md", "an optimistic guess, optimized, cancelled", false),
            ("LICENSE-MIT", concat!("behavi", "our"), false),
            (source, "let file: File = toml::from_str(text)?;", true),
            ("crates/config-two/src/b.rs", "strsim::damerau_levenshtein(a, b)", true),
            ("crates/a/Cargo.toml", "toml.workspace = true", true),
            ("crates/config/src/read.rs", "use toml::de::DeTable;", false),
            ("lab/a/src/b.rs", "toml::from_str(text)", false),
            ("a.md", "a stage.toml::name", false),
        ];
        for (path, line, found) in cases {
            let findings = findings(&Tree::of(&[(path, line)]), &limits).expect("patterns");
            assert_eq!(!findings.is_empty(), found, "{path}: {line}");
        }
    }
}
