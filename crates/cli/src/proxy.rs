//! `curtail proxy`: runs the proxy, or checks its configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use curtail_proxy::config::{self, Config, ConfigError, Log, LogFormat, LogLevel};
use curtail_proxy::{Server, Workers};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Json, Seed};
use crate::exit::{Stop, lacking};
use crate::{child, run, say};

/// Put a proxy in front of a replicated service.
///
/// SIGTERM drains the proxy: it stops accepting connections, and gives running requests up to
/// `listen.drain` to finish. A second SIGTERM ends it immediately. SIGHUP checks the configuration
/// file; changes need a restart.
#[derive(clap::Args)]
#[command(after_help = "\
A configuration to start from:

  [listen]
  http = \"127.0.0.1:8080\"

  [[service]]
  name = \"search\"
  slots = 1              # queries that a replica serves at once
  # policy = \"rescue\"    # the default; without slots it is rescue+least-outstanding.
                         # Others: psq, laedge, least-outstanding, ...
                         # or with cancel: delayed:20ms:cc+least-outstanding
  # cancel = \"reset\"     # if replicas stop a query whose connection closes

  [[service.shard]]
  name = \"0\"
  replicas = [\"127.0.0.1:9001\", \"127.0.0.1:9002\"]

Metrics, status and health are on http://127.0.0.1:9901 (listen.admin).")]
pub(crate) struct Args {
    /// The configuration, a TOML file
    #[arg(long, value_name = "FILE", required_unless_present = "schema")]
    config: Option<PathBuf>,
    /// Print the JSON schema of the configuration and exit
    #[arg(long, conflicts_with_all = ["config", "check"])]
    schema: bool,
    /// Check the configuration and exit with 0 if it is valid, 2 if not (with --json: print a
    /// document)
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
    // Clap requires one of `--config` and `--schema`.
    let Some(path) = &args.config else {
        say::result(say::json(&config::schema())?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let config = match config::load(path) {
        Ok(config) => config,
        Err(errors) => {
            if args.check && args.output.json {
                let entry = |error: &ConfigError| json!({ "line": error.line(), "text": error.to_string() });
                let list: Vec<_> = errors.errors().iter().map(entry).collect();
                let text = format!("{}: invalid, {} error(s)", path.display(), list.len());
                let verdict = json!({ "kind": "bad-config", "text": text });
                say::result(say::json(&json!({ "verdict": verdict, "errors": list }))?)?;
            }
            return Err(Stop::BadConfig(errors.to_string()));
        }
    };
    if args.check {
        let text = format!("{}: valid, {}", path.display(), config.summary());
        let (warnings, notes) = (config.warnings(), config.notes());
        if args.output.json {
            let verdict = json!({ "kind": "fine", "text": text });
            let checked = json!({ "verdict": verdict, "warnings": warnings, "notes": notes });
            say::result(say::json(&checked)?)?;
        } else {
            warnings.iter().for_each(|text| say::aside(format_args!("warning: {text}")));
            notes.iter().for_each(|text| say::aside(format_args!("note: {text}")));
            say::result(say::plain(&text))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    log(&config.log);
    remark(&config);
    // Tasks that still run when this returns have exceeded their drain time.
    run::on_one_thread(serve(config, path, args))
}

async fn serve(config: Config, path: &Path, args: &Args) -> Result<ExitCode, Stop> {
    let lacking = |error: std::io::Error| lacking!("cannot handle signals: {error}");
    let endings = child::Endings::listen(&args.ties.tied)?;
    // By convention SIGHUP makes a daemon reread its configuration. Without a handler it would end
    // the process.
    let mut hangup = signal(SignalKind::hangup()).map_err(lacking)?;
    let (summary, unix) = (config.summary(), config.unix().map(Path::to_owned));
    let count = config.workers();
    let workers = Workers::start(count)
        .map_err(|error| lacking!("listen.workers = {count}: cannot start threads: {error}"))?;
    let server = Server::bind(config, args.seed.seed).await.map_err(Stop::lacking)?;
    let http = server.address().map_err(lacking)?;
    let admin = server.admin_address().and_then(Result::ok);
    let https = server.tls_address().and_then(Result::ok).map(tracing::field::display);
    let unix = unix.as_deref().map(|path| tracing::field::display(path.display()));
    let shown = admin.map(tracing::field::display);
    tracing::info!(%http, https, unix, admin = shown, "proxy for {summary}");
    if args.ties.announce {
        let addresses: Vec<_> = std::iter::once(http).chain(admin).collect();
        child::announce(&addresses, "")?;
    }
    let path = path.to_owned();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            recheck(&path);
        }
    });
    Ok(child::drained(endings, |stop| server.run(workers, stop)).await)
}

/// Logs the warnings and notes that `--check` prints.
fn remark(config: &Config) {
    config.warnings().iter().for_each(|text| tracing::warn!("{text}"));
    config.notes().iter().for_each(|text| tracing::info!("{text}"));
}

/// Logs whether the proxy would restart with the current configuration file.
fn recheck(path: &Path) {
    match config::load(path) {
        Ok(_) => tracing::warn!("SIGHUP: the configuration is valid; restart to apply changes"),
        Err(errors) => tracing::error!("SIGHUP: a restart would fail: {errors}"),
    }
}

/// Starts logging to stderr.
pub(crate) fn log(log: &Log) {
    let level = match log.level {
        LogLevel::Error => tracing::Level::ERROR,
        LogLevel::Warn => tracing::Level::WARN,
        LogLevel::Info => tracing::Level::INFO,
        LogLevel::Debug => tracing::Level::DEBUG,
        LogLevel::Trace => tracing::Level::TRACE,
    };
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        // If stderr cannot be written, the logger would report that on stderr, too, and panic.
        .log_internal_errors(false)
        .with_ansi(say::colored(&std::io::stderr()));
    match log.format {
        LogFormat::Json => builder.json().init(),
        LogFormat::Text => builder.init(),
    }
}
