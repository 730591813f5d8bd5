//! The size of the tree, and limits on the length of files. Clippy limits the length of functions.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::{Finding, Limits, Tree, circles, words};

/// The maximum number of lines of a Rust file.
const LINES_MAX: usize = 600;
/// The median number of lines of Rust files must be below this.
const LINES_MEDIAN: usize = 200;

/// Finds Rust files that are too long, and a median that is too high.
pub(super) fn long_files(tree: &Tree) -> Vec<Finding> {
    let long = |(path, lines): (&str, usize)| {
        let what = format!("{lines} lines, at most {LINES_MAX}");
        (lines > LINES_MAX).then(|| Finding::new(path, LINES_MAX + 1, what, "split the file"))
    };
    let mut findings: Vec<Finding> = lengths(tree).filter_map(long).collect();
    let median = median(lengths(tree).map(|(_, lines)| lines).collect());
    if median >= LINES_MEDIAN {
        let what = format!("the median Rust file has {median} lines, {LINES_MEDIAN} or more");
        findings.push(Finding::new("Cargo.toml", 1, what, "split the longer files"));
    }
    findings
}

fn lengths(tree: &Tree) -> impl Iterator<Item = (&str, usize)> {
    tree.with_extension("rs").map(|file| (file.path.as_str(), file.text.lines().count()))
}

fn median(mut lines: Vec<usize>) -> usize {
    lines.sort_unstable();
    lines.get(lines.len() / 2).copied().unwrap_or_default()
}

/// `cargo xtask weight`: prints lines, files and the median length by crate, the number of words in
/// documents, and the counts that tidy limits.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let tree = Tree::load(root)?;
    print!("{}", by_crate(&tree));
    let count = |text: &str| text.split_whitespace().count();
    let mut pages: Vec<(usize, &str)> =
        tree.with_extension("md").map(|file| (count(&file.text), &*file.path)).collect();
    pages.sort_unstable_by(|a, b| b.cmp(a));
    let total: usize = pages.iter().map(|(words, _)| words).sum();
    println!("\n{total} words in {} documents", pages.len());
    pages.iter().for_each(|(words, path)| println!("{words:>7}  {path}"));
    let circles = circles::circles(&tree);
    let files: usize = circles.iter().map(Vec::len).sum();
    println!("\n{files} files import each other in circles");
    circles.iter().for_each(|circle| println!("  {}", circle.join(" ")));
    let limits = Limits::read(&tree)?;
    let words = words::counts(&tree, &limits);
    let words: Vec<String> =
        words.iter().map(|(word, count)| format!("{word} = {count}")).collect();
    println!("\nprivate words: {}", words.join(", "));
    println!("\nconstructions:");
    words::constructions(&tree, &limits)?
        .iter()
        .for_each(|(name, count)| println!("{count:>7}  {name}"));
    Ok(true)
}

/// Formats the number of lines, the number of files and the median length for each crate, with the
/// lines of tests in a separate column.
fn by_crate(tree: &Tree) -> String {
    let mut crates: BTreeMap<&str, Vec<(usize, bool)>> = BTreeMap::new();
    for (path, lines) in lengths(tree) {
        let inside = path.strip_prefix("crates/").unwrap_or(path);
        let name = inside.split('/').next().unwrap_or_default();
        crates.entry(name).or_default().push((lines, super::is_test_code(path)));
    }
    let line = |name: &str, cells: [&str; 4]| {
        let [lines, tests, files, median] = cells;
        format!("{name:<8}  {lines:<6}  {tests:<13}  {files:<5}  {median}\n")
    };
    let mut text = line("", ["lines", "in tests", "files", "median"]);
    let row = |name: &str, files: &[(usize, bool)]| {
        let sum = |of: &dyn Fn(bool) -> bool| -> usize {
            files.iter().filter(|(_, test)| of(*test)).map(|(lines, _)| lines).sum()
        };
        let middle = median(files.iter().map(|(lines, _)| *lines).collect());
        let numbers = [sum(&|_| true), sum(&|test| test), files.len(), middle];
        let numbers = numbers.map(|number| number.to_string());
        line(name, numbers.each_ref().map(String::as_str))
    };
    crates.iter().for_each(|(name, files)| text += &row(name, files));
    text + &row("all", &crates.values().flatten().copied().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_600_lines_at_most_and_the_median_less_than_200() {
        let [short, middle, long] = [199, 200, 601].map(|lines| "x\n".repeat(lines));
        let of = |files: &[(&str, &str)]| -> Vec<String> {
            long_files(&Tree::of(files)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            of(&[("a.rs", &short), ("b.rs", &short), ("c.rs", &middle), ("d.md", &long)]),
            [""; 0]
        );
        let long = of(&[("a.rs", &short), ("b.rs", &short), ("c.rs", &long)]);
        assert!(long.len() == 1 && long[0].starts_with("c.rs:601: 601 lines"), "{long:?}");
        let median = of(&[("a.rs", &short), ("b.rs", &middle)]);
        assert!(
            median.len() == 1 && median[0].starts_with("Cargo.toml:1: the median"),
            "{median:?}"
        );
    }

    #[test]
    fn crates_are_counted_with_their_tests() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", "x\nx\n"), ("crates/a/tests/b.rs", "x\n")]);
        let text = by_crate(&tree);
        let last: Vec<&str> = text.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(last, ["all", "3", "1", "2", "2"], "{text}");
    }
}
