//! Tests the queries that are drawn from the corpus.

use crate::common::{ask, built, real_corpus};
use curtail_search::{Corpus, Query, sample_queries};

#[test]
fn a_seed_gives_the_same_queries() {
    let corpus = real_corpus();
    let queries = sample_queries(corpus.documents(), 200, 42);
    assert_eq!(queries, sample_queries(corpus.documents(), 200, 42));
    assert_ne!(queries, sample_queries(corpus.documents(), 200, 43));
    // A longer list begins with the same queries as a shorter one.
    assert_eq!(queries[..50], sample_queries(corpus.documents(), 50, 42));
}

#[test]
fn all_kinds_appear_and_every_query_finds_something() {
    let corpus = real_corpus();
    let queries = sample_queries(corpus.documents(), 400, 1);
    assert_eq!(queries.len(), 400);
    let count = |kind: fn(&str) -> bool| queries.iter().filter(|query| kind(query)).count();
    let phrases = count(|query| query.starts_with('"'));
    let boolean = count(|query| query.starts_with('+'));
    let terms = count(|query| !query.contains([' ', '+']));
    let several = queries.len() - phrases - boolean - terms;
    for (kind, share) in [(terms, 0.40), (several, 0.30), (phrases, 0.15), (boolean, 0.15)] {
        let fraction = kind as f64 / queries.len() as f64;
        // For 400 draws, four standard deviations are less than 0.1.
        assert!((fraction - share).abs() < 0.1, "{fraction} instead of {share}");
    }
    let (_folder, leaves) = built(&corpus, 2);
    for query in &queries {
        assert!(ask(&leaves, query, 1).1 > 0, "query {query} finds nothing");
    }
}

#[test]
fn poor_corpora_give_what_they_can() {
    assert_eq!(sample_queries(&[], 5, 1), Vec::<String>::new());
    let nothing = Corpus::from_texts([("title", "of 12 the"), ("title", "")], "nothing");
    assert_eq!(sample_queries(nothing.documents(), 5, 1), Vec::<String>::new());
    let texts = (0..500).map(|i| ("title", if i == 77 { "one needle of" } else { "" }));
    let needle = Corpus::from_texts(texts, "a needle");
    let queries = sample_queries(needle.documents(), 8, 1);
    assert_eq!(queries, vec!["needle"; 8]);
    assert!(Query::parse(&queries[0]).is_ok());
}
