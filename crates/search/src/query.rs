//! Parses the query language: words, `+required`, `-excluded`, and `"a phrase"`.
//!
//! tantivy's own parser is not used. It also accepts ranges, wildcards, nested groups and boosts,
//! which can be expensive even in a short query. Its errors do not contain positions.
//!
//! A document matches if at least one plain word or phrase matches. If the query has `+` clauses,
//! the document must match all of them, and the plain ones only add to the score. A clause searches
//! the title and the body. Punctuation inside a word makes it a phrase, so `real-time` means `"real
//! time"`.

use std::fmt;

use crate::schema;

/// Maximum length of a query, in bytes.
pub(crate) const MAX_QUERY_BYTES: usize = 1024;

/// Maximum number of clauses in a query.
pub(crate) const MAX_CLAUSES: usize = 32;

/// The reason why a query was rejected.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    #[error("the query has {bytes} bytes, more than {MAX_QUERY_BYTES}; shorten it")]
    TooLong { bytes: usize },
    #[error(
        "column {column}: the query has more than {MAX_CLAUSES} clauses; remove the least \
         important words"
    )]
    TooManyClauses { column: usize },
    #[error("column {column}: this quotation mark is never closed; add a second one")]
    UnclosedQuote { column: usize },
    #[error(
        "column {column}: {clause:?} is required but has no word that is indexed (letters and \
         digits, fewer than 40 bytes); remove it"
    )]
    NothingRequired { column: usize, clause: String },
    #[error(
        "the query {text:?} has nothing to search for; add at least one word that is not excluded"
    )]
    Empty { text: String },
}

/// What a clause requires of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    /// A match adds to the score.
    Optional,
    /// The clause must match.
    Required,
    /// The clause must not match.
    Excluded,
}

/// A word or a phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) demand: Demand,
    /// Never empty. Offsets start at 0, and have a gap where a word was too long to be indexed.
    pub(crate) words: Vec<(usize, String)>,
}

/// A parsed query. It does not depend on an index, so a root can parse it once for all leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    text: String,
    clauses: Vec<Clause>,
}

impl Query {
    /// Parses a query.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        if text.len() > MAX_QUERY_BYTES {
            return Err(QueryError::TooLong { bytes: text.len() });
        }
        let mut parser = Parser { text, at: 0 };
        let mut analyzer = schema::analyzer();
        let mut clauses = Vec::new();
        while let Some(raw) = parser.next_clause()? {
            let column = parser.column(raw.start);
            let mut words = schema::words(&mut analyzer, raw.words);
            let Some(&(first, _)) = words.first() else {
                if raw.demand == Demand::Required {
                    let clause = text[raw.start..parser.at].to_owned();
                    return Err(QueryError::NothingRequired { column, clause });
                }
                continue; // a dash or a smiley, with nothing to search for
            };
            if clauses.len() == MAX_CLAUSES {
                return Err(QueryError::TooManyClauses { column });
            }
            words.iter_mut().for_each(|(offset, _)| *offset -= first);
            clauses.push(Clause { demand: raw.demand, words });
        }
        if clauses.iter().all(|clause| clause.demand == Demand::Excluded) {
            return Err(QueryError::Empty { text: text.to_owned() });
        }
        Ok(Self { text: text.to_owned(), clauses })
    }

    /// Returns the query as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn clauses(&self) -> &[Clause] {
        &self.clauses
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A clause that has not been split into words yet.
struct RawClause<'a> {
    start: usize,
    demand: Demand,
    words: &'a str,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn next_clause(&mut self) -> Result<Option<RawClause<'a>>, QueryError> {
        let rest = &self.text[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let mut rest = &self.text[start..];
        let demand = match rest.as_bytes().first() {
            None => return Ok(None),
            Some(b'+') => Demand::Required,
            Some(b'-') => Demand::Excluded,
            Some(_) => Demand::Optional,
        };
        if demand != Demand::Optional {
            rest = &rest[1..];
            if rest.chars().next().is_none_or(char::is_whitespace) {
                // A sign that is followed by whitespace is punctuation, as in `curtail - the
                // proxy`.
                self.at = start + 1;
                return Ok(Some(RawClause { start, demand: Demand::Optional, words: "" }));
            }
        }
        let from = self.text.len() - rest.len();
        if let Some(quoted) = rest.strip_prefix('"') {
            let Some(end) = quoted.find('"') else {
                return Err(QueryError::UnclosedQuote { column: self.column(from) });
            };
            self.at = from + 1 + end + 1;
            return Ok(Some(RawClause { start, demand, words: &quoted[..end] }));
        }
        let end = rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len());
        self.at = from + end;
        Ok(Some(RawClause { start, demand, words: &rest[..end] }))
    }

    fn column(&self, byte: usize) -> usize {
        self.text[..byte].chars().count() + 1
    }
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
