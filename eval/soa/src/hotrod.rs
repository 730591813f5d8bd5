//! HotROD behind sidecars: three tenants send requests at a modest rate, and a fourth sends far
//! more than its fair share.
//!
//! HotROD, which is written in Go, is Jaeger's example of a graph of services. Each of its HTTP
//! services gets a sidecar, configured in `eval/soa/hotrod/*.toml`; its driver is called directly.
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
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::child::{self, Child};

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

/// HotROD, and the curtail program that runs next to it.
#[derive(clap::Args)]
pub(crate) struct Programs {
    /// HotROD program. Built with go by default
    #[arg(long, value_name = "FILE")]
    pub(crate) hotrod: Option<PathBuf>,
    /// Folder for the build and the configurations
    #[arg(long, value_name = "DIR", default_value = "out/hotrod")]
    pub(crate) dir: PathBuf,
    #[arg(long, value_name = "FILE", default_value = "target/release/curtail")]
    pub(crate) curtail: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    programs: Programs,
    /// Median time of a database query. Its standard deviation is 30 ms, so the mean is 18 ms
    #[arg(long, default_value = "10ms")]
    query: String,
    /// Requests per second of a, b and c together
    #[arg(long, default_value_t = 18.0)]
    rate: f64,
    /// Requests per second of d. The database can serve about 55 in all, so a fair share is about
    /// 14
    #[arg(long, default_value_t = 160.0)]
    flood: f64,
    /// Length of each of the four runs, after 10 s that do not count
    #[arg(long, default_value_t = 58)]
    seconds: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
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
struct Outcome {
    sidecars: &'static str,
    /// Results without d.
    calm: BTreeMap<&'static str, Tenants>,
    flood: BTreeMap<&'static str, Tenants>,
}

/// A requirement that is missing on this machine.
#[derive(Debug, thiserror::Error)]
#[error("SKIPPED: {0}")]
pub(crate) struct Lacking(String);

pub(crate) fn start(program: &Path) -> Command {
    let mut command = child::command(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

pub(crate) fn spawn(command: &mut Command, port: u16) -> Result<Child> {
    let mut process = Child::spawn(command)?;
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(status) = process.try_wait()? {
            bail!("{command:?} ended ({status}) before it listened on {port}; is the port in use?");
        }
        ensure!(since.elapsed() < Duration::from_secs(20), "{command:?} does not listen on {port}");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(process)
}

/// Returns the program, and builds it if necessary.
pub(crate) fn build(given: Option<&Path>, dir: &Path) -> Result<PathBuf> {
    fs::create_dir_all(dir)?;
    if let Some(given) = given {
        ensure!(given.is_file(), Lacking(format!("{} is not a file", given.display())));
        return Ok(given.canonicalize()?);
    }
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
    let copied = Command::new("cp").args(words).arg(&copy).status();
    ensure!(copied.is_ok_and(|status| status.success()), "{cached} cannot be copied");
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
    let done = Command::new("go").args(words).current_dir(folder).output();
    let done = done.map_err(|error| Lacking(format!("go cannot be run: {error}")))?;
    let stderr = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), Lacking(format!("go {}: {}", words.join(" "), stderr.trim())));
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
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
fn processes(args: &Args, hotrod: &Path, of: impl Fn(&str) -> String) -> Result<Vec<Child>> {
    let mut all = Vec::new();
    for (name, ports, port) in SERVICES {
        let mut command = start(hotrod);
        command.arg(name).args(ports).args(["-D", &args.query, "-W", "200"]);
        // There is no collector that could receive spans.
        command.env("OTEL_TRACES_SAMPLER", "always_off").env("HOTROD_REDIS_FAILS", NEVER);
        all.push(spawn(&mut command, port)?);
    }
    for (name, text, port) in SIDECARS {
        let file = args.programs.dir.join(format!("{name}.toml"));
        fs::write(&file, of(text))?;
        let mut command = start(&args.programs.curtail);
        all.push(spawn(command.args(["proxy", "--config"]).arg(file), port)?);
    }
    Ok(all)
}

fn load(args: &Args, tenants: &[&str], rate: f64, seed: u64) -> Result<process::Child> {
    let line = |tenant| {
        let path = "/dispatch?customer=123";
        format!("{}\n", serde_json::json!({ "path": path, "headers": { "x-tenant": tenant } }))
    };
    let file = args.programs.dir.join(format!("{}.queries", tenants.concat()));
    fs::write(&file, tenants.iter().map(line).collect::<String>())?;
    let mut command = start(&args.programs.curtail);
    command.args(["load", URL, "--json", "--warmup", "10s", "--connections", "1000", "--queries"]);
    command.arg(file).args(["--rate", &rate.to_string(), "--seed", &seed.to_string()]);
    command.args(["--duration", &format!("{}s", args.seconds)]);
    command.stdout(Stdio::piped()).spawn().context("the load generator did not start")
}

fn tenants(loading: process::Child) -> Result<Tenants> {
    let done = loading.wait_with_output()?;
    let report: Value =
        serde_json::from_slice(&done.stdout).context("the load generator printed no JSON")?;
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
    let others = load(args, &["a", "b", "c"], args.rate, 1)?;
    let flood = if floods { Some(load(args, &["d"], args.flood, 2)?) } else { None };
    let mut all = BTreeMap::from([("others", tenants(others)?)]);
    if let Some(flood) = flood {
        all.insert("d", tenants(flood)?);
    }
    Ok(all)
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let hotrod = build(args.programs.hotrod.as_deref(), &args.programs.dir)?;
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
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
        return Ok(());
    }
    println!(
        "{:10}{:8}{:8}{:>8}{:>10}{:>10}{:>10}",
        "sidecars", "load", "of", "sent", "good", "p50 ms", "p99 ms"
    );
    for Outcome { sidecars, calm, flood } in &outcomes {
        for (load, turn) in [("calm", calm), ("flood", flood)] {
            for (of, Tenants { sent, goodput, p50_ms, p99_ms }) in turn {
                println!(
                    "{sidecars:10}{load:8}{of:8}{sent:>8}{goodput:>10.3}{p50_ms:>10.0}{p99_ms:>10.0}"
                );
            }
        }
    }
    Ok(())
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
