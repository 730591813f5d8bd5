//! The statistics of the whole corpus, which every leaf needs for BM25.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use tantivy::postings::TermInfo;
use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::{Field, Term};
use tantivy::termdict::TermMerger;
use tantivy::{InvertedIndexReader, SegmentReader};
use tantivy_fst::{Map, MapBuilder};

use super::IndexError;
use super::manifest::{Manifest, TERMS};
use crate::schema::Fields;

/// The number of documents that contain each word, the number of all documents, and the total
/// lengths of their titles and bodies.
///
/// Memory: the document frequencies are in a finite-state transducer, which takes about 10 bytes
/// per distinct word. Every leaf holds all of the statistics, so it does not need the other shards.
pub(crate) struct GlobalStatistics {
    frequencies: Map<Vec<u8>>,
    documents: u64,
    title: Field,
    title_tokens: u64,
    body_tokens: u64,
}

impl GlobalStatistics {
    pub(crate) fn open(directory: &Path, manifest: &Manifest) -> Result<Self, IndexError> {
        let path = manifest.verify_terms(directory)?;
        let bytes = fs::read(&path).map_err(IndexError::io(&path))?;
        let frequencies = Map::from_bytes(bytes).map_err(IndexError::damaged(&path))?;
        Ok(Self {
            frequencies,
            documents: manifest.documents,
            title: Fields::schema().1.title,
            title_tokens: manifest.title_tokens,
            body_tokens: manifest.body_tokens,
        })
    }
}

impl Bm25StatisticsProvider for GlobalStatistics {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        Ok(if field == self.title { self.title_tokens } else { self.body_tokens })
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.documents)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let key = key(term.field(), term.serialized_value_bytes());
        let frequency = self.frequencies.get(key).unwrap_or(0);
        Ok(frequency.min(self.documents)) // more would make tantivy panic
    }
}

/// Totals over all shards, for the manifest.
pub(super) struct Totals {
    pub(super) title_tokens: u64,
    pub(super) body_tokens: u64,
    pub(super) terms: u64,
}

/// Adds up the statistics of the shards, and writes the document frequencies to their file.
pub(super) fn write(directory: &Path, shards: &[SegmentReader]) -> Result<Totals, IndexError> {
    let path = directory.join(TERMS);
    let fields = Fields::schema().1;
    let file = File::create(&path).map_err(IndexError::io(&path))?;
    let mut map = MapBuilder::new(BufWriter::new(file)).map_err(IndexError::damaged(&path))?;
    let mut terms = 0;
    let mut tokens = [0, 0];
    // Keys must be inserted in order. Each key begins with the field's number, and fields are
    // sorted by number.
    for (field, tokens) in fields.searched().into_iter().zip(&mut tokens) {
        let readers = shards.iter().map(|shard| shard.inverted_index(field));
        let readers = readers.collect::<Result<Vec<_>, _>>().map_err(IndexError::damaged(&path))?;
        *tokens = readers.iter().map(|reader| reader.total_num_tokens()).sum();
        terms += merge(field, &readers, &mut map).map_err(IndexError::damaged(&path))?;
    }
    let mut file = map.into_inner().map_err(IndexError::damaged(&path))?;
    file.flush().and_then(|()| file.get_ref().sync_all()).map_err(IndexError::io(&path))?;
    Ok(Totals { title_tokens: tokens[0], body_tokens: tokens[1], terms })
}

fn merge(
    field: Field,
    readers: &[impl AsRef<InvertedIndexReader>],
    map: &mut MapBuilder<impl Write>,
) -> Result<u64, Box<dyn std::error::Error>> {
    let streams = readers.iter().map(|reader| reader.as_ref().terms().stream());
    let mut merger = TermMerger::new(streams.collect::<Result<Vec<_>, _>>()?);
    let mut terms = 0;
    while merger.advance() {
        let infos = merger.current_segment_ords_and_term_infos();
        let frequency = infos.map(|(_, info): (_, TermInfo)| u64::from(info.doc_freq)).sum();
        map.insert(key(field, merger.key()), frequency)?;
        terms += 1;
    }
    Ok(terms)
}

fn key(field: Field, word: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(4 + word.len());
    key.extend_from_slice(&field.field_id().to_be_bytes());
    key.extend_from_slice(word);
    key
}
