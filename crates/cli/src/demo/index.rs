//! Builds the index that the demo searches, and the queries.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use curtail_search::{Corpus, Limits, Outcome, ShardedIndex, Source, sample_queries};
use indicatif::ProgressBar;
use tokio::task::spawn_blocking;

use super::args::Plan;
use crate::exit::{Stop, lacking};
use crate::run::{self, Termination};
use crate::say;

/// Number of distinct queries, which are repeated.
const QUERIES: usize = 500;

pub(super) struct Built {
    pub(super) corpus: String,
    pub(super) documents: u64,
    pub(super) queries: Vec<String>,
}

/// Reads the corpus and builds its index on a separate thread, so that a signal can interrupt it.
pub(super) async fn build(plan: &Plan<'_>, signals: &mut Termination) -> Result<Built, Stop> {
    let bar = run::bar("indexing", 0);
    let stop = Arc::<AtomicBool>::default();
    let (shown, stopped) = (bar.clone(), Arc::clone(&stop));
    let source = plan.args.corpus.clone().map_or(Source::Default, Source::Path);
    let (folder, shards) = (plan.args.out.join("index"), plan.args.shards);
    let mut building = spawn_blocking(move || index(&source, &folder, shards, &shown, &stopped));
    let built = tokio::select! {
        built = &mut building => built,
        () = signals.next() => {
            stop.store(true, Ordering::Relaxed);
            // If a build is stopped, it removes its directory. If a build is almost done when it is
            // stopped, it completes the index instead. A second signal ends the wait for a corpus
            // that is slow to read.
            tokio::select! { _ = building => {}, () = signals.next() => {} }
            return Err(Stop::Interrupted("while the index was built"));
        }
    };
    bar.finish_and_clear();
    let (corpus, outcome) = built.map_err(|error| lacking!("the task panicked: {error}"))??;
    for remark in corpus.remarks() {
        say::aside(format_args!("note: {remark}"));
    }
    if let Outcome::Rebuilt { why } = outcome {
        say::aside(format_args!("note: the index was rebuilt: {why}"));
    }
    say::aside(format_args!("searching {}", corpus.description()));
    let queries = sample_queries(corpus.documents(), QUERIES, plan.args.seed.seed);
    if queries.is_empty() {
        let text = format!("{}: it contains no word to search for", corpus.description());
        return Err(Stop::BadInput(text));
    }
    let documents = corpus.documents().len() as u64;
    Ok(Built { corpus: corpus.description().to_owned(), documents, queries })
}

fn index(
    source: &Source,
    folder: &Path,
    shards: u32,
    bar: &ProgressBar,
    stopped: &AtomicBool,
) -> Result<(Corpus, Outcome), Stop> {
    let corpus = Corpus::load(source, Limits::default());
    let corpus = corpus.map_err(Stop::bad)?;
    let mut progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        match stopped.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let built = ShardedIndex::open_or_build(folder, &corpus, shards, &mut progress);
    let (_, outcome) = built.map_err(Stop::lacking)?;
    Ok((corpus, outcome))
}
