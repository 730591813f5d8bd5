//! The index that the demo searches, and what it asks.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use curtail_search::{Corpus, Limits, Outcome, ShardedIndex, Source, sample_queries};
use tokio::task::{JoinError, spawn_blocking};

use super::args::Plan;
use crate::exit::Stop;
use crate::progress;
use crate::say;
use crate::signals::Termination;

/// Distinct queries that are asked, over and over.
const QUERIES: usize = 500;

pub(super) struct Built {
    pub(super) corpus: String,
    pub(super) documents: u64,
    pub(super) queries: Vec<String>,
}

/// Reads the corpus and builds its index, both in threads of their own, so that a signal is heard.
pub(super) async fn build(plan: &Plan<'_>, signals: &mut Termination) -> Result<Built, Stop> {
    let bar = progress::spinner();
    bar.set_message("reading the corpus");
    let source = plan.args.corpus.clone().map_or(Source::Default, Source::Path);
    let reading = spawn_blocking(move || Corpus::load(&source, Limits::default()));
    let corpus = tokio::select! {
        corpus = reading => corpus.map_err(|error| lost(&error))?,
        // There is nothing yet to put in order.
        () = signals.next() => return Err(Stop::Interrupted("while the corpus was read")),
    };
    bar.finish_and_clear();
    let corpus = Arc::new(corpus.map_err(|error| Stop::BadInput(error.to_string()))?);
    for remark in corpus.remarks() {
        say::aside(format_args!("note: {remark}"));
    }
    let outcome = index(plan, &corpus, signals).await?;
    if let Outcome::Rebuilt { why } = outcome {
        say::aside(format_args!("note: the index was built anew: {why}"));
    }
    say::aside(format_args!("searching {}", corpus.description()));
    let queries = sample_queries(corpus.documents(), QUERIES, plan.args.seed.seed);
    if queries.is_empty() {
        let text = format!("{}: there is no word in it to ask for", corpus.description());
        return Err(Stop::BadInput(text));
    }
    let documents = corpus.documents().len() as u64;
    Ok(Built { corpus: corpus.description().to_owned(), documents, queries })
}

async fn index(
    plan: &Plan<'_>,
    corpus: &Arc<Corpus>,
    signals: &mut Termination,
) -> Result<Outcome, Stop> {
    let bar = progress::bar("indexing");
    let (shown, interrupted) = (bar.clone(), Arc::new(AtomicBool::new(false)));
    let (corpus, stop) = (Arc::clone(corpus), Arc::clone(&interrupted));
    let (folder, shards) = (plan.args.out.join("index"), plan.args.shards);
    let mut building = spawn_blocking(move || {
        let mut progress = |done, total| {
            shown.set_length(total);
            shown.set_position(done);
            match stop.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        ShardedIndex::open_or_build(&folder, &corpus, shards, &mut progress)
    });
    let built = tokio::select! {
        built = &mut building => built,
        () = signals.next() => {
            interrupted.store(true, Ordering::Relaxed);
            // It removes its folder. If it was all but done, there is a good index now.
            let _ = building.await;
            return Err(Stop::Interrupted("while the index was built"));
        }
    };
    bar.finish_and_clear();
    let (_, outcome) =
        built.map_err(|error| lost(&error))?.map_err(|error| Stop::Lacking(error.to_string()))?;
    Ok(outcome)
}

/// A thread of ours that panicked has said so.
fn lost(error: &JoinError) -> Stop {
    Stop::Lacking(format!("the work stopped: {error}"))
}
