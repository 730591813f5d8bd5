//! `cargo xtask soak`: runs a proxy in front of real leaves and tonic servers that are killed, paused and turned into
//! black holes, and in front of replicas with slow URLs, poison requests and refused connections.
//! Some clients leave early, and some do not read.
//!
//! A soak passes if all of the following hold: every request whose client stayed got a response,
//! and all but a few responses were good; requests that a healthy replica could serve were served;
//! every slot is free at the end; the proxy's memory is flat; and a long run had at least one
//! fault.

mod clients;
mod memory;
mod odd;
mod scene;
mod wire;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rand_core::Rng as _;
use serde::Serialize;
use serde_json::{Value, json};

use xtask::cargo;

use clients::Counts;
use memory::Memory;
use scene::{Programs, Scene};

/// The default policies, which share the time. Some of them cancel and some do not, and together
/// they use every kind of gate.
const POLICIES: [&str; 4] = ["laedge", "psq", "laedge:cc+pc", "least-outstanding"];

/// The share of responses that may be errors, because a request may lose both of its copies.
const ERRORS_FINE: f64 = 0.01;
/// A run of at least this length must contain faults, whatever the random draws.
const LONG: Duration = Duration::from_secs(15);

/// The number of shards of the search service.
const SHARDS: u32 = 3;

/// The timeout of the services.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Options of the soak.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Total length
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Policies, each of which gets an equal share of the time
    #[arg(long, value_delimiter = ',', default_values = POLICIES)]
    policies: Vec<String>,
    /// Requests per second with HTTP/1.1, and half as many with HTTP/2. With the default value, the
    /// leaves are busy about a third of the time
    #[arg(long, default_value_t = 600.0)]
    rate: f64,
    /// Seed for the random faults and requests
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs a soak under each policy, one after the other. Returns false if one of the soaks fails.
pub(crate) fn run(root: &Path, args: &Args) -> Result<bool> {
    anyhow::ensure!(
        args.minutes > 0.0 && args.minutes <= 10_000.0,
        "--minutes must be above 0 and at most 10000"
    );
    let curtail = cargo::curtail(root)?;
    // `cargo test` has built it beside a binary that the environment names.
    let built = curtail.with_file_name("examples").join("calls");
    let is_named = std::env::var_os(cargo::BINARY).is_some() && built.exists();
    let calls = if is_named { built } else { cargo::calls(root)? };
    anyhow::ensure!((0.01..=100_000.0).contains(&args.rate), "--rate must be 0.01 to 100000");
    let length = Duration::from_secs_f64(args.minutes * 60.0 / args.policies.len() as f64);
    let mut outcomes = Vec::new();
    for policy in &args.policies {
        let programs = Programs { curtail: curtail.clone(), calls: calls.clone() };
        let outcome = soak(programs, policy, length, args.rate, args.seed)?;
        eprintln!("{}", outcome["text"].as_str().unwrap_or_default());
        outcomes.push(outcome);
    }
    if args.json {
        println!("{:#}", json!(outcomes));
    }
    Ok(outcomes.iter().all(|outcome| outcome["passed"] == true))
}

fn soak(programs: Programs, policy: &str, length: Duration, rate: f64, seed: u64) -> Result<Value> {
    let mut scene = Scene::start(programs, policy, seed)?;
    let end = Instant::now() + length;
    let clients = clients::start(scene.address(), rate, seed, end);
    let loads = scene.loads(rate, length)?;
    let odd = odd::start(scene.address(), scene.admin(), end);
    let memory = memory::watch(scene.proxy(), length);
    let mut faults = Faults::default();
    let mut random = rng(seed, 1);
    while Instant::now() < end {
        let pause = Duration::from_millis(100 + random.next_u64() % 900);
        std::thread::sleep(pause.min(end.saturating_duration_since(Instant::now())));
        faults.strike(&mut scene, &mut random)?;
    }
    scene.revive_all()?;
    let requests = clients.join().expect("clients do not panic");
    let odd = odd.join().expect("clients do not panic");
    let loads = loads.finish()?;
    let settled = scene.settle();
    let mut samples = memory.join().expect("the watch does not panic");
    // The last sample is taken when everything is idle.
    samples.push((1.0, memory::resident(scene.proxy())));
    let memory = Memory::of(&samples);
    let mut failures =
        failures(&requests, &odd, faults.total(), length, settled.is_idle, memory.is_flat());
    if loads.iter().any(|load| load.unanswered > 0 || !load.is_fine(ERRORS_FINE)) {
        failures.push("HTTP/2 or gRPC has requests without a response, or too many errors");
    }
    let wire: Vec<String> = loads.iter().map(ToString::to_string).collect();
    let verdict = match &failures[..] {
        [] => "passed".to_owned(),
        reasons => format!("FAILED: {}", reasons.join(", ")),
    };
    let text = format!(
        "{policy}, {} s: {} kills, {} pauses, {} black holes; {requests}; {}; odd service: {odd}; \
         {settled}; {memory}; {verdict}",
        length.as_secs(),
        faults.kills,
        faults.pauses,
        faults.black_holes,
        wire.join(", ")
    );
    Ok(json!({
        "passed": failures.is_empty(), "failed_because": failures, "policy": policy, "text": text,
        "requests": requests, "odd": odd, "wire": loads, "memory": memory, "faults": faults,
        "leaked": settled.was_busy.filter(|_| !settled.is_idle), "idle_after_s": settled.after.as_secs_f64(),
    }))
}

