//! Private words that should be replaced by a term of the field, and constructions that readers
//! stumble over. The number of uses of each may only decrease.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use regex::Regex;

use super::{Finding, Limits, SourceFile, Tree};

/// Finds words and constructions that are used more often than `xtask/capabilities/tidy.toml`
/// allows.
pub(super) fn findings(tree: &Tree, limits: &Limits) -> Result<Vec<Finding>> {
    let over = |(name, count, fix): (&String, usize, &str)| {
        let most = *limits.words.get(name).or_else(|| limits.constructions.get(name))?;
        let what = format!("`{name}` is used {count} times, at most {most}");
        (count > most).then(|| Finding::new("xtask/capabilities/tidy.toml", 1, what, fix))
    };
    let words = counts(tree, limits);
    let words = words.iter().map(|(word, count)| (word, *count, "use the field's word"));
    let constructions = constructions(tree, limits)?;
    let constructions = constructions
        .iter()
        .map(|(pattern, count)| (pattern, *count, "write a plain sentence: subject, verb, object"));
    Ok(words.chain(constructions).filter_map(over).collect())
}

/// Returns the files that people write, except the file that quotes discouraged words as data.
fn written(tree: &Tree) -> impl Iterator<Item = &SourceFile> {
    let files = ["rs", "md", "py"].into_iter().flat_map(|end| tree.with_extension(end));
    files.filter(|file| !file.path.ends_with("tidy/words.rs"))
}

/// Counts the matches of each construction, line by line.
pub(super) fn constructions(tree: &Tree, limits: &Limits) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for pattern in limits.constructions.keys() {
        let regex = Regex::new(pattern).with_context(|| pattern.clone())?;
        let in_file = |file: &SourceFile| {
            file.text.lines().map(|line| regex.find_iter(line).count()).sum::<usize>()
        };
        counts.insert(pattern.clone(), written(tree).map(in_file).sum());
    }
    Ok(counts)
}

/// Counts the uses of each word in code and documents, including parts of identifiers.
pub(super) fn counts(tree: &Tree, limits: &Limits) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> =
        limits.words.keys().map(|word| (word.clone(), 0)).collect();
    for file in written(tree) {
        let mut rest = &*file.text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic()) {
            let part = &rest[start..];
            // A word ends where the next word of `camelCase` or `snake_case` starts.
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
        assert_eq!(
            found(&tree, &limits),
            ["`told` is used 4 times, at most 3", "`wish` is used 1 times, at most 0"]
        );
    }

    #[test]
    fn constructions_count_in_prose_and_code() {
        let constructions = [(r"(?i)\bso (many|long)\b".to_owned(), 1)];
        let limits = Limits { constructions: constructions.into(), ..Limits::default() };
        let one = Tree::of(&[("a.rs", "// So many copies, also long.\n"), ("b.csv", "so long\n")]);
        assert!(found(&one, &limits).is_empty());
        let two = Tree::of(&[("a.rs", "// So many, and so long.\n")]);
        assert_eq!(found(&two, &limits), [r"`(?i)\bso (many|long)\b` is used 2 times, at most 1"]);
    }

    fn found(tree: &Tree, limits: &Limits) -> Vec<String> {
        let findings = findings(tree, limits).expect("patterns");
        findings.into_iter().map(|finding| finding.problem).collect()
    }
}
