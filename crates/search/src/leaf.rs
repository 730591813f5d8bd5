//! A leaf, which is the engine that searches one shard.

use std::cmp::{Ordering, Reverse};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tantivy::columnar::Column;
use tantivy::query::{EnableScoring, PhraseQuery, Query as _, TermQuery, Weight};
use tantivy::schema::{Field, IndexRecordOption, TantivyDocument, Term, Value};
use tantivy::{DocAddress, Index, ReloadPolicy, Searcher};

use crate::evaluate::{Best, Candidate, Part, for_each_match};
use crate::index::{GlobalStatistics, IndexError, Manifest, ShardedIndex};
use crate::query::{Clause, Query};
use crate::schema::{self, Fields};

/// Maximum number of hits that a leaf returns for a query.
pub const MAX_HITS: usize = 1000;

/// The reason why a query has no result.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    #[error("{k} hits are too many; request at most {MAX_HITS}")]
    TooManyHits { k: usize },
    #[error("shard {shard}: {reason}; restart the leaf, which checks the index")]
    Engine { shard: u32, reason: String },
}

/// The engine of one shard. A search takes `&self` and blocks only on page faults, so threads can
/// share a leaf.
pub struct Leaf {
    shard: u32,
    documents: u64,
    fields: Fields,
    searcher: Searcher,
    ids: Vec<Column<u64>>,
    statistics: GlobalStatistics,
}

impl std::fmt::Debug for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (shard, documents) = (&self.shard, &self.documents);
        f.debug_struct("Leaf").field("shard", shard).field("documents", documents).finish()
    }
}

impl Leaf {
    /// Opens one shard of an index, after checking its files. The other shards need not exist.
    ///
    /// Memory: the files of the shard are mapped into memory, not read. The statistics of the
    /// corpus are read into memory, and take about 10 bytes per distinct word.
    pub fn open(directory: &Path, shard: u32) -> Result<Self, IndexError> {
        let manifest = Manifest::read(directory)?;
        let folder = manifest.verify_shard(directory, shard)?;
        let statistics = GlobalStatistics::open(directory, &manifest)?;
        let (searcher, ids) = open_shard(&folder).map_err(IndexError::damaged(&folder))?;
        let (documents, expected) =
            (searcher.num_docs(), manifest.shards[shard as usize].documents);
        if documents != expected {
            let reason = format!("it has {documents} documents, not {expected}");
            return Err(IndexError::damaged(&folder)(reason));
        }
        let fields = Fields::schema().1;
        Ok(Self { shard, documents, fields, searcher, ids, statistics })
    }

    /// Returns the number of the shard.
    pub fn shard(&self) -> u32 {
        self.shard
    }

    /// Returns the number of documents in the shard.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Returns the `k` best documents of the shard and the number of matches.
    pub fn answer(&self, query: &Query, k: usize) -> Result<SearchResponse, SearchError> {
        if k > MAX_HITS {
            return Err(SearchError::TooManyHits { k });
        }
        self.evaluate(query, k)
            .map_err(|error| SearchError::Engine { shard: self.shard, reason: error.to_string() })
    }

    fn evaluate(&self, query: &Query, k: usize) -> tantivy::Result<SearchResponse> {
        let weights = query.clauses().iter().map(|clause| self.weights(clause));
        let weights = weights.collect::<tantivy::Result<Vec<_>>>()?;
        let mut matched = 0;
        let mut best = Best::new(k);
        for (segment, reader) in (0..).zip(self.searcher.segment_readers()) {
            let mut parts = Vec::with_capacity(weights.len());
            for (clause, weights) in query.clauses().iter().zip(&weights) {
                let scorers = weights.iter().map(|weight| weight.scorer(reader, 1.0));
                parts.push(Part::new(clause.demand, scorers.collect::<tantivy::Result<_>>()?));
            }
            let ids = &self.ids[segment as usize];
            for_each_match(&mut parts, |doc, score| {
                matched += 1;
                // The id is looked up only for documents that may be added.
                if best.admits(score)
                    && let Some(id) = ids.first(doc)
                {
                    best.offer(Candidate {
                        score_bits: score.to_bits(),
                        id: Reverse(id),
                        segment,
                        doc,
                    });
                }
            });
        }
        let hits = best.into_sorted().into_iter().map(|candidate| self.hit(candidate));
        let hits = hits.collect::<tantivy::Result<_>>()?;
        Ok(SearchResponse { shard: self.shard, matched, hits })
    }

