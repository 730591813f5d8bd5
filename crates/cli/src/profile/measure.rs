//! Profiles a running server.

use std::path::Path;

use curtail_probe::app::App;
use curtail_probe::profile::{Profile, Sampling};

use crate::args::{percent, span_from, within};
use crate::exit::{Stop, bad};

/// Flags that choose the server to profile, and how to stamp its requests.
#[derive(clap::Args)]
pub(crate) struct ServerArgs {
    /// Profile the server with this process id, and its children (needs root)
    #[arg(long, value_name = "PID", conflicts_with = "target", help_heading = SERVER)]
    pub(super) pid: Option<u32>,
    /// Profile only connections to this port; without --pid, profile the server that listens on it
    #[arg(long, value_name = "PORT", conflicts_with = "target", help_heading = SERVER)]
    pub(super) port: Option<u16>,
    /// Stages inside the server: memcached, httpd, nginx, redis, a TOML file, or none (only stages
    /// in the kernel) [default: chosen by the name of the process]
    #[arg(long, value_name = "NAME|FILE", help_heading = SERVER)]
    pub(super) app: Option<String>,
    /// Maximum cost of stamping, as a share of the median request time; or 1/K to stamp one of
    /// every K time slices
    #[arg(long, value_name = "SHARE|1/K", value_parser = sampling, default_value = "5%", help_heading = SERVER)]
    pub(super) sampling: Sampling,
    /// Length of a time slice, if the duration is long enough for three slices; the server stops
    /// for a few milliseconds whenever marks are attached
    #[arg(long, value_name = "SPAN", value_parser = slice, default_value = "1s", help_heading = SERVER)]
    pub(super) slice: u64,
    /// Maximum number of open connections; each takes 10 kB of kernel memory from the start
    #[arg(long, value_name = "N", value_parser = within(&(1..=65_536)), default_value_t = 4_096, help_heading = SERVER)]
    pub(super) connections: u32,
    /// Attach probes even if the kernel must execute a copy of the instruction, which costs a few
    /// microseconds per call
    #[arg(long, help_heading = SERVER)]
    pub(super) allow_slow_probes: bool,
}

impl ServerArgs {
    /// Whether to profile a running server.
    pub(super) fn is_given(&self) -> bool {
        self.pid.is_some() || self.port.is_some()
    }
}

const SERVER: &str = "A running server";

/// Parses the length of a slice. The minimum is 10 ms, because attaching takes milliseconds.
fn slice(text: &str) -> Result<u64, String> {
    span_from(10_000_000, "a slice must be at least 10ms", text)
}

fn sampling(text: &str) -> Result<Sampling, String> {
    let one_in =
        text.strip_prefix("1/").and_then(|k| k.parse().ok()).filter(|k| (1..=1_000).contains(k));
    one_in
        .map(Sampling::OneIn)
        .map_or_else(|| percent(text).map(Sampling::Share), Ok)
        .map_err(|_| "write a share such as 5%, or 1/k with k from 1 to 1000".to_owned())
}

/// Returns the stages inside the server, and whether they were guessed from the process name.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn app(asked: Option<&str>, process: &str) -> Result<(App, bool), Stop> {
    let Some(asked) = asked else {
        let name = match process {
            "apache2" => "httpd",
            "redis-server" => "redis",
            name => name,
        };
        return Ok(App::named(name).map_or_else(|| (App::unknown(), false), |app| (app, true)));
    };
    if asked == "none" {
        return Ok((App::unknown(), false));
    }
    if let Some(app) = App::named(asked) {
        return Ok((app, false));
    }
    let path = Path::new(asked);
    std::fs::metadata(path).map_err(|error| {
        let known: Vec<_> = App::built_in().collect();
        let known = known.join(", ");
        bad!("--app {asked}: {error}; give {known}, none, or a TOML file")
    })?;
    let text = curtail_config::read_text(path).map_err(Stop::config)?;
    let app = App::parse(asked, &text).map_err(Stop::config)?;
    Ok((app, false))
}

