//! `curtail leaf`: one process of the search service. Hidden: the demo and the tests start it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use curtail_dist::Spec;
use curtail_search::leaf_server::{Cancel, Hiccup, LeafConfig, LeafServer, LeafServerError};

use crate::child;
use crate::exit::Stop;

/// Serve one shard of a search index.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Which shard of it
    #[arg(long)]
    shard: u32,
    /// Which replica of the shard this is
    #[arg(long, default_value_t = 0)]
    replica: u32,
    /// Where to listen; port 0 takes a free one, and the first line on stdout says which
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Queries served at once
    #[arg(long, default_value_t = 1)]
    slots: u32,
    /// Stretch answers by waiting: a query's own service time, like exp:5ms; without a unit, ms
    #[arg(long, value_name = "DIST")]
    service_time: Option<Spec>,
    /// Hit queries on this replica now and then, like 0.003:75ms
    #[arg(long, value_name = "PROBABILITY:SPAN")]
    hiccup: Option<Hiccup>,
    /// Stop a query whose connection closes, rather than run it to its end
    #[arg(long)]
    honor_cancel: bool,
    /// Queries that may wait
    #[arg(long, default_value_t = 1024)]
    queue: u32,
    /// Decides all draws
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// End when stdin closes, so that nothing outlives who started it
    #[arg(long)]
    tied_to_stdin: bool,
    /// Be killed when the thread that started this ends: for leaves that are paused by signals
    #[arg(long)]
    tied_to_parent: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let service_time = match &args.service_time {
        // Without a unit, milliseconds.
        Some(spec) => Some(spec.resolve(1e6).map_err(|error| Stop::BadInput(error.to_string()))?),
        None => None,
    };
    let config = LeafConfig {
        listen: args.listen,
        index: args.index.clone(),
        shard: args.shard,
        replica: args.replica,
        slots: args.slots,
        service_time,
        hiccup: args.hiccup,
        cancel: if args.honor_cancel { Cancel::Honor } else { Cancel::Ignore },
        queue: args.queue,
        seed: args.seed,
    };
    if args.tied_to_parent {
        child::end_with_parent();
    }
    crate::run_small(async {
        // Before anybody is told where we listen: a signal must not find us unprepared.
        let mut endings = child::Endings::listen(args.tied_to_stdin)?;
        let leaf = LeafServer::bind(config).await.map_err(|error| match error {
            LeafServerError::Bind { .. } => Stop::Lacking(error.to_string()),
            _ => Stop::BadInput(error.to_string()),
        })?;
        child::announce(&[leaf.address()], leaf.announcement())?;
        leaf.serve(async move { endings.next().await }).await;
        Ok(ExitCode::SUCCESS)
    })
}
