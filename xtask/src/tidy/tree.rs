//! The files that the rules check.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use xtask::cargo;

/// A text file.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Path relative to the root, with `/` as the separator.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The text files of the repository, sorted by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<SourceFile>,
    /// All paths, including those of folders and of files that are not text.
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the files that git tracks or would track, so that new files are included before they
    /// are committed.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let paths = git_files(root)?;
        let mut tree = Self::default();
        for path in paths {
            let full = root.join(&path);
            // Git also lists files that were deleted but not committed.
            if !full.is_file() {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
            tree.add(path, String::from_utf8(bytes).ok());
        }
        Ok(tree)
    }

    fn add(&mut self, path: String, text: Option<String>) {
        let folders = path.match_indices('/').map(|(end, _)| path[..end].to_owned());
        self.paths.extend(folders);
        self.paths.insert(path.clone());
        if let Some(text) = text {
            self.files.push(SourceFile { path, text });
        }
    }

    /// Returns the file with this path, if it exists and is text.
    pub(crate) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a file or a folder has this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }

    /// Returns the files with this extension.
    pub(crate) fn with_extension<'a>(
        &'a self,
        extension: &'a str,
    ) -> impl Iterator<Item = &'a SourceFile> {
        let matches = move |file: &&SourceFile| {
            file.path.rsplit_once('.').is_some_and(|(_, end)| end == extension)
        };
        self.files.iter().filter(matches)
    }

    /// Returns the names of the crates in `crates/`.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &str> {
        self.paths
            .iter()
            .filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
            .filter(|name| !name.contains('/'))
    }

    /// Returns a tree of these files, for the tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.add((*path).to_owned(), Some((*text).to_owned()));
        }
        tree
    }
}

/// Whether the file contains only tests: it is in a `tests` folder, or named `tests` or `…_tests`.
pub(crate) fn is_test_code(path: &str) -> bool {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    stem.split('/').any(|part| part == "tests") || stem.ends_with("_tests")
}

fn git_files(root: &Path) -> Result<Vec<String>> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listing = cargo::output(Command::new("git").args(args).current_dir(root))?;
    let mut paths: Vec<String> =
        listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    paths.sort_unstable();
    // A file with a merge conflict is listed once per side.
    paths.dedup();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_code_is_recognized_by_its_path() {
        for path in ["crates/a/tests/b.rs", "crates/a/src/tests.rs", "crates/a/src/b_tests.rs"] {
            assert!(is_test_code(path), "{path}");
        }
        for path in ["crates/a/src/b.rs", "xtask/src/test.rs", "crates/contests/src/b.rs"] {
            assert!(!is_test_code(path), "{path}");
        }
    }
}
