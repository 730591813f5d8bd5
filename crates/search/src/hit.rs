//! Answers: what a leaf sends to the root and how the root merges them.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// One found document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The document's id in the corpus.
    pub id: u64,
    /// Its BM25 score with the statistics of the whole corpus. It survives JSON bit by bit.
    pub score: f32,
    /// Its title.
    pub title: String,
}

impl Hit {
    /// The order of an answer: the better score first, then the lower id. It is total, so the
    /// order of the inputs never shows in the result.
    pub fn order(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.id.cmp(&other.id))
    }
}

/// What a leaf answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchAnswer {
    /// The shard that answered.
    pub shard: u32,
    /// How many documents of the shard match. Exact: sum over the shards for the service's total.
    pub matched: u64,
    /// The best of them, in [`Hit::order`].
    pub hits: Vec<Hit>,
}

/// The root's merge: the `k` best hits of all shards, in [`Hit::order`].
///
/// Answers come over a network from other processes, so they are not trusted to be sorted.
/// O(n log n) for n hits in all. Documents are not deduplicated: a document is in one shard, and
/// a root takes one answer per shard.
pub fn merge_top_k(answers: Vec<Vec<Hit>>, k: usize) -> Vec<Hit> {
    let mut hits: Vec<Hit> = answers.into_iter().flatten().collect();
    hits.sort_by(Hit::order);
    hits.truncate(k);
    hits
}
