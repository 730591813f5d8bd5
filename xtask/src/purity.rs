//! `cargo xtask purity`: the kernel decides, and does nothing else.
//!
//! It must compile without the standard library, depend on nothing but generators of random
//! numbers, and mention no clock, thread or unordered map. Compiling for a target that has no
//! standard library would prove the most; where none is installed, the sources are read instead.

use std::path::Path;

use anyhow::{Context as _, Result};
use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

use crate::cargo;
use crate::tidy::{Finding, Tree, is_test_code};

const PACKAGE: &str = "curtail-kernel";
const SOURCES: &str = "crates/kernel/src/";

/// The packages that the kernel may depend on, directly or not.
const ALLOWED_PACKAGES: [&str; 2] = ["rand_core", "rand_pcg"];

/// What the crate root must declare.
const DECLARATIONS: [&str; 3] = ["#![no_std]", "#![forbid(unsafe_code)]", "extern crate alloc;"];

/// Names that the sources may not use, and what to do instead.
const FORBIDDEN_NAMES: [(&str, &str); 6] = [
    ("std", "use core or alloc"),
    ("Instant", "take a Timestamp from the caller"),
    ("SystemTime", "take a Timestamp from the caller"),
    ("HashMap", "its order is random; use a Vec by dense id, or a BTreeMap"),
    ("HashSet", "its order is random; use a Vec by dense id, or a BTreeSet"),
    ("thread", "let the caller own threads"),
];

/// Checks the kernel and prints what is wrong; false if something is.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let mut findings = sources(&Tree::load(root)?)?;
    findings.extend(dependencies(root)?);
    for finding in &findings {
        println!("{finding}");
    }
    let check = ["check", "--package", PACKAGE, "--lib"];
    let compiles = cargo::succeeds(&mut cargo::command(root, &check))?;
    if findings.is_empty() && compiles {
        println!("{PACKAGE} is pure");
    }
    Ok(findings.is_empty() && compiles)
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

fn sources(tree: &Tree) -> Result<Vec<Finding>> {
    let lib = format!("{SOURCES}lib.rs");
    let root = tree.files.iter().find(|file| file.path == lib);
    let mut findings = undeclared(&lib, &root.with_context(|| format!("{lib} is missing"))?.text);
    for file in &tree.files {
        let is_source = file.path.starts_with(SOURCES) && file.path.ends_with(".rs");
        if is_source && !is_test_code(&file.path) {
            findings.extend(forbidden(&file.path, &file.text));
        }
    }
    Ok(findings)
}

fn undeclared(path: &str, text: &str) -> Vec<Finding> {
    let declared = |wanted: &str| text.lines().any(|line| line.trim() == wanted);
    let missing = DECLARATIONS.into_iter().filter(|wanted| !declared(wanted));
    missing
        .map(|wanted| {
            Finding::new(path, 1, format!("`{wanted}` is missing"), "put it on a line of its own")
        })
        .collect()
}

/// The forbidden names in the code; comments, literals and items for tests do not count.
fn forbidden(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    match text.parse::<TokenStream>() {
        Ok(tokens) => search(path, tokens, &mut findings),
        Err(error) => {
            let line = error.span().start().line;
            findings.push(Finding::new(path, line, "this is not Rust", "make it compile"));
        }
    }
    findings
}

fn search(path: &str, tokens: TokenStream, findings: &mut Vec<Finding>) {
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) if is_cfg_test(&group) => skip_item(&mut tokens),
            TokenTree::Group(group) => search(path, group.stream(), findings),
            TokenTree::Ident(ident) => findings.extend(forbidden_name(path, &ident)),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn forbidden_name(path: &str, ident: &Ident) -> Option<Finding> {
    let (name, mend) = FORBIDDEN_NAMES.into_iter().find(|(name, _)| ident == name)?;
    let what = format!("`{name}` in the kernel");
    Some(Finding::new(path, ident.span().start().line, what, mend))
}

/// The brackets of `#[cfg(test)]`.
fn is_cfg_test(group: &Group) -> bool {
    let text: String = group.stream().into_iter().map(|token| token.to_string()).collect();
    group.delimiter() == Delimiter::Bracket && text == "cfg(test)"
}

/// Skips the item that an attribute stands before: it ends with its braces or its semicolon.
fn skip_item(tokens: &mut impl Iterator<Item = TokenTree>) {
    let _ = tokens.find(|token| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_names_are_found_where_they_are_code() {
        let text = "//! std::time is not used\nuse std::time::Instant;\n/// A HashMap\nfn f() {\n    \
                    let x: HashMap<u8, u8> = \"thread\";\n}\n";
        let lines: Vec<String> = forbidden("k.rs", text).iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("k.rs:2: `std` in the kernel; use core"), "{lines:?}");
        assert!(lines[1].starts_with("k.rs:2: `Instant`"), "{lines:?}");
        assert!(lines[2].starts_with("k.rs:5: `HashMap`"), "{lines:?}");
    }

    #[test]
    fn items_for_tests_may_use_what_they_like() {
        let text = "#[cfg(test)]\nmod tests { use std::thread; }\n#[cfg(test)]\nuse std::x;\n\
                    #[cfg(test)]\n#[path = \"t.rs\"]\nmod t;\nfn f() {}\n";
        assert!(forbidden("k.rs", text).is_empty());
        let after = format!("{text}use std::x;\n");
        assert_eq!(forbidden("k.rs", &after).len(), 1);
    }

    #[test]
    fn what_is_not_rust_is_a_finding() {
        assert!(forbidden("k.rs", "fn f( {").iter().any(|f| f.to_string().contains("not Rust")));
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