    /// Returns how a clause is matched and scored in each field, with the statistics of the whole
    /// corpus.
    fn weights(&self, clause: &Clause) -> tantivy::Result<Vec<Box<dyn Weight>>> {
        let scoring =
            EnableScoring::enabled_from_statistics_provider(&self.statistics, &self.searcher);
        let weight = |field| match clause.words.as_slice() {
            [(_, word)] => {
                let term = Term::from_field_text(field, word);
                TermQuery::new(term, IndexRecordOption::WithFreqs).weight(scoring)
            }
            words => PhraseQuery::new_with_offset(terms(field, words)).weight(scoring),
        };
        self.fields.searched().into_iter().map(weight).collect()
    }

    fn hit(&self, candidate: Candidate) -> tantivy::Result<Hit> {
        let address = DocAddress::new(candidate.segment, candidate.doc);
        let document: TantivyDocument = self.searcher.doc(address)?;
        let title = document.get_first(self.fields.title).and_then(|value| value.as_str());
        let title = title.unwrap_or_default().to_owned();
        Ok(Hit { id: candidate.id.0, score: f32::from_bits(candidate.score_bits), title })
    }
}

impl ShardedIndex {
    /// Opens the engine of one shard, as [`Leaf::open`] does.
    pub fn leaf(&self, shard: u32) -> Result<Leaf, IndexError> {
        Leaf::open(self.directory(), shard)
    }
}

fn open_shard(folder: &Path) -> tantivy::Result<(Searcher, Vec<Column<u64>>)> {
    let mut index = Index::open_in_dir(folder)?;
    index.set_tokenizers(schema::tokenizers());
    // A shard never changes while it is open, so no thread watches for changes.
    let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
    let searcher = reader.searcher();
    let ids =
        searcher.segment_readers().iter().map(|segment| segment.fast_fields().u64(schema::ID));
    let ids = ids.collect::<tantivy::Result<_>>()?;
    Ok((searcher, ids))
}

fn terms(field: Field, words: &[(usize, String)]) -> Vec<(usize, Term)> {
    words.iter().map(|(offset, word)| (*offset, Term::from_field_text(field, word))).collect()
}

/// A document that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The id of the document in the corpus.
    pub id: u64,
    /// The BM25 score with the statistics of the whole corpus. JSON preserves it exactly.
    pub score: f32,
    /// The title of the document.
    pub title: String,
}

impl Hit {
    /// Compares two hits of a result: the better score first, then the lower id. The order is
    /// total, so the result does not depend on the order of the inputs.
    pub fn order(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.id.cmp(&other.id))
    }
}

/// The search result of a leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchResponse {
    /// The number of the shard.
    pub shard: u32,
    /// The exact number of matching documents in the shard. The sum over all shards is the total of
    /// the service.
    pub matched: u64,
    /// The best matches, in [`Hit::order`].
    pub hits: Vec<Hit>,
}

/// Merges the hits of the leaves, in the root. Returns the `k` best hits of all shards, in
/// [`Hit::order`].
///
/// Results come over a network from other processes, so they are not assumed to be sorted. O(n log
/// n) for a total of n hits. Documents are not deduplicated, because each document is in only one
/// shard and the root uses only one result per shard.
pub fn merge_top_k(answers: Vec<Vec<Hit>>, k: usize) -> Vec<Hit> {
    let mut hits: Vec<Hit> = answers.into_iter().flatten().collect();
    hits.sort_by(Hit::order);
    hits.truncate(k);
    hits
}
