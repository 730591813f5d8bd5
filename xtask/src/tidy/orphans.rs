//! Rust files that no module declares, so that no compiler reads them.

use super::{Finding, SourceFile, Tree};

/// Folders in which each file is a target of its own.
const TARGETS: [&str; 4] = ["tests", "examples", "benches", "bin"];

/// Rust files that are neither the root of a target nor declared by `mod`.
pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    let orphans = tree.with_extension("rs").filter(|file| !is_compiled(tree, file));
    orphans
        .map(|file| {
            let stem = file.path.rsplit(['/', '.']).nth(1).unwrap_or_default();
            let fix = format!("declare it with `mod {stem};`, or delete it");
            Finding::new(&*file.path, 1, "no module declares this file", fix)
        })
        .collect()
}

fn is_compiled(tree: &Tree, file: &SourceFile) -> bool {
    let mut parts: Vec<&str> = file.path.trim_end_matches(".rs").split('/').collect();
    if parts.last() == Some(&"mod") {
        parts.pop();
    }
    let name = parts.pop().unwrap_or_default();
    let is_target = parts.last().is_some_and(|folder| TARGETS.contains(folder));
    let folder = parts.join("/");
    let parents = ["/mod.rs", "/lib.rs", "/main.rs", ".rs"].map(|end| format!("{folder}{end}"));
    let declares = |parent: &String| {
        let text = tree.file(parent).map_or("", |parent| &parent.text);
        let declared = |end| text.contains(&format!("mod {name}{end}"));
        declared(';') || declared(' ')
    };
    let file_name = file.path.rsplit('/').next().unwrap_or_default();
    let by_path = || {
        let quoted = [format!("/{file_name}\""), format!("\"{file_name}\"")];
        let names = |other: &SourceFile| quoted.iter().any(|path| other.text.contains(path));
        tree.with_extension("rs").chain(tree.with_extension("toml")).any(names)
    };
    ["main", "lib", "build"].contains(&name)
        || is_target
        || parents.iter().any(declares)
        || by_path()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_no_module_declares_is_found() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "mod used;\npub(crate) mod folder;\nmod usedup;"),
            ("crates/a/src/used.rs", ""),
            ("crates/a/src/unused.rs", ""),
            ("crates/a/src/folder/mod.rs", "mod inner;"),
            ("crates/a/src/folder/inner.rs", ""),
            ("crates/a/src/folder/outer.rs", ""),
            ("crates/a/tests/one.rs", "#[path = \"it/shared.rs\"]\nmod shared;"),
            ("crates/a/tests/it/main.rs", ""),
            ("crates/a/tests/it/shared.rs", ""),
            ("crates/a/tests/it/lost.rs", ""),
        ]);
        let found = findings(&tree);
        let mut paths: Vec<&str> = found.iter().map(|finding| &*finding.path).collect();
        let lost =
            ["crates/a/src/folder/outer.rs", "crates/a/src/unused.rs", "crates/a/tests/it/lost.rs"];
        paths.sort_unstable();
        assert_eq!(paths, lost);
        assert!(found[0].to_string().contains("declare it with `mod "), "{}", found[0]);
    }
}
