//! The fields of a shard, and the tokenization of text.

use tantivy::schema::{
    FAST, Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::{
    LowerCaser, RemoveLongFilter, SimpleTokenizer, TextAnalyzer, TokenizerManager,
};

/// Words of at least this many bytes (base64, hashes) are not indexed, which is also tantivy's
/// default.
const WORD_BYTES_LIMIT: usize = 40;

/// The name of [`analyzer`] in a shard's `meta.json`.
const ANALYZER: &str = "curtail";

/// Name of the field with the document's id.
pub(crate) const ID: &str = "id";

/// The fields of a shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields {
    pub(crate) id: Field,
    pub(crate) title: Field,
    pub(crate) body: Field,
}

impl Fields {
    /// Returns the schema, which is the same in every shard, so that field numbers agree.
    pub(crate) fn schema() -> (Schema, Self) {
        let text = || {
            TextOptions::default().set_indexing_options(
                TextFieldIndexing::default()
                    .set_tokenizer(ANALYZER)
                    .set_index_option(IndexRecordOption::WithFreqsAndPositions),
            )
        };
        let mut builder = Schema::builder();
        let id = builder.add_u64_field(ID, FAST);
        // Only the title is stored, because results show it. The body is searched but not shown.
        let title = builder.add_text_field("title", text() | STORED);
        let body = builder.add_text_field("body", text());
        (builder.build(), Self { id, title, body })
    }

    /// Returns the fields that a query searches, in the order in which their scores are summed.
    pub(crate) fn searched(self) -> [Field; 2] {
        [self.title, self.body]
    }
}

/// Returns the analyzer for queries and documents. It splits text at all characters that are not
/// alphanumeric, drops words that are too long, and converts to lower case. There is no stemming,
/// which would depend on the language of the corpus.
pub(crate) fn analyzer() -> TextAnalyzer {
    TextAnalyzer::builder(SimpleTokenizer::default())
        .filter(RemoveLongFilter::limit(WORD_BYTES_LIMIT))
        .filter(LowerCaser)
        .build()
}

/// Returns the tokenizers that a shard needs: the analyzer of this module, and tantivy's tokenizer
/// for fields that are not text.
pub(crate) fn tokenizers() -> TokenizerManager {
    let manager = TokenizerManager::default();
    manager.register(ANALYZER, analyzer());
    manager
}

/// Returns the words of a text with their positions.
pub(crate) fn words(analyzer: &mut TextAnalyzer, text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut stream = analyzer.token_stream(text);
    while stream.advance() {
        let token = stream.token_mut();
        words.push((token.position, std::mem::take(&mut token.text)));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_word_has_39_bytes() {
        let (longest, monster) = ("a".repeat(WORD_BYTES_LIMIT - 1), "b".repeat(WORD_BYTES_LIMIT));
        let found = words(&mut analyzer(), &format!("{longest} {monster} c"));
        assert_eq!(found, [(0, longest), (2, "c".to_owned())]);
    }
}
