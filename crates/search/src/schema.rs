//! The fields of a shard and how text becomes words.

use tantivy::schema::{
    FAST, Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::{
    LowerCaser, RemoveLongFilter, SimpleTokenizer, TextAnalyzer, TokenizerManager,
};

/// Words of so many bytes or more (base64, hashes) are not indexed, as by tantivy's own default.
const WORD_BYTES_LIMIT: usize = 40;

/// The name under which a shard's `meta.json` knows [`analyzer`].
const ANALYZER: &str = "curtail";

/// Name of the field that holds the document's id.
pub(crate) const ID: &str = "id";

/// The fields of a shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields {
    pub(crate) id: Field,
    pub(crate) title: Field,
    pub(crate) body: Field,
}

impl Fields {
    /// The schema of every shard. It is the same in all of them, so field numbers agree.
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
        // Only the title is stored: an answer shows it. The body is searched, not shown.
        let title = builder.add_text_field("title", text() | STORED);
        let body = builder.add_text_field("body", text());
        (builder.build(), Self { id, title, body })
    }

    /// The fields that a query looks into, in the order in which their scores are summed.
    pub(crate) fn searched(self) -> [Field; 2] {
        [self.title, self.body]
    }
}

/// Splits at everything that is not alphanumeric, drops monsters, lowercases. Queries and
/// documents go through the same one. No stemming: it would make the corpus's language matter.
pub(crate) fn analyzer() -> TextAnalyzer {
    TextAnalyzer::builder(SimpleTokenizer::default())
        .filter(RemoveLongFilter::limit(WORD_BYTES_LIMIT))
        .filter(LowerCaser)
        .build()
}

/// The tokenizers that a shard needs: ours, and tantivy's for the fields that are not text.
pub(crate) fn tokenizers() -> TokenizerManager {
    let manager = TokenizerManager::default();
    manager.register(ANALYZER, analyzer());
    manager
}

/// The words of a text with their positions.
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
    fn the_longest_word_is_as_long_as_errors_say() {
        let (longest, monster) = ("a".repeat(WORD_BYTES_LIMIT - 1), "b".repeat(WORD_BYTES_LIMIT));
        let found = words(&mut analyzer(), &format!("{longest} {monster} c"));
        assert_eq!(found, [(0, longest), (2, "c".to_owned())]);
    }
}
