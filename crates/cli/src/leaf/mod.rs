//! `curtail leaf`: one process of a real search service, to try things on.

mod manual;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use curtail_dist::Spec;
use curtail_search::leaf_server::{
    Cancel, Hiccup, LeafConfig, LeafServer, LeafServerError, Slowdown,
};

use crate::args::{Seed, within};
use crate::child;
use crate::exit::Stop;
use manual::Manual;

/// Serve a real search engine whose service times and hiccups you choose: something to try load,
/// jitter and the proxy on.
///
/// It answers GET /search?q=WORDS, really searching: the guides of this program, or an index that the
/// demo has made. A search takes some 100 us. To be as slow as a service that you have in mind, it
/// stretches its answers by waiting, which takes no processor: so several leaves fit on a small machine.
///
/// A query's own time P (--service-time) is drawn from its target, so it is the same whenever and
/// wherever that query is served; /search?q=tail&n=1 and /search?q=tail&n=2 are two queries. Hiccups
/// (--hiccup) are drawn for every execution anew. One query is served at a time (--slots), and others
/// wait in line. GET /stats says what was served, /health that it lives, and /load how busy it is (for
/// prequal's `probe`).
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
    /// Where to listen; port 0 takes a free one, and the first line on stdout says which
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS", value_parser = address)]
    listen: SocketAddr,
    /// P, a query's own service time, like exp:5ms; without a unit, ms [default: what it really takes]
    #[arg(long, value_name = "DIST")]
    service_time: Option<Spec>,
    /// Hit executions now and then, like 0.003:75ms [default: none]
    #[arg(long, value_name = "PROBABILITY:SPAN", allow_hyphen_values = true)]
    hiccup: Option<Hiccup>,
    /// Give each run of 1/p queries with consecutive numbers one hiccup, so that short runs have their share
    #[arg(long, requires = "hiccup")]
    stratified: bool,
    /// Be so many times slower for every other period, from the first query on, like 3:10s [default: never]
    #[arg(long, value_name = "FACTOR:PERIOD", allow_hyphen_values = true)]
    slow: Option<Slowdown>,
    /// Queries served at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within(&(1..=65_535)))]
    slots: u32,
    /// Queries that may wait; more are answered with 503
    #[arg(long, value_name = "N", default_value_t = 1024)]
    queue: u32,
    /// Stop a query whose connection closes, rather than run it to its end
    #[arg(long)]
    honor_cancel: bool,
    /// Which shard this is; shards have other documents, and draw other service times
    #[arg(long, value_name = "N", default_value_t = 0)]
    shard: u32,
    /// Of how many shards, where there is no --index
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "index", value_parser = clap::value_parser!(u32).range(1..=64))]
    shards: u32,
    /// Which replica of the shard this is; replicas have the same service times, and other hiccups
    /// [default: the port of --listen]
    #[arg(long, value_name = "N")]
    replica: Option<u32>,
    /// The folder of an index, which `curtail demo --out DIR` leaves in DIR/index [default: the guides]
    #[arg(long, value_name = "DIR")]
    index: Option<PathBuf>,
    #[command(flatten)]
    seed: Seed,
    /// End when stdin closes, so that nothing outlives who started it
    #[arg(long, hide = true)]
    tied_to_stdin: bool,
    /// Be killed when the thread that started this ends: for leaves that are paused by signals
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
            return Err(Stop::BadInput(format!(
                "--shard {}: shards are counted from 0, and there are {}; add --shards {least} to all leaves",
                args.shard, args.shards
            )));
        }
        None => Some(Manual::index(args.shards)?),
    };
    let config = config(args, manual.as_ref())?;
    if args.tied_to_parent {
        child::end_with_parent();
    }
    crate::run_small(async {
        // Before the address is known to anyone: a signal must not find us unprepared.
        let mut endings = child::Endings::listen(args.tied_to_stdin)?;
        let leaf = LeafServer::bind(config).await.map_err(|error| match error {
            LeafServerError::Bind { .. } => Stop::Lacking(error.to_string()),
            _ => Stop::BadInput(error.to_string()),
        })?;
        let mut about = leaf.announcement().to_owned();
        if let Some(manual) = manual {
            about = about.replace(&manual.path().display().to_string(), "of the guides of curtail");
            // It is open, and lives on without a name: nothing is left behind, however this ends.
            drop(manual);
        }
        child::announce(&[leaf.address()], &about)?;
        leaf.serve(async move { endings.next().await }).await;
        Ok(ExitCode::SUCCESS)
    })
}

fn config(args: &Args, manual: Option<&Manual>) -> Result<LeafConfig, Stop> {
    // Without a unit, milliseconds.
    let service_time = args.service_time.as_ref().map(|spec| spec.resolve(1e6)).transpose();
    let service_time =
        service_time.map_err(|error| Stop::BadInput(format!("--service-time: {error}")))?;
    let index = args.index.clone().or_else(|| manual.map(Manual::path));
    Ok(LeafConfig {
        listen: args.listen,
        index: index.unwrap_or_default(),
        shard: args.shard,
        // Two leaves without numbers must not have their hiccups together.
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
