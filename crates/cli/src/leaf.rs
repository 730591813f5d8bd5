//! `curtail leaf`: one process of a real search service, to experiment with.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use curtail_dist::Spec;
use curtail_search::leaf_server::{self, Cancel, Hiccup, LeafConfig, LeafServerError, Slowdown};
use curtail_search::{Corpus, ShardedIndex};
use tempfile::TempDir;

use crate::args::{Seed, within};
use crate::exit::{Stop, bad, lacking};
use crate::{child, run};

/// Serve a real search engine whose service times and hiccups you choose: a target for load, jitter
/// and the proxy.
///
/// It serves GET /search?q=WORDS with a real search of the guides of this program, or of an index
/// that the demo has built. A search takes about 100 us. To imitate a slower service, the leaf
/// delays its responses without using the processor, so several leaves fit on a small machine.
///
/// A query's own service time P (--service-time) is determined by its target, so it is the same
/// whenever and wherever that query is served; /search?q=tail&n=1 and /search?q=tail&n=2 are two
/// different queries. Hiccups (--hiccup) are drawn separately for every execution. The leaf serves
/// one query at a time (--slots), and others wait in line. GET /stats returns counters, /health
/// whether the leaf is up, and /load its current load (for prequal's `probe`).
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail leaf --listen 127.0.0.1:9001 --service-time exp:2ms --hiccup 0.02:40ms
  curl '127.0.0.1:9001/search?q=hedge'

Two replicas of one shard, and one that stops when its client goes away:
  curtail leaf --listen 127.0.0.1:9001 --service-time exp:5ms --hiccup 0.003:75ms
  curtail leaf --listen 127.0.0.1:9002 --service-time exp:5ms --hiccup 0.003:75ms
  curtail leaf --listen 127.0.0.1:9003 --service-time exp:5ms --honor-cancel

Requests to send to it, a query each:
  seq 300 | sed 's|.*|/search?q=tail+latency\\&n=&|' > queries.txt
  curtail load http://127.0.0.1:9001 --queries queries.txt --rate 100")]
pub(crate) struct Args {
    /// Address to listen on; port 0 picks a free port, and the first line on stdout has the address
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS", value_parser = address)]
    listen: SocketAddr,
    /// P, a query's own service time, such as exp:5ms; in ms if it has no unit [default: the time
    /// of the search]
    #[arg(long, value_name = "DIST")]
    service_time: Option<Spec>,
    /// Probability and length of a hiccup of an execution, such as 0.003:75ms [default: none]
    #[arg(long, value_name = "PROBABILITY:SPAN", allow_hyphen_values = true)]
    hiccup: Option<Hiccup>,
    /// Give exactly one hiccup to each group of 1/PROBABILITY consecutively numbered queries, so
    /// that short runs have the expected number of hiccups
    #[arg(long, requires = "hiccup")]
    stratified: bool,
    /// Alternate between periods at normal speed and periods that are slower by FACTOR, such as
    /// 3:10s; the first query starts a period at normal speed [default: never]
    #[arg(long, value_name = "FACTOR:PERIOD", allow_hyphen_values = true)]
    slow: Option<Slowdown>,
    /// Number of queries served at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within(&(1..=65_535)))]
    slots: u32,
    /// Number of queries that may wait; more get a 503
    #[arg(long, value_name = "N", default_value_t = 1024)]
    queue: u32,
    /// Stop a query when its connection closes, instead of running it to completion
    #[arg(long)]
    honor_cancel: bool,
    /// Number of this shard, counting from 0; shards have different documents and draw different
    /// service times
    #[arg(long, value_name = "N", default_value_t = 0)]
    shard: u32,
    /// Number of shards; cannot be combined with --index
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "index", value_parser = clap::value_parser!(u32).range(1..=64))]
    shards: u32,
    /// Number of this replica of the shard; replicas have the same service times and different
    /// hiccups [default: the port of --listen]
    #[arg(long, value_name = "N")]
    replica: Option<u32>,
    /// Directory of an index, which `curtail demo --out DIR` writes to DIR/index [default: the
    /// guides]
    #[arg(long, value_name = "DIR")]
    index: Option<PathBuf>,
    #[command(flatten)]
    seed: Seed,
    #[command(flatten)]
    tied: child::Tied,
    /// Die when the thread that started this process ends, for leaves that are paused by signals
    #[arg(long, hide = true)]
    tied_to_parent: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write IP:PORT, such as 127.0.0.1:9001 or [::1]:9001".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let manual = match &args.index {
        Some(_) => None,
        None if args.shard >= args.shards => {
            let least = args.shard.saturating_add(1);
            return Err(bad!(
                "--shard {}: shards are numbered from 0, and there are {}; add --shards {least} to \
                 all leaves",
                args.shard,
                args.shards
            ));
        }
        None => Some(Manual::index(args.shards)?),
    };
    let config = config(args, manual.as_ref())?;
    if args.tied_to_parent {
        child::end_with_parent();
    }
    run::on_one_thread(async {
        let endings = child::Endings::listen(&args.tied)?;
        let leaf = leaf_server::bind(config).await.map_err(|error| match error {
            LeafServerError::Bind(_) => Stop::lacking(error),
            _ => Stop::bad(error),
        })?;
        let mut about = leaf.announcement().to_owned();
        if let Some(manual) = manual {
            about = about.replace(&manual.path().display().to_string(), "of the guides of curtail");
            // Delete the files while they are open, so that none is left behind however the process
            // ends.
            drop(manual);
        }
        child::serve(leaf, &about, endings).await
    })
}

