//! Helpers for several tests.

use std::ops::ControlFlow;
use std::path::Path;

use curtail_search::{Corpus, Hit, Leaf, Limits, Query, ShardedIndex, Source, merge_top_k};

/// Returns real text that every machine with this repository has: the repository's own sources, and
/// some of the crates that cargo has downloaded.
pub(crate) fn real_corpus() -> Corpus {
    let limits = Limits { max_documents: 3_000, ..Limits::default() };
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let own = Corpus::load(&Source::Path(crates), limits).expect("this repository has text");
    let more = Corpus::load(&Source::Cargo, limits).ok();
    let documents = own.documents().iter().chain(more.iter().flat_map(Corpus::documents));
    let texts = documents.map(|document| (document.title.as_str(), document.body.as_str()));
    Corpus::from_texts(texts, "sources")
}

/// Builds an index in a temporary folder, and opens its leaves.
pub(crate) fn built(corpus: &Corpus, shards: u32) -> (tempfile::TempDir, Vec<Leaf>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let leaves = leaves(&build(&folder.path().join("index"), corpus, shards));
    (folder, leaves)
}

pub(crate) fn build(directory: &Path, corpus: &Corpus, shards: u32) -> ShardedIndex {
    ShardedIndex::build(directory, corpus, shards, &mut |_, _| ControlFlow::Continue(()))
        .expect("the index builds")
}

pub(crate) fn leaves(index: &ShardedIndex) -> Vec<Leaf> {
    (0..index.shards()).map(|shard| index.leaf(shard).expect("the shard opens")).collect()
}

/// Returns the hits that a root over these leaves finds, and the number of matching documents.
pub(crate) fn ask(leaves: &[Leaf], query: &str, k: usize) -> (Vec<Hit>, u64) {
    let query = Query::parse(query).expect("a good query");
    let answers = leaves.iter().map(|leaf| leaf.answer(&query, k).expect("an answer"));
    let answers: Vec<_> = answers.collect();
    let matched = answers.iter().map(|answer| answer.matched).sum();
    (merge_top_k(answers.into_iter().map(|answer| answer.hits).collect(), k), matched)
}
