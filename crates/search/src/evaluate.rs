//! Finds the best documents of one segment for a query, one document at a time.
//!
//! tantivy's `BooleanQuery` with `TopDocs` is not used, for two reasons:
//!
//! - It adds up the scores of clauses in an order that depends on the sizes of the posting lists,
//!   and `f32` addition is not associative. The rounding errors with two shards would thus differ
//!   from those with one index.
//! - It skips blocks of documents based on bounds that were computed at indexing time with the
//!   average length in *that segment*. With the averages of the whole corpus, those bounds can be
//!   wrong. It could therefore skip a document that belongs in the result.
//!
//! tantivy still matches and scores words and phrases. This module only adds up the scores. Cost:
//! without a required clause, every posting of the query is read. If there are required clauses,
//! only the matches of the rarest one are read in full, and the other clauses skip to them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tantivy::query::Scorer;
use tantivy::{DocId, TERMINATED};

use crate::query::Demand;

/// A clause, with cursors over its matches in the title and in the body.
pub(crate) struct Part {
    demand: Demand,
    scorers: Vec<Box<dyn Scorer>>,
}

impl Part {
    pub(crate) fn new(demand: Demand, scorers: Vec<Box<dyn Scorer>>) -> Self {
        Self { demand, scorers }
    }

    /// Advances to the first match at or after `target` and returns it.
    fn seek(&mut self, target: DocId) -> DocId {
        let mut first = TERMINATED;
        for scorer in &mut self.scorers {
            let mut doc = scorer.doc();
            if doc < target {
                // The next document is nearly always the target, and seeking costs more than
                // advancing.
                doc = scorer.advance();
                if doc < target {
                    doc = scorer.seek(target);
                }
            }
            first = first.min(doc);
        }
        first
    }

    fn score(&mut self, doc: DocId) -> f32 {
        let here = self.scorers.iter_mut().filter(|scorer| scorer.doc() == doc);
        here.map(Scorer::score).sum()
    }

    fn cost(&self) -> u64 {
        self.scorers.iter().map(|scorer| scorer.cost()).sum()
    }
}

/// Calls `found` with every matching document and its score, in order.
pub(crate) fn for_each_match(parts: &mut [Part], mut found: impl FnMut(DocId, f32)) {
    let mut required: Vec<usize> =
        (0..parts.len()).filter(|&i| parts[i].demand == Demand::Required).collect();
    required.sort_by_key(|&i| parts[i].cost());
    let mut from = 0;
    loop {
        let doc = if required.is_empty() {
            first_optional(parts, from)
        } else {
            first_in_all(parts, &required, from)
        };
        if doc == TERMINATED {
            return;
        }
        from = doc + 1;
        if let Some(score) = score(parts, doc) {
            found(doc, score);
        }
    }
}

fn first_optional(parts: &mut [Part], from: DocId) -> DocId {
    let optional = parts.iter_mut().filter(|part| part.demand == Demand::Optional);
    optional.map(|part| part.seek(from)).min().unwrap_or(TERMINATED)
}

fn first_in_all(parts: &mut [Part], required: &[usize], from: DocId) -> DocId {
    let mut target = from;
    'again: while target < TERMINATED {
        for &i in required {
            let doc = parts[i].seek(target);
            if doc > target {
                target = doc;
                continue 'again;
            }
        }
        return target;
    }
    TERMINATED
}

/// Returns the score of a candidate, or `None` if an excluded clause matches it. Scores are summed
/// in the order of the query's clauses, so that they are rounded in the same way in every shard.
fn score(parts: &mut [Part], doc: DocId) -> Option<f32> {
    let mut sum = 0.0;
    for part in parts {
        let matches = part.seek(doc) == doc;
        if matches && part.demand == Demand::Excluded {
            return None;
        }
        if matches {
            sum += part.score(doc);
        }
    }
    Some(sum)
}

/// A document that may be in the result. Greater is better. The order is the same as in
/// [`crate::Hit::order`]: scores are not negative, and the bits of such numbers sort in the same
/// order as the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub(crate) score_bits: u32,
    pub(crate) id: Reverse<u64>,
    pub(crate) segment: u32,
    pub(crate) doc: DocId,
}

/// The best `k` candidates so far.
pub(crate) struct Best {
    k: usize,
    heap: BinaryHeap<Reverse<Candidate>>,
}

impl Best {
    pub(crate) fn new(k: usize) -> Self {
        Self { k, heap: BinaryHeap::new() }
    }

    /// Returns whether a document with this score may still be added. A score equal to the worst
    /// one is enough, because ties are broken by id.
    pub(crate) fn admits(&self, score: f32) -> bool {
        let worst = self.heap.peek().map(|Reverse(worst)| worst.score_bits);
        self.heap.len() < self.k || worst.is_some_and(|worst| score.to_bits() >= worst)
    }

    pub(crate) fn offer(&mut self, candidate: Candidate) {
        self.heap.push(Reverse(candidate));
        if self.heap.len() > self.k {
            self.heap.pop();
        }
    }

    /// Returns the candidates, best first.
    pub(crate) fn into_sorted(self) -> Vec<Candidate> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(candidate)| candidate).collect()
    }
}