/// Profiles the server that the arguments name. The returned flag is true if a signal ended the
/// measurement.
#[cfg(not(target_os = "linux"))]
pub(super) fn measure(_: &ServerArgs, _: u64) -> Result<(Profile, bool), Stop> {
    let why = "only Linux can profile running servers; elsewhere, profile traces";
    Err(Stop::Lacking(why.to_owned()))
}

#[cfg(target_os = "linux")]
pub(super) use live::measure;

#[cfg(target_os = "linux")]
mod live {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use curtail_machine::LocalLeaf;
    use curtail_probe::live::{LiveError, Options, Session, Target};

    use super::{App, Profile, ServerArgs, Stop, app};
    use crate::exit::{bad, lacking};
    use crate::run::{Termination, spinner};
    use crate::say;

    pub(in super::super) fn measure(
        args: &ServerArgs,
        duration_ns: u64,
    ) -> Result<(Profile, bool), Stop> {
        let target = Target::find(pid(args)?, args.port).map_err(|error| refused(&error))?;
        let (app, is_guess) = app(args.app.as_deref(), &target.name)?;
        let options = |app| Options {
            app,
            sampling: args.sampling,
            slice: Duration::from_nanos(args.slice),
            duration: Duration::from_nanos(duration_ns),
            connections: args.connections,
            allow_slow: args.allow_slow_probes,
        };
        let stop = Arc::new(AtomicBool::new(false));
        interrupt(&stop)?;
        let session = match Session::attach(target.clone(), options(app)) {
            Err(error) if is_guess && error.is_bad_input() => {
                say::aside(format!("warning: no stages inside {}: {error}", target.name));
                Session::attach(target, options(App::unknown()))
            }
            attached => attached,
        };
        let session = session.map_err(|error| refused(&error))?;
        session.warnings().iter().for_each(|warning| say::aside(format!("warning: {warning}")));
        let bar = spinner();
        bar.set_message("calibrating");
        let profile = session.run(&stop, |so_far| bar.set_message(summary(so_far)));
        bar.finish_and_clear();
        match profile.map_err(|error| refused(&error))? {
            empty if empty.windows.is_empty() => {
                Err(Stop::Interrupted("before any request was seen"))
            }
            profile => Ok((profile, stop.load(Ordering::Relaxed))),
        }
    }

    fn refused(error: &LiveError) -> Stop {
        match error.is_bad_input() {
            true => Stop::BadInput(error.to_string()),
            false => Stop::Lacking(error.to_string()),
        }
    }

    /// Returns the given process, or the first that listens on the port.
    fn pid(args: &ServerArgs) -> Result<u32, Stop> {
        if let Some(pid) = args.pid {
            return Ok(pid);
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port.unwrap_or_default()));
        let leaf = LocalLeaf::find(address)
            .map_err(|error| bad!("--port: {error}; see `ss -ltnp`, and run this as root"))?;
        Ok(leaf.processes[0].cast_unsigned())
    }

    /// Sets `stop` when a signal arrives. The profile measured up to then is still shown.
    fn interrupt(stop: &Arc<AtomicBool>) -> Result<(), Stop> {
        let lacking = |error| lacking!("cannot handle signals: {error}");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(lacking)?;
        let mut signals = runtime.block_on(async { Termination::listen_at_terminal() })?;
        let stop = Arc::clone(stop);
        let wait = move || {
            runtime.block_on(signals.next());
            stop.store(true, Ordering::Relaxed);
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(lacking)?;
        Ok(())
    }

    /// A progress message with one line per stage.
    fn summary(profile: &Profile) -> String {
        let whole = profile.whole();
        let (moments, total) = (&whole.moments, profile.total());
        let p99 = whole.histograms.last().and_then(|all| all.quantile(0.99)).unwrap_or(0.0);
        let mut text = format!("{} requests, p99 {:.0} us", moments.requests(), p99 / 1e3);
        let mut stages: Vec<(f64, &String)> = (0..profile.stages.len())
            .map(|at| {
                (
                    moments.covariance(at, total) / moments.variance(total).max(1.0),
                    &profile.stages[at],
                )
            })
            .collect();
        stages.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (share, stage) in stages {
            text.push_str(&format!("\n  {stage:<20} {:>5.1} % of the variance", share * 100.0));
        }
        text
    }
}
