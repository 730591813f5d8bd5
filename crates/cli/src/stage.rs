//! `curtail stage`.

use std::path::PathBuf;
use std::process::ExitCode;

use curtail_proxy::config::{Log, LogFormat, LogLevel};
use curtail_stage::check::{self, Found};
use curtail_stage::config::{self, Behind, Stage};
use serde_json::json;

use crate::args::{Json, Seed};
use crate::child;
use crate::exit::Stop;
use crate::proxy;
use crate::say;

/// Put a D-Stage before a server: duplicates wait for everything else, and leave when they are not needed.
///
/// Where clients duplicate requests (policy das of `curtail proxy`, or of the library), a stage keeps the duplicates
/// from delaying anything. Before a server that cannot be changed, it holds requests back and passes on as many at once
/// as keep the server busy, which it finds out.
///
/// Before http, one server is known and nothing is probed: where it is down, clients get a 502 at once. Before tcp a job
/// is a connection, so clients should close theirs after each response; else give it as many slots as they keep.
///
/// SIGTERM drains: what is under way ends. A second one ends at once.
#[derive(clap::Args)]
#[command(after_help = "\
A configuration with a stage of each kind:

  [[stage]]
  name = \"datanode\"            # before HTTP; duplicates say \"priority: u=7\"
  kind = \"http\"
  listen = \"127.0.0.1:9000\"
  server = \"127.0.0.1:9864\"
  # slots = \"auto\"             # or a number: requests at once
  # queue = 1000               # of each class that wait; more get 503
  # timeout = \"60s\"            # of a request; its body has at most 1 MB
  # admin = \"127.0.0.1:9901\"   # metrics and health

  [[stage]]
  name = \"whois\"               # before TCP: a connection is a job
  kind = \"tcp\"
  listen = \"127.0.0.1:9100\"
  listen_low = \"127.0.0.1:9101\"    # duplicates connect to here,
  low_from = [\"10.0.2.0/24\"]       # or come from there
  server = \"127.0.0.1:43\"
  # timeout = \"60s\"            # of a connection over which nothing goes

  [[stage]]
  name = \"files\"               # data of a folder, by curtail_stage::get
  kind = \"get\"
  listen = \"127.0.0.1:9200\"
  purge = \"127.0.0.1:9201\"     # purge messages
  root = \"/srv/data\"           # without it: made-up data, to measure with
  # slots = 4                  # responses that are sent at once
  # reads = 4                  # reads of the disk at once; 1 where it has one head
  # timeout = \"60s\"            # of clients that ask nothing, or take nothing

--check also says what separates primaries from duplicates on this machine's processors, disks and links.")]
pub(crate) struct Args {
    /// The configuration, in TOML
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and the machine, and exit (with --json: a document): 2 when the configuration is wrong
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
    let stages = config::load(&args.config).map_err(|why| Stop::BadConfig(why.to_string()))?;
    if args.check {
        let text = format!("{}: fine, {} stage(s)", args.config.display(), stages.len());
        report(&text, &machine(&stages), args.output.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    proxy::log(&Log { format: LogFormat::Text, level: LogLevel::Info });
    let runtime = crate::runtime()?;
    let done = runtime.block_on(serve(stages, args));
    runtime.shutdown_background();
    done
}

/// What separates the classes on what the stages use.
fn machine(stages: &[Stage]) -> Vec<Found> {
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
    let mut seen = Vec::new();
    all.retain(|found| {
        let new = !seen.contains(found);
        seen.push(found.clone());
        new
    });
    all
}

fn report(text: &str, machine: &[Found], as_json: bool) -> Result<(), Stop> {
    if as_json {
        let verdict = json!({ "kind": "fine", "text": text });
        return say::result(crate::json(&json!({ "verdict": verdict, "resources": machine }))?);
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

async fn serve(stages: Vec<Stage>, args: &Args) -> Result<ExitCode, Stop> {
    // Before an address is known to anyone: a signal must not find us unprepared.
    let mut endings = child::Endings::listen(args.ties.tied_to_stdin)?;
    let started = curtail_stage::start(stages, args.seed.seed).await;
    let running = started.map_err(|why| Stop::Lacking(why.to_string()))?;
    for (name, addresses) in &running.addresses {
        tracing::info!(stage = %name, ?addresses, "listening");
    }
    if args.ties.announce {
        let all: Vec<_> = running.addresses.iter().flat_map(|(_, all)| all.clone()).collect();
        child::announce(&all, "")?;
    }
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = running.run(async { drop(stopped.await) });
    tokio::pin!(serving);
    tokio::select! {
        cut = &mut serving => return Ok(proxy::drained(cut)),
        () = endings.next() => drop(stop),
    }
    tokio::select! {
        cut = serving => Ok(proxy::drained(cut)),
        () = endings.next() => {
            tracing::warn!("second signal: ending at once");
            Ok(ExitCode::from(1))
        }
    }
}
