//! `curtail root`: the root of the search service. The verb is hidden, because only the demo and
//! the tests start it.

use std::net::SocketAddr;
use std::process::ExitCode;

use curtail_config::instead;
use curtail_kernel::{Limits, Policy, PolicyError};
use curtail_search::root_server::{self, RootConfig, RootServerError};

use crate::args::{Seed, span};
use crate::exit::{Stop, bad};
use crate::{child, run};

/// Query all shards of a search service, through the library.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The replicas of a shard, separated by commas; repeat for each shard
    #[arg(long, value_name = "ADDRESS,…", required = true)]
    shard: Vec<String>,
    /// Policy that picks replicas and hedges queries
    #[arg(long, value_parser = policy)]
    policy: Policy,
    /// Address to listen on; port 0 picks a free port, and the first line on stdout has the address
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Number of queries that a leaf serves at once
    #[arg(long, default_value_t = 1)]
    slots: u32,
    /// Make leaves stop a query when its connection closes
    #[arg(long)]
    cancel: bool,
    /// Deadline of a request
    #[arg(long, default_value = "10s", value_parser = span)]
    timeout: u64,
    /// Attempt timer of a copy
    #[arg(long, default_value = "10s", value_parser = span)]
    attempt_timeout: u64,
    /// Cancel timeout: how long a cancelled copy may stay silent
    #[arg(long, default_value = "10s", value_parser = span)]
    cancel_timeout: u64,
    #[command(flatten)]
    seed: Seed,
    #[command(flatten)]
    tied: child::Tied,
}

/// Parses a policy that can run on real servers.
pub(crate) fn policy(text: &str) -> Result<Policy, String> {
    let policy = Policy::parse(text, None).map_err(|error| match error {
        PolicyError::Unknown { .. } => {
            format!("unknown policy {text:?}; {}", instead(text, &Policy::live_forms()))
        }
        PolicyError::Argument { .. } => error.to_string(),
    })?;
    let only_simulated = policy.simulator_only().map(|why| format!("policy {text:?}: it {why}"));
    only_simulated.map_or(Ok(policy), Err)
}

/// Parses addresses separated by commas.
pub(crate) fn addresses(flag: &str, text: &str) -> Result<Vec<SocketAddr>, Stop> {
    let address = |part: &str| {
        let wrong = |_| bad!("{flag} {text}: {part:?} must be IP:PORT");
        part.trim().parse().map_err(wrong)
    };
    text.split(',').map(address).collect()
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let replicas = |text: &String| addresses("--shard", text);
    let limits = Limits {
        timeout_ns: args.timeout,
        attempt_timeout_ns: args.attempt_timeout,
        cancel_timeout_ns: args.cancel_timeout,
        cancel: args.cancel,
        // Policies are compared as published, without a budget for hedges.
        hedge_budget: 1.0,
        ..Limits::default()
    };
    let config = RootConfig {
        listen: args.listen,
        shards: args.shard.iter().map(replicas).collect::<Result<_, _>>()?,
        policy: args.policy,
        limits,
        slots: args.slots,
        seed: args.seed.seed,
    };
    run::on_one_thread(async {
        let endings = child::Endings::listen(&args.tied)?;
        let root = root_server::bind(config).await.map_err(|error| match error {
            RootServerError::Bind(_) => Stop::lacking(error),
            _ => Stop::bad(error),
        })?;
        let about = root.announcement().to_owned();
        child::serve(root, &about, endings).await
    })
}
