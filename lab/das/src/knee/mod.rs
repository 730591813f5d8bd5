//! Tests the throttler of a Proxy D-Stage in front of three real servers: does it find the knee,
//! and does it follow the knee when it moves?
//!
//! Source: document 003, §3.4. The knee is the lowest number of concurrent jobs at which a server
//! reaches its full throughput. The knee is found by brute force, with one stage for each number of
//! slots, and then by `slots = "auto"`. Deviation: as in the throttler, a throughput counts as full
//! if it is within 8 % of the greatest, because both are measured over a short time.

mod server;

use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use ureq::Agent;
use xtask::process::get;

use crate::environment::Network;
use crate::{common::Common, common::print};
use server::{ADMIN, Capacity, Kind, Server};

/// The number of clients, which is higher than any level that is tried.
const CLIENTS: u32 = 40;
/// The interval at which the level is read.
const POLL: Duration = Duration::from_millis(50);
/// The last part of a step, in which the level is final.
const LAST_S: f64 = 2.0;
const METRIC: &str = "curtail_stage_slots{";

const LOSS: f64 = 0.08;
/// The highest number of slots that brute force tries, above any knee here.
const LEVELS: u32 = 10;
/// The time over which each number of slots is measured, and the warm-up before it, during which
/// slots fill and TCP opens its windows.
const SPAN: Duration = Duration::from_millis(1500);
const WARM_UP: Duration = Duration::from_millis(400);
/// The capacity steps. The throttler must follow each step within this time, in seconds.
const STEPS: [(&str, Capacity, f64); 3] =
    [("first", Capacity::Low, 5.0), ("up", Capacity::High, 10.0), ("down", Capacity::Low, 10.0)];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Servers to test
    #[arg(long = "server", value_enum, default_values_t = [Kind::Fast, Kind::Disk, Kind::Network])]
    servers: Vec<Kind>,
}

#[derive(Default, Serialize)]
struct Outcome {
    knees: Vec<Knee>,
    steps: Vec<Step>,
}

/// A knee found by brute force.
#[derive(Serialize)]
struct Knee {
    server: Kind,
    capacity: Capacity,
    /// Bytes per second with one slot, with two, and so on.
    throughput: Vec<f64>,
    knee: u32,
}

/// The levels that the throttler found in one capacity step.
#[derive(Serialize)]
struct Step {
    server: Kind,
    step: &'static str,
    knee: u32,
    /// The level found in each round.
    found: Vec<u32>,
    /// The greatest distance from the knee.
    off: u32,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let Common { curtail, rounds, json } = &args.common;
    let (folder, mut network) = (tempfile::tempdir()?, Network::enter(4 << 20)?);
    let mut outcome = Outcome::default();
    for (&kind, last) in args.servers.iter().zip(11..) {
        // A socket buffers at most 64 KB, because buffered bytes have left the stage but have not
        // passed over the link.
        let (folder, host) = (folder.path().join(last.to_string()), network.host(last, 64 << 10)?);
        let server = Server::start(kind, host, curtail, folder)?;
        let knees = knees(kind, &server)?;
        let mut steps = STEPS.map(|(step, capacity, _)| {
            let knee = knees[usize::from(capacity == Capacity::High)].knee;
            Step { server: kind, step, knee, found: Vec::new(), off: 0 }
        });
        for round in 1..=*rounds {
            follow(&server, &mut steps)?;
            let found = steps.each_ref().map(|step| step.found.last());
            eprintln!("{kind:?}, round {round} of {rounds}: {found:?}");
        }
        outcome.knees.extend(knees);
        outcome.steps.extend(steps);
    }
    print(&outcome, *json)
}

/// Finds both knees by brute force.
fn knees(kind: Kind, server: &Server) -> Result<[Knee; 2]> {
    let find = |capacity| -> Result<Knee> {
        server.set(capacity)?;
        let with = |slots: u32| {
            let (stage, load) = server.loaded(&slots.to_string())?;
            thread::sleep(WARM_UP);
            let throughput = load.throughput(SPAN);
            load.check()?;
            drop(load);
            // It is not to drain.
            stage.kill();
            Ok(throughput)
        };
        let throughput = (1..=LEVELS).map(with).collect::<Result<Vec<f64>>>()?;
        let knee = knee(&throughput);
        eprintln!("{kind:?}, {capacity:?}: the knee is {knee}");
        Ok(Knee { server: kind, capacity, throughput, knee })
    };
    Ok([find(Capacity::Low)?, find(Capacity::High)?])
}

