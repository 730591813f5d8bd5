//! `curtail stage`: runs D-Stages, or checks their configuration and the machine.

use std::path::PathBuf;
use std::process::ExitCode;

use curtail_proxy::config::{Log, LogFormat, LogLevel};
use curtail_stage::check::{self, Found};
use curtail_stage::config::{self, Behind, StageConfig};
use serde_json::json;

use crate::args::{Json, Seed};
use crate::exit::Stop;
use crate::{child, proxy, run, say};

/// Put a D-Stage in front of a server: duplicates wait for all other requests, and are removed when
/// they are no longer needed.
///
/// If clients duplicate requests (policy das of `curtail proxy`, or of the library), a stage keeps
/// the duplicates from delaying other requests. In front of a server that cannot be changed, it
/// queues requests and forwards only as many at a time as the server needs to stay busy. The stage
/// finds this number by itself.
///
/// An http stage has one server and does not probe it: while the server is down, clients
/// immediately get a 502. In a tcp stage, a job is a connection, so clients should close theirs
/// after each response. Otherwise set its slots to the number of connections that they keep open, and
/// its max_duration to the time for which they keep them open. A connection takes a slot when its
/// client sends the first byte.
///
/// SIGTERM drains the stage, which finishes the requests in progress. A second SIGTERM ends it
/// immediately.
#[derive(clap::Args)]
#[command(after_help = "\
A configuration with a stage of each kind:

  [[stage]]
  name = \"datanode\"            # before HTTP; duplicates carry \"priority: u=7\"
  kind = \"http\"
  listen = \"127.0.0.1:9000\"
  server = \"127.0.0.1:9864\"
  # slots = \"auto\"             # or a number: requests at once
  # queue = 1000               # waiting requests per class; more get 503
  # timeout = \"60s\"            # of a request; its body has at most 1 MB
  # admin = \"127.0.0.1:9901\"   # metrics and health

  [[stage]]
  name = \"whois\"               # before TCP: a connection is a job
  kind = \"tcp\"
  listen = \"127.0.0.1:9100\"
  listen_low = \"127.0.0.1:9101\"    # duplicates connect to here,
  low_from = [\"10.0.2.0/24\"]       # or come from there
  server = \"127.0.0.1:43\"
  # timeout = \"60s\"            # of an idle connection
  # max_duration = \"5min\"      # of a connection that has a slot
  # server_first = true        # the server sends the first byte

  [[stage]]
  name = \"files\"               # files of a directory, for curtail_stage::get
  kind = \"get\"
  listen = \"127.0.0.1:9200\"
  purge = \"127.0.0.1:9201\"     # purge messages
  root = \"/srv/data\"           # without it: made-up data, for measurements
  # slots = 4                  # responses that are sent at once
  # reads = 4                  # disk reads at once; 1 for a disk with one head
  # timeout = \"60s\"            # of clients that neither send nor read

--check also reports what separates primaries from duplicates on this machine's processors, disks and
links.")]
pub(crate) struct Args {
    /// The configuration, a TOML file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and the machine, and exit; the exit code is 2 if the configuration
    /// is wrong (with --json: print a document)
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    ties: child::Ties,
    #[command(flatten)]
    seed: Seed,
    #[command(flatten)]
    output: Json,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let stages = config::load(&args.config).map_err(Stop::config)?;
    if args.check {
        let text = format!("{}: valid, {} stage(s)", args.config.display(), stages.len());
        report(&text, &machine(&stages), args.output.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    proxy::log(&Log { format: LogFormat::Text, level: LogLevel::Info });
    run::on_all_cores(serve(stages, args))
}

/// Reports, for each resource that the stages use, how this machine can separate the two classes.
fn machine(stages: &[StageConfig]) -> Vec<Found> {
    let mut all = Vec::new();
    if stages.iter().any(|stage| matches!(stage.behind, Behind::Get { .. })) {
        all.push(check::processors());
    }
    for stage in stages {
        if let Behind::Get { root: Some(root), .. } = &stage.behind {
            all.push(check::disk(root));
        }
        all.push(check::link(stage.listen.ip()));
    }
    let mut found: Vec<Found> = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn report(text: &str, machine: &[Found], as_json: bool) -> Result<(), Stop> {
    if as_json {
        let verdict = json!({ "kind": "fine", "text": text });
        return say::result(say::json(&json!({ "verdict": verdict, "resources": machine }))?);
    }
    say::result(say::plain(text))?;
    for Found { resource, name, mechanism, lacks } in machine {
        say::result(say::plain(&format!("{resource} {name}: {mechanism}")))?;
        if let Some(lacks) = lacks {
            say::result(say::plain(&format!("  {lacks}")))?;
        }
    }
    Ok(())
}

async fn serve(stages: Vec<StageConfig>, args: &Args) -> Result<ExitCode, Stop> {
    let endings = child::Endings::listen(&args.ties.tied)?;
    let started = curtail_stage::start(stages, args.seed.seed).await;
    let running = started.map_err(Stop::lacking)?;
    for (name, addresses) in &running.addresses {
        tracing::info!(stage = %name, ?addresses, "listening");
    }
    if args.ties.announce {
        let all: Vec<_> = running.addresses.iter().flat_map(|(_, all)| all.clone()).collect();
        child::announce(&all, "")?;
    }
    Ok(child::drained(endings, |stop| running.run(stop)).await)
}
