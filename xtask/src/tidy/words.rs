//! Private words, where the field has one of its own: each may only become rarer.

use std::collections::BTreeMap;

use super::{Finding, Limits, Tree};

/// Words that stand more often than `xtask/capabilities/tidy.toml` allows.
pub(super) fn findings(tree: &Tree, limits: &Limits) -> Vec<Finding> {
    let over = |(word, count): (&String, &usize)| {
        let most = limits.words.get(word).filter(|most| count > most)?;
        let what = format!("`{word}` stands {count} times, at most {most}");
        Some(Finding::new("xtask/capabilities/tidy.toml", 1, what, "use the field's word"))
    };
    counts(tree, limits).iter().filter_map(over).collect()
}

/// How often each word stands in code and documents, also as a part of an identifier.
pub(super) fn counts(tree: &Tree, limits: &Limits) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> =
        limits.words.keys().map(|word| (word.clone(), 0)).collect();
    let written = ["rs", "md", "py"].into_iter().flat_map(|end| tree.with_extension(end));
    for file in written.filter(|file| !file.path.ends_with("tidy/words.rs")) {
        let mut rest = &*file.text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic()) {
            let part = &rest[start..];
            // Up to the next word of `camelCase` or `snake_case`.
            let end =
                part[1..].find(|c: char| !c.is_ascii_lowercase()).map_or(part.len(), |at| at + 1);
            let word = part[..end].to_ascii_lowercase();
            if let Some(count) = counts.get_mut(&word) {
                *count += 1;
            }
            rest = &part[end..];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_in_prose_and_in_identifiers() {
        let words = [("told".to_owned(), 3), ("wish".to_owned(), 0)];
        let limits = Limits { words: words.into(), ..Limits::default() };
        let tree = Tree::of(&[
            ("a.rs", "// Told.\nfn is_told(toldOf: Untold) { Wish::untold() }\n"),
            ("b.md", "retold, told\n"),
            ("c.csv", "told\n"),
        ]);
        let expected = [("told".to_owned(), 4), ("wish".to_owned(), 1)];
        assert_eq!(counts(&tree, &limits), expected.into());
        let found: Vec<String> = findings(&tree, &limits).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("`told` stands 4 times, at most 3"), "{found:?}");
    }
}
