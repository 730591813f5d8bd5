//! Files of a crate that import each other.
//!
//! A module and the modules inside it may use each other. For any other pair of files, only one of
//! the two may use the other, unless `xtask/capabilities/tidy.toml` lists the pair with a reason.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Limits, Tree, is_test_code};

/// Circles that are not allowed.
pub(super) fn findings(tree: &Tree, limits: &Limits) -> Vec<Finding> {
    let allowed = |circle: &[String]| {
        limits.circle.iter().any(|of| circle.iter().all(|path| of.files.contains(path)))
    };
    let circles = circles(tree).into_iter().filter(|circle| !allowed(circle));
    circles
        .map(|circle| {
            let what = format!("it imports, and is imported by, {}", circle[1..].join(" and "));
            let fix = "move what both need, or add the circle and its reason to tidy.toml";
            Finding::new(&*circle[0], 1, what, fix)
        })
        .collect()
}

/// Returns every pair of files that import each other.
pub(super) fn circles(tree: &Tree) -> Vec<Vec<String>> {
    let mut modules: BTreeMap<(&str, Vec<&str>), (&str, &str)> = BTreeMap::new();
    for file in tree.with_extension("rs") {
        if let Some((room, inside)) = file.path.split_once("/src/")
            && !is_test_code(&file.path)
        {
            modules.insert((room, module(inside)), (&file.path, &file.text));
        }
    }
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for ((room, module), (path, text)) in &modules {
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for used in uses(code, module) {
            let used: Vec<&str> = used.iter().map(String::as_str).collect();
            // Finds the longest prefix of the path that is a file.
            let found = (1..=used.len()).rev().find_map(|length| {
                let target = &used[..length];
                modules.get(&(*room, target.to_vec())).map(|(path, _)| (target, *path))
            });
            let Some((target, other)) = found else { continue };
            if !target.starts_with(module) && !module.starts_with(target) {
                edges.entry(path).or_default().insert(other);
            }
        }
    }
    let mutual = |(from, to): (&&str, &&str)| edges.get(to).is_some_and(|back| back.contains(from));
    let pairs = edges.iter().flat_map(|(from, tos)| tos.iter().map(move |to| (from, to)));
    let pairs = pairs.filter(|pair| pair.0 < pair.1 && mutual(*pair));
    pairs.map(|(from, to)| vec![(*from).to_owned(), (*to).to_owned()]).collect()
}

/// Returns the module path of a file in `src`.
fn module(inside: &str) -> Vec<&str> {
    let path = inside.strip_suffix(".rs").unwrap_or(inside);
    let mut parts: Vec<&str> = path.split('/').collect();
    if matches!(parts.last(), Some(&"mod" | &"lib" | &"main")) {
        parts.pop();
    }
    parts
}

/// Returns the paths inside the crate that the code uses, from the root of the crate.
fn uses(code: &str, module: &[&str]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for line in code.split_inclusive(['\n', ';']).filter(|line| !line.trim().starts_with("//")) {
        for (start, base) in [("crate::", 0), ("super::", module.len().saturating_sub(1))] {
            for (at, _) in line.match_indices(start) {
                let whole = &code[line.as_ptr() as usize - code.as_ptr() as usize + at..];
                let before = line[..at].chars().next_back();
                if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                    let base: Vec<String> =
                        module[..base].iter().map(ToString::to_string).collect();
                    names(&whole[start.len()..], base, &mut found);
                }
            }
        }
    }
    found
}

/// Parses `a::b`, `{a, b::c}` and so on, appends the paths with `base` as their prefix, and returns
/// the rest of the text.
fn names<'a>(mut text: &'a str, mut base: Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    loop {
        text = text.trim_start();
        if let Some(inner) = text.strip_prefix('{') {
            text = inner;
            loop {
                text = names(text, base.clone(), found).trim_start();
                match text.strip_prefix(',') {
                    Some(rest) => text = rest,
                    None => return text.strip_prefix('}').unwrap_or(text),
                }
            }
        }
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        match name {
            "super" => drop(base.pop()),
            "" => {}
            name => base.push(name.to_owned()),
        }
        match rest.strip_prefix("::") {
            Some(rest) if end > 0 => text = rest,
            _ => {
                found.push(base);
                return rest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;\nuse a::A;\n"),
            ("crates/x/src/a.rs", "use std::fmt;\nuse crate::{b::{self, B}, c::{self, d::D}};\n"),
            ("crates/x/src/b.rs", "//! crate::a\nuse crate::c::C;\n"),
            ("crates/x/src/c/mod.rs", "mod d;\nfn f() { super::a::f() }\n"),
            ("crates/x/src/c/d.rs", "use super::C;\n#[cfg(test)]\nmod tests {\nuse crate::a;\n}\n"),
        ];
        let circles = circles(&Tree::of(&files));
        let circle = ["crates/x/src/a.rs", "crates/x/src/c/mod.rs"];
        assert_eq!(circles, [circle], "a module and its own submodules are not a circle");
        let limits = |files: &[&str]| {
            let files = files.iter().map(ToString::to_string).collect();
            let reason = "why".to_owned();
            Limits { circle: vec![super::super::Circle { files, reason }], ..Limits::default() }
        };
        assert_eq!(findings(&Tree::of(&files), &limits(&circle)), []);
        assert_eq!(findings(&Tree::of(&files), &limits(&circle[..1])).len(), 1);
        assert_eq!(super::circles(&Tree::of(&files[..3])), [[""; 0]; 0]);
    }
}
