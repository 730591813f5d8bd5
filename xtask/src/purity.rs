//! `cargo xtask purity`: the kernel decides, and does nothing else.
//!
//! It compiles without the standard library, which has all clocks, threads and unordered maps, and depends on
//! nothing but generators of random numbers. Only tests may have the standard library back.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::cargo;
use crate::tidy::{Finding, Tree, is_test_code};

const PACKAGE: &str = "curtail-kernel";
const SOURCES: &str = "crates/kernel/src/";

/// The packages that the kernel may depend on, directly or not.
const ALLOWED_PACKAGES: [&str; 2] = ["rand_core", "rand_pcg"];

/// What the crate root must declare.
const DECLARATIONS: [&str; 3] = ["#![no_std]", "#![forbid(unsafe_code)]", "extern crate alloc;"];

/// Checks the kernel and prints what is wrong; false if something is.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let tree = Tree::load(root)?;
    let lib = tree.file(&format!("{SOURCES}lib.rs")).context("the kernel has no lib.rs")?;
    let mut findings = undeclared(&lib.path, &lib.text);
    for file in tree.with_extension("rs") {
        if file.path.starts_with(SOURCES) && !is_test_code(&file.path) {
            findings.extend(standard(&file.path, &file.text));
        }
    }
    findings.extend(dependencies(root)?);
    for finding in &findings {
        println!("{finding}");
    }
    let check = ["check", "--package", PACKAGE, "--lib"];
    let pure = findings.is_empty() && cargo::succeeds(&mut cargo::command(root, &check))?;
    if pure {
        println!("{PACKAGE} is pure");
    }
    Ok(pure)
}

fn dependencies(root: &Path) -> Result<Vec<Finding>> {
    let args = ["tree", "--package", PACKAGE, "--edges", "no-dev", "--target", "all"];
    let format = ["--all-features", "--prefix", "none", "--format", "{p}"];
    let tree = cargo::output(&mut cargo::command(root, &[&args[..], &format[..]].concat()))?;
    Ok(foreign(&tree))
}

/// The packages in the output of `cargo tree` that are not allowed.
fn foreign(tree: &str) -> Vec<Finding> {
    let mut names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| !name.is_empty() && *name != PACKAGE && !ALLOWED_PACKAGES.contains(name));
    let found = |name| {
        let what = format!("the kernel depends on `{name}`");
        Finding::new("crates/kernel/Cargo.toml", 1, what, "drop the dependency")
    };
    names.into_iter().map(found).collect()
}

fn undeclared(path: &str, text: &str) -> Vec<Finding> {
    let declared = |wanted: &str| text.lines().any(|line| line.trim() == wanted);
    let missing = DECLARATIONS.into_iter().filter(|wanted| !declared(wanted));
    let finding = |wanted| {
        Finding::new(path, 1, format!("`{wanted}` is missing"), "put it on a line of its own")
    };
    missing.map(finding).collect()
}

/// Where code gets the standard library back, but for tests. Without that, no path to it compiles.
fn standard(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = "";
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let back = line.contains("extern crate std") && !line.starts_with("//");
        let conditional = line.contains("cfg_attr") && line.contains("no_std");
        if back && before != "#[cfg(test)]" || conditional {
            let what = "the kernel has the standard library";
            findings.push(Finding::new(path, at + 1, what, "use core or alloc"));
        }
        before = line;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_have_the_standard_library() {
        assert_eq!(standard("k.rs", "// extern crate std;\n#[cfg(test)]\nextern crate std;\n"), []);
        for text in ["extern crate std;\n", "#![cfg_attr(not(test), no_std)]\n"] {
            assert_eq!(standard("k.rs", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn declarations_are_required() {
        assert_eq!(undeclared("lib.rs", "// #![no_std]\n").len(), DECLARATIONS.len());
        assert!(undeclared("lib.rs", &DECLARATIONS.join("\n")).is_empty());
    }

    #[test]
    fn only_allowed_packages_are_depended_on() {
        let tree =
            "curtail-kernel v0.1.0 (path)\nrand_core v0.10.1\nserde v1.0.0\nserde v1.0.0 (*)\n";
        let findings = foreign(tree);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().contains("`serde`"));
    }
}