/// Returns the reasons why a soak fails.
fn failures(
    requests: &Counts,
    odd: &odd::Odd,
    faults: u32,
    length: Duration,
    idle: bool,
    flat: bool,
) -> Vec<&'static str> {
    let errors = requests.errors as f64 > ERRORS_FINE * requests.answered as f64;
    let reasons = [
        (requests.answered == 0, "no request got a response"),
        (requests.unanswered > 0, "requests got no response"),
        (errors, "more than 1 % of the responses are errors"),
        (odd.fine.errors + odd.fine.unanswered > 0, "healthy replicas did not serve every request"),
        (odd.troubles.unanswered > 0, "slow URLs or poison requests got no response"),
        (odd.held > 0, "a client that does not read held a slot for longer than the timeout"),
        (length >= LONG && faults == 0, "no fault occurred"),
        (!idle, "the proxy did not become idle"),
        (!flat, "its memory is not, or may not be, flat"),
    ];
    reasons.iter().filter(|(is, _)| *is).map(|(_, why)| *why).collect()
}

/// The number of times that each kind of fault was applied to a running leaf. Faults affect one
/// leaf at a time, so every shard always has a healthy replica.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Faults {
    kills: u32,
    /// Pauses that are shorter than the attempt timeout, like those caused by garbage collection.
    pauses: u32,
    /// Pauses that are longer than the attempt timeout. During such a pause, the leaf accepts
    /// connections but never responds.
    black_holes: u32,
}

impl Faults {
    fn total(self) -> u32 {
        self.kills + self.pauses + self.black_holes
    }

    /// Applies a fault to one leaf and then restores the leaf.
    fn strike(&mut self, scene: &mut Scene, random: &mut Random) -> Result<()> {
        let mut below = |n: u64| random.next_u64() % n;
        let leaf = below(scene.leaves.len() as u64) as usize;
        let wait = |ms: u64| std::thread::sleep(Duration::from_millis(ms));
        let kind = below(4);
        if kind == 0 {
            if let Some(process) = scene.leaves[leaf].process.take() {
                process.kill();
                self.kills += 1;
            }
            wait(below(1_500));
            return scene.revive(leaf);
        }
        // The kernel still accepts connections for a stopped process.
        let Some(process) = &scene.leaves[leaf].process else { return Ok(()) };
        process.signal("STOP")?;
        wait(if kind == 1 { 700 + below(3_000) } else { 10 + below(300) });
        process.signal("CONT")?;
        let counter = if kind == 1 { &mut self.black_holes } else { &mut self.pauses };
        *counter += 1;
        Ok(())
    }
}

type Random = rand_pcg::Pcg64Mcg;

fn rng(seed: u64, stream: u128) -> Random {
    Random::new(u128::from(seed) << 64 | stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Counts = Counts { answered: 1_000, errors: 10, aborted: 50, unanswered: 0 };

    #[test]
    fn a_soak_passes_if_there_is_no_reason_to_fail() {
        let (odd, long) = (odd::Odd::default(), LONG);
        let short = long - Duration::from_secs(1);
        let failed = Counts { errors: 1, ..Counts::default() };
        for (requests, odd, faults, length, reasons) in [
            (GOOD, odd, 1, long, 0),
            (Counts { errors: 11, ..GOOD }, odd, 1, long, 1),
            (Counts { unanswered: 1, ..GOOD }, odd, 1, long, 1),
            (Counts::default(), odd, 1, long, 1),
            (GOOD, odd::Odd { fine: failed, ..odd }, 1, long, 1),
            // Slow and poison requests may fail.
            (GOOD, odd::Odd { troubles: failed, ..odd }, 1, long, 0),
            (GOOD, odd::Odd { held: 1, ..odd }, 1, long, 1),
            (GOOD, odd, 0, short, 0),
            (GOOD, odd, 0, long, 1),
        ] {
            let failures = failures(&requests, &odd, faults, length, true, true);
            assert_eq!(failures.len(), reasons, "{failures:?}");
        }
        assert_eq!(failures(&GOOD, &odd, 1, LONG, false, false).len(), 2);
    }
}
