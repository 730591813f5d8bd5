//! Draws realistic queries from the corpus itself. They are the query load of the demo and of the
//! tests.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use tantivy::tokenizer::TextAnalyzer;

use crate::corpus::Document;
use crate::schema;

/// Maximum number of documents that are tried for a query. After that, the query is a single word.
const ATTEMPTS: usize = 32;

/// Number of bytes at the start of a body from which words are taken. These bytes contain enough
/// words, and the limit keeps the cost low.
const LOOK_BYTES: usize = 4096;

/// Stop words, which people usually leave out of queries.
const STOP_WORDS: [&str; 36] = [
    "all", "and", "any", "are", "but", "can", "for", "from", "has", "have", "into", "its", "let",
    "may", "more", "not", "one", "only", "other", "our", "such", "than", "that", "the", "their",
    "then", "there", "these", "they", "this", "use", "used", "was", "which", "with", "you",
];

/// The kind of a query.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Term,
    Terms,
    Phrase,
    Boolean,
}

/// Draws `n` queries. Each uses words from one random document, so words that are popular in the
/// corpus are also popular in queries, and a query nearly always finds something.
///
/// Of 20 queries, 8 consist of one word, 6 of two to four words, and 3 of a phrase. The other 3
/// have `+required` and perhaps `-excluded` words.
///
/// The queries depend only on the documents, `n` and `seed`. The result is empty if no document has
/// a suitable word.
pub fn sample_queries(documents: &[Document], n: usize, seed: u64) -> Vec<String> {
    if documents.is_empty() {
        return Vec::new();
    }
    let mut sampler =
        Sampler { documents, rng: Pcg32::seed_from_u64(seed), analyzer: schema::analyzer() };
    (0..n).map_while(|_| sampler.query()).collect()
}

struct Sampler<'a> {
    documents: &'a [Document],
    rng: Pcg32,
    analyzer: TextAnalyzer,
}

impl Sampler<'_> {
    fn query(&mut self) -> Option<String> {
        let kind = match self.below(20) {
            0..8 => Kind::Term,
            8..14 => Kind::Terms,
            14..17 => Kind::Phrase,
            _ => Kind::Boolean,
        };
        for _ in 0..ATTEMPTS {
            let words = self.words_of_a_document();
            if let Some(query) = self.compose(kind, &words) {
                return Some(query);
            }
        }
        // The corpus has few suitable words, so take any such word from any document, beginning
        // with a random document.
        let from = self.below(self.documents.len());
        for i in 0..self.documents.len() {
            let words = self.words_of((from + i) % self.documents.len());
            if let Some(query) = self.compose(Kind::Term, &words) {
                return Some(query);
            }
        }
        None
    }

    fn compose(&mut self, kind: Kind, words: &[(usize, String)]) -> Option<String> {
        let good: Vec<&str> =
            words.iter().map(|(_, word)| word.as_str()).filter(|word| worth_asking(word)).collect();
        match kind {
            Kind::Term => Some(self.distinct(&good, 1)?.remove(0).to_owned()),
            Kind::Terms => {
                let count = 2 + self.below(3);
                Some(self.distinct(&good, count)?.join(" "))
            }
            Kind::Phrase => self.phrase(words),
            Kind::Boolean => {
                let picked = self.distinct(&good, 3)?;
                let (a, b, c) = (picked[0], picked[1], picked[2]);
                Some(match self.below(4) {
                    0 => format!("+{a} {b}"),
                    1 => format!("+{a} +{b}"),
                    2 => format!("+{a} {b} {c}"),
                    _ => format!("+{a} {b} -{}", self.stranger(words)?),
                })
            }
        }
    }

    /// Returns a word that occurs in another document but not in this one. A query that excludes
    /// the word can still find this document.
    fn stranger(&mut self, words: &[(usize, String)]) -> Option<String> {
        let others = self.words_of_a_document();
        let lacking = |word: &String| worth_asking(word) && words.iter().all(|(_, w)| w != word);
        others.into_iter().map(|(_, word)| word).find(lacking)
    }

    /// Returns a phrase of two or three consecutive words that neither starts nor ends with a stop
    /// word.
    fn phrase(&mut self, words: &[(usize, String)]) -> Option<String> {
        let length = 2 + self.below(2);
        let windows: Vec<&[(usize, String)]> = words
            .windows(length)
            .filter(|window| {
                let (first, last) = (&window[0], &window[length - 1]);
                last.0 - first.0 == length - 1 && worth_asking(&first.1) && worth_asking(&last.1)
            })
            .collect();
        let window = windows.get(self.below(windows.len().max(1)))?;
        let text: Vec<&str> = window.iter().map(|(_, word)| word.as_str()).collect();
        Some(format!("\"{}\"", text.join(" ")))
    }

    /// Returns `count` distinct words, or `None` if a few draws do not find them.
    fn distinct<'w>(&mut self, words: &[&'w str], count: usize) -> Option<Vec<&'w str>> {
        let mut picked: Vec<&str> = Vec::with_capacity(count);
        for _ in 0..4 * count {
            let word = *words.get(self.below(words.len().max(1)))?;
            if !picked.contains(&word) {
                picked.push(word);
            }
            if picked.len() == count {
                return Some(picked);
            }
        }
        None
    }

    fn words_of_a_document(&mut self) -> Vec<(usize, String)> {
        let at = self.below(self.documents.len());
        self.words_of(at)
    }

    fn words_of(&mut self, at: usize) -> Vec<(usize, String)> {
        let body = &self.documents[at].body;
        schema::words(&mut self.analyzer, crate::corpus::head(body, LOOK_BYTES))
    }

    /// Returns a uniform number below `n`, or 0 if `n` is 0. A bias of n / 2^32 does not matter
    /// here.
    fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.rng.next_u32()) * n as u64) >> 32) as usize
    }
}

fn worth_asking(word: &str) -> bool {
    word.chars().count() > 2
        && word.chars().any(char::is_alphabetic)
        && STOP_WORDS.binary_search(&word).is_err()
}