fn config(args: &Args, manual: Option<&Manual>) -> Result<LeafConfig, Stop> {
    // Times without a unit are in milliseconds.
    let service_time = args.service_time.as_ref().map(|spec| spec.resolve(1e6)).transpose();
    let service_time = service_time.map_err(|error| bad!("--service-time: {error}"))?;
    let index = args.index.clone().or_else(|| manual.map(Manual::path));
    Ok(LeafConfig {
        listen: args.listen,
        index: index.unwrap_or_default(),
        shard: args.shard,
        // The port distinguishes leaves without a replica number, so that their hiccups do not
        // coincide.
        replica: args.replica.unwrap_or_else(|| args.listen.port().into()),
        slots: args.slots,
        service_time,
        hiccup: args.hiccup,
        stratified: args.stratified,
        slow: args.slow,
        cancel: if args.honor_cancel { Cancel::Honor } else { Cancel::Ignore },
        queue: args.queue,
        seed: args.seed.seed,
    })
}

/// The guides. Each chapter becomes a document.
const GUIDES: [&str; 12] = [
    include_str!("../../../ARCHITECTURE.md"),
    include_str!("../../../CONTRIBUTING.md"),
    include_str!("../../../docs/advise.md"),
    include_str!("../../../docs/distributions.md"),
    include_str!("../../../docs/jitter.md"),
    include_str!("../../../docs/load.md"),
    include_str!("../../../docs/model.md"),
    include_str!("../../../docs/proxy.md"),
    include_str!("../../../docs/python.md"),
    include_str!("../../../docs/rescue.md"),
    include_str!("../../../docs/sim.md"),
    include_str!("../../../docs/sweep.md"),
];

/// An index of the guides of this program, which are compiled in, so that a leaf starts within
/// milliseconds on a machine without other data. Dropping it deletes the files.
struct Manual {
    folder: TempDir,
}

impl Manual {
    /// Builds the index in a temporary directory.
    fn index(shards: u32) -> Result<Self, Stop> {
        let lacking = |why: String| lacking!("no index of the guides: {why}");
        let folder = tempfile::Builder::new().prefix("curtail-guides-").tempdir();
        let folder = folder.map_err(|error| lacking(error.to_string()))?;
        let corpus = Corpus::from_texts(chapters(), "the guides of curtail");
        let mut go_on = |_, _| ControlFlow::Continue(());
        ShardedIndex::build(&place(folder.path()), &corpus, shards, &mut go_on)
            .map_err(|error| lacking(error.to_string()))?;
        Ok(Self { folder })
    }

    fn path(&self) -> PathBuf {
        place(self.folder.path())
    }
}

fn place(folder: &Path) -> PathBuf {
    folder.join("guides")
}

/// The chapters, as pairs of title and text.
fn chapters() -> impl Iterator<Item = (&'static str, &'static str)> {
    GUIDES.iter().flat_map(|guide| guide.split("\n#")).map(|chapter| {
        let title = chapter.trim_start_matches('#').lines().next().unwrap_or_default();
        (title.trim(), chapter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chapter_is_a_document() {
        let all: Vec<_> = chapters().collect();
        assert!(all.len() > 60, "{} chapters", all.len());
        assert!(all.iter().all(|(title, text)| !title.is_empty() && text.contains(title)));
        assert!(all.iter().any(|(title, _)| *title == "What open loop means"));
    }
}
