//! Reads the text files under a folder, and splits them into sections.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use super::gather::sections;
use super::{CorpusError, Gather};

/// Larger files are skipped, because they usually contain data rather than text.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// Deeper folders are skipped.
const MAX_DEPTH: usize = 64;

/// Reads the text files under `root` recursively. The files are sorted by path, so that ids are
/// stable. Skips hidden entries and symbolic links. If `extensions` is given, reads only files that
/// have one of these extensions.
pub(super) fn read(
    root: &Path,
    extensions: Option<&[&str]>,
    gather: &mut Gather,
) -> Result<(), CorpusError> {
    // Only the root itself must be readable. Unreadable entries below it are counted.
    fs::read_dir(root)
        .map_err(|source| CorpusError::Read { path: root.to_owned(), source })
        .map(drop)?;
    let mut walk = Walk { root, extensions, gather };
    let _stopped_at_a_limit = walk.folder(root, 0);
    Ok(())
}

struct Walk<'a> {
    root: &'a Path,
    extensions: Option<&'a [&'a str]>,
    gather: &'a mut Gather,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, depth: usize) -> ControlFlow<()> {
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let Ok(mut entries) = entries else {
            self.gather.skipped += 1;
            return ControlFlow::Continue(());
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => self.folder(&path, depth + 1)?,
                Ok(kind) if kind.is_file() && self.wanted(&path) => self.file(&path)?,
                Ok(_) => {}
                Err(_) => self.gather.skipped += 1,
            }
        }
        ControlFlow::Continue(())
    }

    fn wanted(&self, path: &Path) -> bool {
        self.extensions.is_none_or(|wanted| {
            path.extension().is_some_and(|extension| wanted.iter().any(|w| extension == *w))
        })
    }

    fn file(&mut self, path: &Path) -> ControlFlow<()> {
        let Some(text) = read_text(path) else {
            self.gather.skipped += 1;
            return ControlFlow::Continue(());
        };
        let name = path.strip_prefix(self.root).unwrap_or(path).display().to_string();
        let mut sections = sections(&text).enumerate().peekable();
        while let Some((i, section)) = sections.next() {
            let alone = i == 0 && sections.peek().is_none();
            let title = if alone { name.clone() } else { format!("{name} section {}", i + 1) };
            self.gather.push(&title, section)?;
        }
        ControlFlow::Continue(())
    }
}

/// Returns `None` if the file is not text, is too large, or cannot be read. A zero byte is valid
/// UTF-8, but does not occur in text.
fn read_text(path: &Path) -> Option<String> {
    let (mut text, mut file) = (String::new(), File::open(path).ok()?.take(MAX_FILE_BYTES + 1));
    let bytes = file.read_to_string(&mut text).ok()? as u64;
    (bytes <= MAX_FILE_BYTES && !text.contains('\0')).then_some(text)
}
