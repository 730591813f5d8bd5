//! Builds an index over the machine's default corpus and answers one query from its shards.
//!
//! `cargo run --release -p curtail-search --example search_once -- '+editor "text mode"' [DIR]`

use std::error::Error;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use curtail_search::{
    Corpus, Limits, Outcome, Query, ShardedIndex, Source, merge_top_k, sample_queries,
};

const SHARDS: u32 = 3;
const QUERIES: usize = 2_000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("search_once: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let text = arguments.next();
    let default = || std::env::temp_dir().join("curtail-search-example");
    let directory = arguments.next().map_or_else(default, PathBuf::from);

    let start = Instant::now();
    let corpus = Corpus::load(&Source::Default, Limits::default())?;
    println!("{} (read in {:.1?})", corpus.description(), start.elapsed());
    for remark in corpus.remarks() {
        println!("note: {remark}");
    }

    let start = Instant::now();
    let mut progress = |done, total| {
        eprint!("\rindexed {done} of {total}");
        ControlFlow::Continue(())
    };
    let (index, outcome) = ShardedIndex::open_or_build(&directory, &corpus, SHARDS, &mut progress)?;
    if outcome != Outcome::Reused {
        eprintln!();
    }
    let (took, megabytes) = (start.elapsed(), index.bytes() as f64 / 1e6);
    println!("{outcome:?} in {took:.1?}: {SHARDS} shards, {megabytes:.1} MB in {directory:?}");

    let samples = sample_queries(corpus.documents(), 5, 1);
    let query = Query::parse(text.as_deref().unwrap_or(&samples[0]))?;
    println!("query: {query}   (others to try: {})", samples.join("  |  "));
    let (mut answers, mut matched) = (Vec::new(), 0);
    for shard in 0..index.shards() {
        let leaf = index.leaf(shard)?;
        let start = Instant::now();
        let answer = leaf.answer(&query, 10)?;
        println!("shard {shard}: {} matches in {:.1?}", answer.matched, start.elapsed());
        matched += answer.matched;
        answers.push(answer.hits);
    }
    println!("{matched} documents match; the best:");
    for hit in merge_top_k(answers, 10) {
        println!("{:>9.4}  #{:<6} {}", hit.score, hit.id, hit.title);
    }
    time_queries(&index, &sample_queries(corpus.documents(), QUERIES, 2))
}

/// How long one leaf takes for the query load that is drawn from the corpus.
fn time_queries(index: &ShardedIndex, queries: &[String]) -> Result<(), Box<dyn Error>> {
    let leaf = index.leaf(0)?;
    let mut took = Vec::with_capacity(queries.len());
    for text in queries {
        let start = Instant::now();
        leaf.search(&Query::parse(text)?, 10)?;
        took.push(start.elapsed());
    }
    took.sort();
    if let (Some(&slowest), count) = (took.last(), took.len()) {
        let (median, p99) = (took[count / 2], took[count * 99 / 100]);
        println!(
            "{count} sampled queries on one leaf: median {median:.1?}, p99 {p99:.1?}, max {slowest:.1?}"
        );
    }
    Ok(())
}
