//! HotROD behind sidecars: three tenants send requests at a modest rate, and a fourth sends far
//! more than its fair share.
//!
//! HotROD, which is written in Go, is Jaeger's example of a graph of services. Each of its HTTP
//! services gets a sidecar, configured in `lab/soa/hotrod/*.toml`; its driver is called directly.
//! The database of its customer service serves one query at a time. HotROD makes every fifth call
//! to Redis fail, and a request fails after three such failures in a row. Our build adds a variable
//! that switches these failures off. Otherwise 5 to 8 % of all requests would fail by chance, and
//! more at higher rates. The baseline uses the same proxies without `[flow]`. These proxies serve
//! requests in the order of arrival.
//!
//! Tenants a, b and c share one open loop, so there is one p99 for all three; d has its own. A
//! response is good if its status is 200. A good response takes at most 2 s, because that is the
//! proxies' timeout. Latencies are those of good responses, from the time at which the request was
//! due.
//!
//! Cost: about 4 · (`--seconds` + 8) seconds.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;
use xtask::cargo;
use xtask::process::{Process, tied};

/// The module whose `examples/hotrod` is built.
const MODULE: &str = "github.com/jaegertracing/jaeger";
const VERSION: &str = "v1.62.0";
/// The line that makes Redis fail, and its replacement.
const FAILS: (&str, &str) = ("es.countTillError = 5", "es.countTillError = config.RedisFails");
/// A source file that is added.
const KNOBS: &str = include_str!("../hotrod/knobs.go");
/// A number of Redis calls that is never reached.
const NEVER: &str = "1000000000000";
/// The services, with the port on which each listens and the port to which it sends, as in the
/// configurations.
const SERVICES: [(&str, &[&str], u16); 4] = [
    ("frontend", &["-f", "18180", "-c", "18081", "-d", "18182", "-r", "18083"], 18180),
    ("customer", &["-c", "18181"], 18181),
    ("driver", &["-d", "18182"], 18182),
    ("route", &["-r", "18183"], 18183),
];
const SIDECARS: [(&str, &str, u16); 3] = [
    ("frontend", include_str!("../hotrod/frontend.toml"), 18080),
    ("customer", include_str!("../hotrod/customer.toml"), 18281),
    ("route", include_str!("../hotrod/route.toml"), 18283),
];
const URL: &str = "http://127.0.0.1:18080/dispatch?customer=123";

/// The median time of a database query. Its standard deviation is 30 ms, so the mean is 18 ms.
const QUERY: &str = "10ms";
/// Requests per second of a, b and c together.
const RATE: f64 = 18.0;
/// Requests per second of d. The database can serve about 55 in all, so a fair share is about 14.
const FLOOD_RATE: f64 = 160.0;

/// The curtail program, and the folder in which it runs next to HotROD.
#[derive(clap::Args)]
pub(crate) struct Programs {
    /// Folder for HotROD's build, for configurations and logs
    #[arg(long, value_name = "DIR", default_value = "out/hotrod")]
    pub(crate) dir: PathBuf,
    #[arg(long, value_name = "FILE", default_value = "target/release/curtail")]
    pub(crate) curtail: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    programs: Programs,
    /// Length of each of the four runs, after 10 s that do not count
    #[arg(long, default_value_t = 58)]
    seconds: u32,
}

/// The results of some tenants' requests.
#[derive(Debug, Serialize)]
struct Tenants {
    sent: u64,
    /// The share of good responses.
    goodput: f64,
    /// Latencies of good responses.
    p50_ms: f64,
    p99_ms: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    sidecars: &'static str,
    /// Results without d.
    calm: BTreeMap<&'static str, Tenants>,
    flood: BTreeMap<&'static str, Tenants>,
}

/// A requirement that is missing on this machine.
#[derive(Debug, thiserror::Error)]
#[error("SKIPPED: {0}")]
pub(crate) struct Lacking(String);

/// Returns a command that runs HotROD without its log, which has several lines per request.
pub(crate) fn silent(hotrod: &Path) -> Command {
    let mut command = tied("sh");
    command.args(["-c", "exec \"$0\" \"$@\" > /dev/null 2>&1"]).arg(hotrod);
    command
}

/// Starts a program and waits until it listens on a port.
pub(crate) fn spawn(name: &str, command: Command, dir: &Path, port: u16) -> Result<Process> {
    let mut process = Process::start(name, command, dir)?;
    process.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    Ok(process)
}

/// Returns the program HotROD, and builds it if necessary.
pub(crate) fn build(dir: &Path) -> Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let built = dir.join("hotrod-knobs");
    if built.is_file() {
        return Ok(built.canonicalize()?);
    }
    let from = format!("{MODULE}@{VERSION}");
    let module: Value = serde_json::from_str(&go(dir, &["mod", "download", "-json", &from])?)?;
    let cached = module["Dir"].as_str().context("go does not report the location of the module")?;
    let copy = dir.join("jaeger");
    // Files that the `go` command downloads are read-only.
    let words = ["-rT", "--no-preserve=mode", cached];
    cargo::output(Command::new("cp").args(words).arg(&copy))?;
    let redis = copy.join("examples/hotrod/services/driver/redis.go");
    let text = fs::read_to_string(&redis)?;
    ensure!(text.contains(FAILS.0), "{} is not the file of version {VERSION}", redis.display());
    fs::write(&redis, text.replace(FAILS.0, FAILS.1))?;
    fs::write(copy.join("examples/hotrod/services/config/knobs.go"), KNOBS)?;
    go(&copy, &["build", "-o", "../hotrod-knobs", "./examples/hotrod"])?;
    Ok(built.canonicalize()?)
}

