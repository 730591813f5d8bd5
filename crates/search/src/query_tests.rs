//! Tests of the query language.

use proptest::prelude::*;

use super::{Demand, MAX_CLAUSES, MAX_QUERY_BYTES, Query, QueryError};

/// Formats the clauses as `sign words`, with dots for the gaps in a phrase.
fn parsed(text: &str) -> Vec<String> {
    let query = Query::parse(text).expect("a good query");
    let show = |clause: &super::Clause| {
        let mut out = match clause.demand {
            Demand::Optional => String::new(),
            Demand::Required => "+".to_owned(),
            Demand::Excluded => "-".to_owned(),
        };
        let mut next = 0;
        for (offset, word) in &clause.words {
            out.push_str(&".".repeat(offset - next));
            out.push_str(if *offset == 0 { "" } else { " " });
            out.push_str(word);
            next = offset + 1;
        }
        out
    };
    query.clauses().iter().map(show).collect()
}

#[test]
fn words_signs_and_phrases() {
    assert_eq!(parsed("tail latency"), ["tail", "latency"]);
    assert_eq!(parsed("  +Tail  -\"long tail\" cut"), ["+tail", "-long tail", "cut"]);
    assert_eq!(parsed("a\"b c\"d"), ["a", "b c", "d"]);
}

#[test]
fn punctuation_in_a_word_makes_a_phrase_and_alone_means_nothing() {
    assert_eq!(parsed("real-time"), ["real time"]);
    assert_eq!(parsed("curtail - the + proxy :-)"), ["curtail", "the", "proxy"]);
    assert_eq!(parsed("\"one\""), ["one"]);
}

#[test]
fn a_word_too_long_for_the_index_leaves_a_gap() {
    let long = "x".repeat(41);
    assert_eq!(parsed(&format!("\"a {long} b\"")), ["a. b"]);
    assert_eq!(parsed(&format!("\"{long} b\" c")), ["b", "c"]);
}

#[test]
fn errors_have_a_column() {
    assert_eq!(Query::parse("é \"open"), Err(QueryError::UnclosedQuote { column: 3 }));
    let clause = "+!!!".to_owned();
    assert_eq!(
        Query::parse("word +!!! other"),
        Err(QueryError::NothingRequired { column: 6, clause })
    );
    let error = Query::parse("a +\"b c").expect_err("not closed").to_string();
    assert_eq!(error, "column 4: this quotation mark is never closed; add a second one");
}

#[test]
fn a_query_needs_a_clause_that_is_not_excluded() {
    for text in ["", "   ", "-", "-spam", "!!! \"\"", "-a -\"b c\""] {
        assert_eq!(Query::parse(text), Err(QueryError::Empty { text: text.to_owned() }), "{text}");
    }
}

#[test]
fn queries_are_bounded() {
    let most = vec!["w"; MAX_CLAUSES].join(" ");
    assert!(Query::parse(&most).is_ok());
    let column = most.len() + 2;
    let more = format!("{most} w");
    assert_eq!(Query::parse(&more), Err(QueryError::TooManyClauses { column }));
    let bytes = MAX_QUERY_BYTES + 1;
    assert_eq!(Query::parse(&"w".repeat(bytes)), Err(QueryError::TooLong { bytes }));
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser(text in "[-+\" \\PCa-c]{0,80}") {
        if let Ok(query) = Query::parse(&text) {
            prop_assert_eq!(query.text(), &text);
            prop_assert!(query.clauses().iter().all(|clause| clause.words[0].0 == 0));
        }
    }
}
