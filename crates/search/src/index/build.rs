//! Builds the shards, with one thread per core.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

use tantivy::directory::MmapDirectory;
use tantivy::{Index, ReloadPolicy, SegmentReader, SingleSegmentIndexWriter, TantivyDocument};

use super::manifest::{FORMAT, FileRecord, Manifest, ShardRecord, TERMS, shard_folder};
use super::{IndexError, Progress, statistics};
use crate::corpus::{Corpus, Document};
use crate::schema::{Fields, tokenizers};

/// Size of the hash table in which a writer stores words. The writer's other memory grows as
/// needed, because a shard is written as one segment. Its documents thus stay in the order of their
/// ids.
const WRITER_BYTES: usize = 64 << 20;

/// Number of documents between two progress reports.
const REPORT_DOCUMENTS: usize = 512;

/// Builds a complete index in an empty folder. The manifest is written last.
pub(super) fn build(
    directory: &Path,
    corpus: &Corpus,
    shards: u32,
    progress: Progress<'_>,
) -> Result<Manifest, IndexError> {
    let mut built = build_shards(directory, corpus.documents(), shards, progress)?;
    built.sort_by_key(|shard| shard.number);
    let readers: Vec<SegmentReader> = built.iter().map(|shard| shard.reader.clone()).collect();
    let totals = statistics::write(directory, &readers)?;
    let manifest = Manifest {
        format: FORMAT,
        fingerprint: corpus.fingerprint().to_owned(),
        source: corpus.description().to_owned(),
        documents: corpus.documents().len() as u64,
        title_tokens: totals.title_tokens,
        body_tokens: totals.body_tokens,
        terms: totals.terms,
        terms_file: FileRecord::of(directory, TERMS)?,
        shards: built.into_iter().map(|shard| shard.record).collect(),
    };
    manifest.write(directory)?;
    Ok(manifest)
}

/// The channels between a worker and the thread that started it.
struct Watch<'a> {
    report: mpsc::SyncSender<u64>,
    stop: &'a AtomicBool,
}

struct Built {
    number: u32,
    record: ShardRecord,
    reader: SegmentReader,
}

fn build_shards(
    directory: &Path,
    documents: &[Document],
    shards: u32,
    progress: Progress<'_>,
) -> Result<Vec<Built>, IndexError> {
    let total = documents.len() as u64;
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let next = AtomicU32::new(0);
    let stop = AtomicBool::new(false);
    // Workers send one message per 512 documents. If the channel is full, workers wait for this
    // thread, which only reads messages.
    let (report, reports) = mpsc::sync_channel(cores);
    if progress(0, total).is_break() {
        return Err(IndexError::Interrupted);
    }
    let worker = |report: mpsc::SyncSender<u64>| {
        let watch = Watch { report, stop: &stop };
        let mut built = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= shards {
                return Ok(built);
            }
            built.push(build_shard(directory, documents, number, shards, &watch)?);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores.min(shards as usize))
            .map(|_| {
                let report = report.clone();
                let worker = &worker;
                scope.spawn(move || worker(report))
            })
            .collect();
        drop(report);
        let mut done = 0;
        for documents in reports {
            done += documents;
            if progress(done, total).is_break() {
                // The workers check this after each batch.
                stop.store(true, Ordering::Relaxed);
                break;
            }
        }
        let mut built = Vec::new();
        for worker in workers {
            // A panic in a worker is a bug, so the panic continues in this thread.
            built.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        if stop.load(Ordering::Relaxed) {
            return Err(IndexError::Interrupted);
        }
        Ok(built)
    })
}

fn build_shard(
    directory: &Path,
    documents: &[Document],
    number: u32,
    shards: u32,
    watch: &Watch<'_>,
) -> Result<Built, IndexError> {
    let folder = shard_folder(directory, number);
    fs::create_dir(&folder).map_err(IndexError::io(&folder))?;
    let mine: Vec<&Document> =
        documents.iter().skip(number as usize).step_by(shards as usize).collect();
    let index = write_segment(&folder, &mine, watch).map_err(IndexError::damaged(&folder))?;
    let index = index.ok_or(IndexError::Interrupted)?;
    let reader = open_segment(&index).map_err(IndexError::damaged(&folder))?;
    let record = ShardRecord { documents: mine.len() as u64, files: files(&folder)? };
    Ok(Built { number, record, reader })
}

/// Writes a segment. Returns `None` if it was interrupted.
fn write_segment(
    folder: &Path,
    documents: &[&Document],
    watch: &Watch<'_>,
) -> tantivy::Result<Option<Index>> {
    let (schema, fields) = Fields::schema();
    let mut writer: SingleSegmentIndexWriter = Index::builder()
        .schema(schema)
        .tokenizers(tokenizers())
        .single_segment_index_writer(MmapDirectory::open(folder)?, WRITER_BYTES)?;
    for batch in documents.chunks(REPORT_DOCUMENTS) {
        for document in batch {
            let mut fresh = TantivyDocument::new();
            fresh.add_u64(fields.id, document.id);
            fresh.add_text(fields.title, &document.title);
            fresh.add_text(fields.body, &document.body);
            writer.add_document(fresh)?;
        }
        // The receiver is gone only if the caller's thread panics. In that case, nothing needs to
        // be reported.
        let _ = watch.report.send(batch.len() as u64);
        if watch.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    writer.finalize().map(Some)
}

fn open_segment(index: &Index) -> tantivy::Result<SegmentReader> {
    let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
    Ok(reader.searcher().segment_reader(0).clone())
}

/// Returns the shard's files. Lock files are left out, because they are created when a process
/// opens the shard.
fn files(folder: &Path) -> Result<Vec<FileRecord>, IndexError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(IndexError::io(folder))? {
        let name = entry.map_err(IndexError::io(folder))?.file_name();
        let name = name.to_string_lossy();
        if !name.ends_with(".lock") {
            files.push(FileRecord::of(folder, &name)?);
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}
