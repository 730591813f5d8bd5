//! The index that the demo searches, and what it asks.

use curtail_search::{Corpus, Limits, Outcome, ShardedIndex, Source, sample_queries};

use super::args::Plan;
use crate::exit::Stop;
use crate::progress;
use crate::say;

/// Distinct queries that are asked, over and over.
const QUERIES: usize = 500;

pub(super) struct Built {
    pub(super) corpus: String,
    pub(super) documents: u64,
    pub(super) queries: Vec<String>,
}

pub(super) fn build(plan: &Plan) -> Result<Built, Stop> {
    let bar = progress::spinner();
    bar.set_message("reading the corpus");
    let source = plan.corpus.clone().map_or(Source::Default, Source::Path);
    let corpus = Corpus::load(&source, Limits::default())
        .map_err(|error| Stop::BadInput(error.to_string()))?;
    bar.finish_and_clear();
    for remark in corpus.remarks() {
        say::aside(format_args!("note: {remark}"));
    }
    let bar = progress::bar("indexing");
    let mut progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let folder = plan.out.join("index");
    let built = ShardedIndex::open_or_build(&folder, &corpus, plan.shards, &mut progress);
    bar.finish_and_clear();
    let (_, outcome) = built.map_err(|error| Stop::Lacking(error.to_string()))?;
    if let Outcome::Rebuilt { why } = outcome {
        say::aside(format_args!("note: the index was built anew: {why}"));
    }
    say::aside(format_args!("searching {}", corpus.description()));
    Ok(Built {
        corpus: corpus.description().to_owned(),
        documents: corpus.documents().len() as u64,
        queries: sample_queries(corpus.documents(), QUERIES, plan.seed),
    })
}