/// Returns the lowest level whose throughput is within [`LOSS`] of the greatest.
fn knee(throughput: &[f64]) -> u32 {
    let greatest = throughput.iter().copied().fold(0.0, f64::max);
    let enough = throughput.iter().position(|&of| of >= (1.0 - LOSS) * greatest);
    1 + enough.unwrap_or(0) as u32
}

/// Runs one round with a fresh throttler.
fn follow(server: &Server, steps: &mut [Step; 3]) -> Result<()> {
    server.set(STEPS[0].1)?;
    let (_stage, load) = server.loaded("\"auto\"")?;
    for (step, (_, capacity, seconds)) in steps.iter_mut().zip(STEPS) {
        server.set(capacity)?;
        let level = server.host.namespace.inside(|| final_level(seconds))?;
        step.found.push(level);
        step.off = step.off.max(level.abs_diff(step.knee));
    }
    load.check()
}

/// Clients that always have a request outstanding. They end when this value and the server's stage are
/// dropped.
///
/// A closed loop is appropriate here. The capacity of a server at a level can be measured only while
/// some job waits for a slot, and with enough clients some job waits at any level. No latency is
/// measured.
struct Load(Arc<Seen>);

#[derive(Default)]
struct Seen {
    /// Bytes of response bodies.
    bytes: AtomicU64,
    errors: AtomicU64,
    is_over: AtomicBool,
}

impl Load {
    /// Starts the clients. Each request has this `path`, followed by a unique number.
    fn start(address: SocketAddr, path: &'static str) -> Self {
        let seen = Arc::new(Seen::default());
        for client in 0..CLIENTS {
            let seen = Arc::clone(&seen);
            thread::spawn(move || {
                let agent = Agent::config_builder().proxy(None).build().new_agent();
                for number in 0_u64.. {
                    if seen.is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let url = format!("http://{address}{path}{client}-{number}");
                    if request(&agent, &url, &seen.bytes).is_err() {
                        seen.errors.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(10));
                    }
                }
            });
        }
        Self(seen)
    }

    /// Measures bytes per second over a span that starts now.
    fn throughput(&self, span: Duration) -> f64 {
        let bytes = || self.0.bytes.load(Ordering::Relaxed);
        let (start, before) = (Instant::now(), bytes());
        thread::sleep(span);
        (bytes() - before) as f64 / start.elapsed().as_secs_f64()
    }

    /// Returns an error if a request failed. A failing server does less than it could, so its level
    /// means nothing.
    fn check(&self) -> Result<()> {
        let errors = self.0.errors.load(Ordering::Relaxed);
        ensure!(errors == 0, "{errors} requests failed");
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Sends a request, and counts the bytes of the response as they arrive.
fn request(agent: &Agent, url: &str, bytes: &AtomicU64) -> Result<()> {
    let mut body = agent.get(url).call()?.into_body().into_reader();
    let mut buffer = [0; 16 << 10];
    loop {
        match body.read(&mut buffer)? {
            0 => return Ok(()),
            count => bytes.fetch_add(count as u64, Ordering::Relaxed),
        };
    }
}

/// Monitors the metrics of a stage for this time, and returns the final level: the most frequent one
/// in the last part, because a throttler briefly tries other levels.
fn final_level(seconds: f64) -> Result<u32> {
    thread::sleep(Duration::from_secs_f64(seconds - LAST_S));
    let (start, mut last) = (Instant::now(), Vec::new());
    while start.elapsed().as_secs_f64() < LAST_S {
        last.push(level()?);
        thread::sleep(POLL);
    }
    Ok(most_frequent(&last))
}

fn level() -> Result<u32> {
    let text = get(ADMIN, "/metrics")?;
    let line = text.lines().find(|line| line.starts_with(METRIC));
    let value =
        line.and_then(|line| line.rsplit(' ').next()).context("its metrics contain no level")?;
    Ok(value.parse::<f64>()? as u32)
}

fn most_frequent(levels: &[u32]) -> u32 {
    let count = |level: u32| levels.iter().filter(|other| **other == level).count();
    levels.iter().copied().max_by_key(|level| count(*level)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_the_least_level_that_is_good_enough() {
        assert_eq!(knee(&[1.0, 2.0, 2.9, 2.95, 3.0]), 3);
        assert_eq!(knee(&[3.0, 2.0, 1.0]), 1);
    }
    #[test]
    fn a_short_trial_does_not_count() {
        assert_eq!(most_frequent(&[7, 7, 8, 7, 6]), 7);
    }
}
