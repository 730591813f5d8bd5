//! Tests the throttler of a Proxy D-Stage in front of three real servers: does it find the knee,
//! and does it follow the knee when it moves?
//!
//! Source: document 003, §3.4. The knee is the lowest number of concurrent jobs at which a server
//! reaches its full throughput. The knee is found by brute force, with one stage for each number of
//! slots, and then by `slots = "auto"`. Deviation: as in the throttler, a throughput counts as full
//! if it is within 8 % of the greatest, because both are measured over a short time.

mod load;
mod server;

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::environment::Network;
use load::{Level, levels};
use server::{ADMIN, Capacity, Kind, Server, install};

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
    /// Program that runs the stages in front of the servers
    #[arg(long, value_name = "FILE", default_value = "target/release/curtail")]
    curtail: String,
    /// Servers to test
    #[arg(long = "server", value_enum, default_values_t = [Kind::Fast, Kind::Disk, Kind::Network])]
    servers: Vec<Kind>,
    /// Number of times that the throttler has to find the knee and follow it, up and down
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
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
    /// All levels in each round, with their times in seconds from the start of the step.
    levels: Vec<Vec<Level>>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!((1..=100).contains(&args.rounds), "--rounds: must be from 1 to 100");
    ["nginx", "haproxy"].into_iter().try_for_each(install)?;
    let (folder, mut network) = (tempfile::tempdir()?, Network::new()?);
    network.host(1, 4 << 20)?.namespace.enter()?;
    let mut outcome = Outcome::default();
    for (&kind, last) in args.servers.iter().zip(11..) {
        // A socket buffers at most 64 KB, because buffered bytes have left the stage but have not
        // passed over the link.
        let (folder, host) = (folder.path().join(last.to_string()), network.host(last, 64 << 10)?);
        let server = Server::start(kind, host, &args.curtail, folder)?;
        let knees = knees(kind, &server)?;
        let mut steps = STEPS.map(|(step, capacity, _)| {
            let knee = knees[usize::from(capacity == Capacity::High)].knee;
            Step { server: kind, step, knee, found: Vec::new(), off: 0, levels: Vec::new() }
        });
        for round in 1..=args.rounds {
            follow(&server, &mut steps)?;
            let found = steps.each_ref().map(|step| step.found[round - 1]);
            eprintln!("{kind:?}, round {round} of {}: {found:?}", args.rounds);
        }
        outcome.knees.extend(knees);
        outcome.steps.extend(steps);
    }
    match args.json {
        true => println!("{}", serde_json::to_string(&outcome)?),
        false => print!("{}", outcome.table()),
    }
    Ok(())
}

/// Finds both knees by brute force.
fn knees(kind: Kind, server: &Server) -> Result<[Knee; 2]> {
    let find = |capacity| -> Result<Knee> {
        server.set(capacity)?;
        let with = |slots: u32| {
            let (_stage, load) = server.loaded(&slots.to_string())?;
            std::thread::sleep(WARM_UP);
            let throughput = load.throughput(SPAN);
            load.check().map(|()| throughput)
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
        let (all, level) = server.host.namespace.inside(|| levels(ADMIN, seconds))?;
        step.found.push(level);
        step.off = step.off.max(level.abs_diff(step.knee));
        step.levels.push(all);
    }
    load.check()
}

impl Outcome {
    fn table(&self) -> String {
        let mut text = "MB/s for one slot, two slots, and so on\n".to_owned();
        for Knee { server, capacity, throughput, knee } in &self.knees {
            let name = format!("{server:?}, {capacity:?}");
            let row: String = throughput.iter().map(|of| format!("{:>8.3}", of / 1e6)).collect();
            text += &format!("{name:<14} knee {knee}: {row}\n");
        }
        text += "The throttler's level in each round\n";
        for Step { server, step, knee, found, off, .. } in &self.steps {
            let name = format!("{server:?}, {step}");
            text += &format!("{name:<14} knee {knee}: {found:?}, off by {off}\n");
        }
        text
    }
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
    fn the_table_contains_knees_and_steps() {
        let (server, knee, throughput) = (Kind::Disk, 2, vec![2e6, 4e6]);
        let knees = vec![Knee { server, capacity: Capacity::Low, throughput, knee }];
        let steps =
            vec![Step { server, step: "up", knee, found: vec![2, 4], off: 2, levels: Vec::new() }];
        let table = Outcome { knees, steps }.table();
        assert!(table.contains("Disk, Low      knee 2:    2.000   4.000"), "{table}");
        assert!(table.contains("Disk, up       knee 2: [2, 4], off by 2"), "{table}");
    }
}
