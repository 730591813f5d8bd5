//! The default index of a leaf: the guides of this program, which are compiled in.
//!
//! With them, a leaf starts within milliseconds on a machine without other data, and does not leave
//! any files behind.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use curtail_search::{Corpus, ShardedIndex};
use tempfile::TempDir;

use crate::exit::Stop;

/// The guides. Each chapter becomes a document.
const GUIDES: [&str; 12] = [
    include_str!("../../../../ARCHITECTURE.md"),
    include_str!("../../../../CONTRIBUTING.md"),
    include_str!("../../../../docs/advise.md"),
    include_str!("../../../../docs/distributions.md"),
    include_str!("../../../../docs/jitter.md"),
    include_str!("../../../../docs/load.md"),
    include_str!("../../../../docs/model.md"),
    include_str!("../../../../docs/proxy.md"),
    include_str!("../../../../docs/python.md"),
    include_str!("../../../../docs/rescue.md"),
    include_str!("../../../../docs/sim.md"),
    include_str!("../../../../docs/sweep.md"),
];

/// An index of the guides. Dropping it deletes the files.
pub(super) struct Manual {
    folder: TempDir,
}

impl Manual {
    /// Builds the index in a temporary directory.
    pub(super) fn index(shards: u32) -> Result<Self, Stop> {
        let lacking = |why: String| Stop::Lacking(format!("no index of the guides: {why}"));
        let folder = tempfile::Builder::new().prefix("curtail-guides-").tempdir();
        let folder = folder.map_err(|error| lacking(error.to_string()))?;
        let corpus = Corpus::from_texts(chapters(), "the guides of curtail");
        let mut go_on = |_, _| ControlFlow::Continue(());
        ShardedIndex::build(&place(folder.path()), &corpus, shards, &mut go_on)
            .map_err(|error| lacking(error.to_string()))?;
        Ok(Self { folder })
    }

    pub(super) fn path(&self) -> PathBuf {
        place(self.folder.path())
    }
}

fn place(folder: &Path) -> PathBuf {
    folder.join("guides")
}

/// The chapters, as pairs of title and text.
fn chapters() -> impl Iterator<Item = (&'static str, &'static str)> {
    GUIDES.iter().flat_map(|guide| guide.split("\n#")).map(|chapter| {
        let title = chapter.trim_start_matches('#').lines().next().unwrap_or_default();
        (title.trim(), chapter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chapter_is_a_document() {
        let all: Vec<_> = chapters().collect();
        assert!(all.len() > 60, "{} chapters", all.len());
        assert!(all.iter().all(|(title, text)| !title.is_empty() && text.contains(title)));
        assert!(all.iter().any(|(title, _)| *title == "What open loop means"));
    }
}
