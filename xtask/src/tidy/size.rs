//! Files fit in the head. That functions do is checked by clippy.

use super::{Finding, Tree};

/// The most lines of a Rust file.
const LINES_MAX: usize = 600;
/// What the median of the lines of Rust files stays below.
const LINES_MEDIAN: usize = 200;

/// Rust files that are too long.
pub(crate) fn long_files(tree: &Tree) -> Vec<Finding> {
    let long = |(path, lines): (&str, usize)| {
        let what = format!("{lines} lines, at most {LINES_MAX}");
        (lines > LINES_MAX).then(|| Finding::new(path, LINES_MAX + 1, what, "split the file"))
    };
    lengths(tree).filter_map(long).collect()
}

/// Rust files that are too long as a whole.
pub(crate) fn median(tree: &Tree) -> Vec<Finding> {
    let mut lines: Vec<usize> = lengths(tree).map(|(_, lines)| lines).collect();
    lines.sort_unstable();
    let median = lines.get(lines.len() / 2).copied().unwrap_or_default();
    if median < LINES_MEDIAN {
        return Vec::new();
    }
    let what = format!("the median Rust file has {median} lines, {LINES_MEDIAN} or more");
    vec![Finding::new("Cargo.toml", 1, what, "split the longer files")]
}

fn lengths(tree: &Tree) -> impl Iterator<Item = (&str, usize)> {
    tree.with_extension("rs").map(|file| (file.path.as_str(), file.text.lines().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_600_lines() {
        let (full, over) = ("x\n".repeat(600), "x\n".repeat(601));
        let tree = Tree::of(&[("full.rs", &full), ("over.rs", &over), ("over.md", &over)]);
        let findings = long_files(&tree);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().starts_with("over.rs:601: 601 lines"), "{findings:?}");
    }

    #[test]
    fn the_median_file_has_less_than_200_lines() {
        let (short, long) = ("x\n".repeat(199), "x\n".repeat(200));
        assert!(
            median(&Tree::of(&[("a.rs", &short), ("b.rs", &short), ("c.rs", &long)])).is_empty()
        );
        assert_eq!(
            median(&Tree::of(&[("a.rs", &short), ("b.rs", &long), ("c.rs", &long)])).len(),
            1
        );
        assert!(median(&Tree::default()).is_empty());
    }
}
