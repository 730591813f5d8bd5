//! The size of the product and of the lab, and the limit on the length of a file. Clippy limits the
//! length of functions.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::{Finding, Tree};

/// The maximum number of lines of a Rust file.
const LINES_MAX: usize = 600;
/// What counts as code, by the ends of paths.
const CODE: [&str; 7] = ["rs", "py", "pyi", "c", "sh", "go", "java"];

/// Finds Rust files that are too long.
pub(super) fn long_files(tree: &Tree) -> Vec<Finding> {
    let files = tree.with_extension("rs").map(|file| (&file.path, file.text.lines().count()));
    let long = files.filter(|(_, lines)| *lines > LINES_MAX);
    long.map(|(path, lines)| {
        let what = format!("{lines} lines, at most {LINES_MAX}");
        Finding::new(path, LINES_MAX + 1, what, "a file is one idea: move the second one out")
    })
    .collect()
}

/// The number of lines and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weight {
    lines: usize,
    in_tests: usize,
    files: usize,
}

/// `cargo xtask weight`: prints the lines and the files of the product and of the lab, by crate.
pub(crate) fn run(root: &Path) -> Result<bool> {
    print!("{}", table(&Tree::load(root)?));
    Ok(true)
}

/// Returns a table with a line per crate and the sums of the product and of the lab. Comments, blank
/// lines and tests count.
fn table(tree: &Tree) -> String {
    let mut rooms: BTreeMap<(bool, &str), Weight> = BTreeMap::new();
    for file in CODE.into_iter().flat_map(|end| tree.with_extension(end)) {
        let (is_lab, path) = match file.path.split_once('/') {
            Some(("lab", inside)) => (true, inside),
            Some(("crates", inside)) => (false, inside),
            Some(_) => (false, &*file.path),
            None => continue,
        };
        let room = path.split('/').next().unwrap_or_default();
        let lines = file.text.lines().count();
        let in_tests = if super::is_test_code(&file.path) { lines } else { 0 };
        for name in [room, ""] {
            let of = rooms.entry((is_lab, name)).or_default();
            *of = Weight {
                lines: of.lines + lines,
                in_tests: of.in_tests + in_tests,
                files: of.files + 1,
            };
        }
    }
    let mut text = format!("{:<16}{:>8}{:>10}{:>7}\n", "", "lines", "in tests", "files");
    for ((is_lab, name), Weight { lines, in_tests, files }) in &rooms {
        let name = match (*name, is_lab) {
            ("", true) => "lab",
            ("", false) => "product",
            (name, _) => &format!("  {name}"),
        };
        text += &format!("{name:<16}{lines:>8}{in_tests:>10}{files:>7}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_600_lines_at_most() {
        let [short, long] = [600, 601].map(|lines| "x\n".repeat(lines));
        let tree = Tree::of(&[("a.rs", &short), ("b.rs", &long), ("c.md", &long)]);
        let found: Vec<String> = long_files(&tree).iter().map(ToString::to_string).collect();
        assert!(found.len() == 1 && found[0].starts_with("b.rs:601: 601 lines"), "{found:?}");
    }

    #[test]
    fn the_lab_is_weighed_apart() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "x\nx\n"),
            ("crates/a/tests/b.rs", "x\n"),
            ("python/x.py", "x\n"),
            ("lab/das/src/main.rs", "x\n"),
            ("lab/das/Cargo.toml", "x\n"),
        ]);
        let text = table(&tree);
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let product = [["product", "4", "1", "3"], ["a", "3", "1", "2"], ["python", "1", "0", "1"]];
        assert_eq!(rows[..3], product);
        assert_eq!(rows[3..], [["lab", "1", "0", "1"], ["das", "1", "0", "1"]]);
    }
}
