//! Tests which documents a query finds.

use crate::common::{ask, built};
use curtail_search::{Corpus, MAX_HITS, Query, SearchError};

const TEXTS: [(&str, &str); 6] = [
    ("alpha", "the quick brown fox"),
    ("beta", "the brown quick fox"),
    ("gamma", "a slow brown dog"),
    ("delta fox", "nothing here"),
    ("epsilon", "Quick, brown! And a dog."),
    ("zeta", "fox fox fox fox"),
];

#[test]
fn clauses_are_optional_required_or_excluded() {
    let corpus = Corpus::from_texts(TEXTS, "six texts");
    let (_folder, leaves) = built(&corpus, 2);
    let found = |query: &str| {
        let mut ids: Vec<u64> = ask(&leaves, query, 10).0.iter().map(|hit| hit.id).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(found("fox dog"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(found("+brown fox"), [0, 1, 2, 4]);
    assert_eq!(found("+brown +fox"), [0, 1]);
    assert_eq!(found("+brown -dog"), [0, 1]);
    assert_eq!(found("\"quick brown\""), [0, 4]);
    assert_eq!(found("+\"quick brown\" -fox"), [4]);
    assert_eq!(found("quick-brown"), [0, 4]);
    assert_eq!(found("fox -delta"), [0, 1, 5]);
    assert_eq!(found("+brown +nowhere"), Vec::<u64>::new());
    assert_eq!(found("BROWN"), [0, 1, 2, 4]);
}

#[test]
fn title_and_body_both_count() {
    let corpus = Corpus::from_texts([("fox", "fox"), ("fox", "dog"), ("cat", "fox")], "foxes");
    let (_folder, leaves) = built(&corpus, 3);
    let (hits, _) = ask(&leaves, "fox", 3);
    assert_eq!(hits[0].id, 0, "a match in both is best: {hits:?}");
    assert_eq!(hits[0].title, "fox");
    assert!((hits[0].score - hits[1].score - hits[2].score).abs() < 1e-6, "{hits:?}");
}

#[test]
fn the_number_of_hits_is_bounded() {
    let corpus = Corpus::from_texts(TEXTS, "six texts");
    let (_folder, leaves) = built(&corpus, 1);
    let query = Query::parse("fox").expect("a good query");
    for (k, hits) in [(0, 0), (MAX_HITS, 4)] {
        let answer = leaves[0].answer(&query, k).expect("an answer");
        assert_eq!((answer.hits.len(), answer.matched), (hits, 4));
    }
    let refused = leaves[0].answer(&query, MAX_HITS + 1);
    assert!(matches!(refused, Err(SearchError::TooManyHits { k: 1001 })), "{refused:?}");
}
