//! Tests the invariant that the merged result of N shards equals the result of one index.

use std::collections::BTreeMap;

use crate::common::{ask, built, real_corpus};
use curtail_search::{Corpus, Leaf, sample_queries};
use tantivy::collector::DocSetCollector;
use tantivy::query::{EnableScoring, QueryParser};
use tantivy::schema::{FAST, Schema, TEXT};
use tantivy::{Index, Searcher, TantivyDocument};

/// Some queries have more clauses than those of the sampler, so that sums of many terms are also
/// compared.
fn queries(corpus: &Corpus) -> Vec<String> {
    let mut queries = sample_queries(corpus.documents(), 300, 7);
    assert_eq!(queries.len(), 300);
    let words = ["fn", "self", "error", "the", "time", "value", "test", "of", "impl", "struct"];
    queries.extend((2..=words.len()).map(|n| words[..n].join(" ")));
    queries.push("+fn +self error \"pub fn\" -unsafe the of and".to_owned());
    queries.push("zzzznotthere \"nor this either\"".to_owned());
    queries
}

fn bits(leaves: &[Leaf], query: &str, k: usize) -> (Vec<(u64, u32, String)>, u64) {
    let (hits, matched) = ask(leaves, query, k);
    (hits.into_iter().map(|hit| (hit.id, hit.score.to_bits(), hit.title)).collect(), matched)
}

#[test]
fn shards_equal_one_index_bit_by_bit() {
    let corpus = real_corpus();
    let [(_one, one), (_three, three), (_five, five)] = [1, 3, 5].map(|n| built(&corpus, n));
    let mut answered = 0;
    for query in queries(&corpus) {
        for k in [1, 10, 200] {
            let expected = bits(&one, &query, k);
            assert_eq!(bits(&three, &query, k), expected, "3 shards, k {k}, query {query}");
            assert_eq!(bits(&five, &query, k), expected, "5 shards, k {k}, query {query}");
            answered += usize::from(!expected.0.is_empty());
        }
    }
    assert!(answered >= 3 * 300, "only {answered} queries found something");
}

/// An index that is built and searched with tantivy alone, using its parser, its statistics and its
/// boolean query.
struct Reference {
    searcher: Searcher,
    parser: QueryParser,
}

impl Reference {
    fn new(corpus: &Corpus) -> tantivy::Result<Self> {
        let mut schema = Schema::builder();
        let id = schema.add_u64_field("id", FAST);
        let (title, body) =
            (schema.add_text_field("title", TEXT), schema.add_text_field("body", TEXT));
        let index = Index::create_in_ram(schema.build());
        let mut writer = index.writer_with_num_threads(1, 50_000_000)?;
        for document in corpus.documents() {
            let mut fresh = TantivyDocument::new();
            fresh.add_u64(id, document.id);
            fresh.add_text(title, &document.title);
            fresh.add_text(body, &document.body);
            writer.add_document(fresh)?;
        }
        writer.commit()?;
        let searcher = index.reader()?.searcher();
        Ok(Self { searcher, parser: QueryParser::for_index(&index, vec![title, body]) })
    }

    /// Returns all matching documents with their scores. Nothing is pruned, so no document is left
    /// out.
    fn scores(&self, text: &str) -> tantivy::Result<BTreeMap<u64, f32>> {
        let query = self.parser.parse_query(text)?;
        let weight = query.weight(EnableScoring::enabled_from_searcher(&self.searcher))?;
        let mut scores = BTreeMap::new();
        for segment in self.searcher.segment_readers() {
            let ids = segment.fast_fields().u64("id")?;
            weight.for_each(segment, &mut |doc, score| {
                scores.extend(ids.first(doc).map(|id| (id, score)));
            })?;
        }
        assert_eq!(scores.len(), self.searcher.search(&query, &DocSetCollector)?.len());
        Ok(scores)
    }
}

#[test]
fn shards_equal_tantivy_alone() {
    let corpus = real_corpus();
    let (_folder, leaves) = built(&corpus, 3);
    let reference = Reference::new(&corpus).expect("tantivy indexes the corpus");
    // tantivy adds up scores in a different order, so the scores may differ by a few units in the
    // last place.
    let close = |a: f32, b: f32| (a - b).abs() <= 4e-6 * a.abs().max(b.abs());
    for query in queries(&corpus) {
        let expected = reference.scores(&query).expect("tantivy understands the query");
        let (hits, matched) = ask(&leaves, &query, 10);
        assert_eq!(matched, expected.len() as u64, "query {query}");
        let mut best: Vec<f32> = expected.values().copied().collect();
        best.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(hits.len(), best.len().min(10), "query {query}");
        for (hit, best) in hits.iter().zip(best) {
            let theirs = expected.get(&hit.id).copied().expect("tantivy finds the document too");
            assert!(close(hit.score, theirs), "query {query}: {hit:?}, tantivy {theirs}");
            assert!(close(hit.score, best), "query {query}: {hit:?}, expected score {best}");
        }
    }
}

#[test]
fn ties_go_to_the_lower_id_across_shards() {
    // Every fourth document matches better than the others, which all match equally well.
    let texts =
        (0..61).map(|i| ("twin", if i % 4 == 3 { "needle needle hay" } else { "needle hay hay" }));
    let corpus = Corpus::from_texts(texts, "twins");
    for shards in [1, 3, 5, 61] {
        let (_folder, leaves) = built(&corpus, shards);
        for k in [1, 7, 15, 16, 22, 61, 99] {
            let (hits, matched) = ask(&leaves, "needle", k);
            let ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
            let better = (0..61).filter(|id| id % 4 == 3);
            let expected: Vec<u64> =
                better.chain((0..61).filter(|id| id % 4 != 3)).take(k).collect();
            assert_eq!(ids, expected, "{shards} shards, k {k}");
            assert_eq!(matched, 61);
        }
    }
}