/// Runs the `go` command and returns its output.
fn go(folder: &Path, words: &[&str]) -> Result<String> {
    let done = cargo::output(Command::new("go").args(words).current_dir(folder));
    Ok(done.map_err(|error| Lacking(format!("{error:#}")))?)
}

/// Returns a configuration without its table `[flow]` and the roles in it.
fn plain(text: &str) -> String {
    let mut in_flow = false;
    let kept = text.lines().filter(|line| {
        if line.starts_with('[') {
            in_flow = line.starts_with("[flow]") || line.starts_with("[[flow.");
        }
        !in_flow && !line.starts_with("flow = ")
    });
    kept.map(|line| format!("{line}\n")).collect()
}

/// Starts all processes. `of` transforms the configurations of the sidecars.
fn processes(args: &Args, hotrod: &Path, of: impl Fn(&str) -> String) -> Result<Vec<Process>> {
    let (mut all, dir) = (Vec::new(), &args.programs.dir);
    for (name, ports, port) in SERVICES {
        let mut command = silent(hotrod);
        command.arg(name).args(ports).args(["-D", QUERY, "-W", "200"]);
        // There is no collector that could receive spans.
        command.env("OTEL_TRACES_SAMPLER", "always_off").env("HOTROD_REDIS_FAILS", NEVER);
        all.push(spawn(name, command, dir, port)?);
    }
    for (name, text, port) in SIDECARS {
        let file = dir.join(format!("{name}.toml"));
        fs::write(&file, of(text))?;
        let mut command = tied(&args.programs.curtail);
        command.args(["proxy", "--config"]).arg(file);
        all.push(spawn(&format!("{name}-sidecar"), command, dir, port)?);
    }
    Ok(all)
}

fn load(args: &Args, tenants: &[&str], rate: f64, seed: u64) -> Result<Process> {
    let line = |tenant| {
        let path = "/dispatch?customer=123";
        format!("{}\n", serde_json::json!({ "path": path, "headers": { "x-tenant": tenant } }))
    };
    let (name, dir) = (tenants.concat(), &args.programs.dir);
    let file = dir.join(format!("{name}.queries"));
    fs::write(&file, tenants.iter().map(line).collect::<String>())?;
    let mut command = tied(&args.programs.curtail);
    command.args(["load", URL, "--json", "--warmup", "10s", "--connections", "1000", "--queries"]);
    command.arg(file).args(["--rate", &rate.to_string(), "--seed", &seed.to_string()]);
    command.args(["--duration", &format!("{}s", args.seconds)]);
    Process::start(&name, command, dir)
}

fn tenants(load: Process) -> Result<Tenants> {
    let report: Value = load.document()?;
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64);
    let sent = number("/requests").context("the load generator reported no requests")?;
    let bad = report["errors"].as_object().into_iter().flatten();
    let bad: f64 = bad.filter_map(|(_, count)| count.as_f64()).sum();
    let ms = |pointer| number(pointer).map_or(f64::NAN, |ns| ns / 1e6);
    Ok(Tenants {
        sent: sent as u64,
        goodput: (sent - bad) / sent,
        p50_ms: ms("/latency_ns/p50"),
        p99_ms: ms("/latency_ns/p99"),
    })
}

fn turn(args: &Args, floods: bool) -> Result<BTreeMap<&'static str, Tenants>> {
    let others = load(args, &["a", "b", "c"], RATE, 1)?;
    let flood = floods.then(|| load(args, &["d"], FLOOD_RATE, 2)).transpose()?;
    let mut all = BTreeMap::from([("others", tenants(others)?)]);
    if let Some(flood) = flood {
        all.insert("d", tenants(flood)?);
    }
    Ok(all)
}

pub(crate) fn run(args: &Args) -> Result<Vec<Outcome>> {
    let hotrod = build(&args.programs.dir)?;
    let mut outcomes = Vec::new();
    for sidecars in ["flow", "plain"] {
        let has_flow = sidecars == "flow";
        let of = |text: &str| if has_flow { text.to_owned() } else { plain(text) };
        let _processes = processes(args, &hotrod, of)?;
        let calm = turn(args, false)?;
        eprintln!("{sidecars}, calm: {calm:?}");
        let flood = turn(args, true)?;
        eprintln!("{sidecars}, flood: {flood:?}");
        outcomes.push(Outcome { sidecars, calm, flood });
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_has_the_same_services_and_no_flow() {
        for (name, text, _) in SIDECARS {
            let baseline = plain(text);
            assert!(!baseline.contains("flow"), "{name}:\n{baseline}");
            assert!(baseline.contains("[listen]") && baseline.contains("slots = "), "{name}");
            assert_eq!(
                baseline.matches("[[service]]").count(),
                text.matches("[[service]]").count()
            );
        }
    }
}
