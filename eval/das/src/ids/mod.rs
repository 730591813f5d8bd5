//! Duplicates that cannot hurt, with processors as the bottleneck: two nodes of an intrusion
//! detection system (document 003, §5.4, Figure 9; Suricata instead of Snort).
//!
//! Each node is one processor. It runs a primary and a duplicate instance, both as bridges. A
//! duplicator sends each packet to the primary instance of one node, and a copy of it to the
//! duplicate instance of the other node. A de-duplicator counts the unique packets that come out.
//! The duplicate instance has `SCHED_IDLE`: it runs only when no other process needs the processor.
//! A short queue replaces purging. A straggler is a node with a background task that competes for
//! its processor.
//!
//! Single copies and DAS take turns on the same instances. In a turn of single copies, the
//! duplicate instances are paused and no copies are sent.

mod cluster;
mod frame;
mod network;
mod report;
mod seen;
mod session;
mod suricata;
mod turn;

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, ensure};

use report::Row;
use suricata::Settings;
use turn::{Bench, Figures, Turn};

/// The first guess of the capacity, in packets per second. It is below the capacity of any machine.
const GUESS: f64 = 500.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Length of a turn
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
    /// Arrival rates: a value up to 10 is a multiple of the measured capacity, a higher one is in
    /// packets per second for the cluster
    #[arg(long, value_delimiter = ',', default_value = "0.4,0.7,0.9,1.2")]
    rates: Vec<Rate>,
    /// Number of turns of single copies and of DAS at each rate
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    #[command(flatten)]
    settings: Settings,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// An arrival rate.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rate {
    /// A multiple of the capacity of both nodes.
    Share(f64),
    /// Packets per second.
    Packets(f64),
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value: f64 = text.trim().parse().map_err(|_| format!("{text}: not a number"))?;
        match value {
            _ if !(value > 0.0 && value <= 1e6) => {
                Err(format!("{text}: must be above 0, and at most 1,000,000"))
            }
            _ if value <= 10.0 => Ok(Self::Share(value)),
            _ => Ok(Self::Packets(value)),
        }
    }
}

impl Rate {
    fn packets(self, capacity: f64) -> f64 {
        match self {
            Self::Share(share) => share * capacity,
            Self::Packets(packets) => packets,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.check()?;
    session::lead()?;
    suricata::install()?;
    session::take_precedence()?;
    eprintln!("starting four instances of Suricata");
    let mut bench = Bench::start(&args.settings)?;
    let capacity = args.capacity(&mut bench)?;
    eprintln!("capacity: {capacity:.0} packets/s on both nodes");
    let mut rows = Vec::new();
    for straggler in [false, true] {
        for rate in &args.rates {
            let rate = rate.packets(capacity);
            let rounds = args.rounds(&mut bench, rate, straggler)?;
            rows.push(Row::new(rate / capacity, capacity, straggler, &rounds));
        }
    }
    match args.json {
        true => println!("{}", serde_json::to_string(&rows)?),
        false => print!("{}", report::table(&rows)),
    }
    Ok(())
}

impl Args {
    fn check(&self) -> Result<()> {
        ensure!((1.0..=600.0).contains(&self.seconds), "--seconds: must be from 1 to 600");
        ensure!((1..=1000).contains(&self.rounds), "--rounds: must be from 1 to 1000");
        ensure!((1..=1000).contains(&self.settings.rules), "--rules: must be from 1 to 1000");
        ensure!((1..=4096).contains(&self.settings.queue), "--queue: must be from 1 to 4096");
        ensure!((1..=64).contains(&self.settings.background), "--background: must be from 1 to 64");
        Ok(())
    }

    /// Measures the goodput of both primaries under a load that is a fifth higher than their
    /// estimated capacity.
    fn capacity(&self, bench: &mut Bench) -> Result<f64> {
        let mut measure = |rate, seconds| -> Result<f64> {
            let span = Duration::from_secs_f64(seconds);
            let turn = Turn { rate, span, das: false, straggler: false };
            Ok(bench.run(turn)?.goodput)
        };
        let (mut rate, mut about) = (GUESS, GUESS);
        while about > 0.8 * rate {
            rate *= 2.0;
            ensure!(rate < 1e6, "packets cause too little work: use a higher --rules");
            about = measure(rate, 0.5)?;
        }
        ensure!(about > 0.0, "Suricata sends no packets");
        measure(1.2 * about, self.seconds)
    }

    /// Runs turns of single copies and of DAS at one rate. In every other round, DAS goes first.
    fn rounds(&self, bench: &mut Bench, rate: f64, straggler: bool) -> Result<Vec<[Figures; 2]>> {
        let span = Duration::from_secs_f64(self.seconds);
        let mut all = Vec::new();
        for round in 0..self.rounds {
            let mut two = [Figures::default(); 2];
            for at in [round % 2, (round + 1) % 2] {
                two[at] = bench.run(Turn { rate, span, das: at == 1, straggler })?;
            }
            let [single, das] = two.map(|figures| figures.goodput);
            let node = if straggler { ", straggler" } else { "" };
            eprintln!("{rate:.0} packets/s{node}: single {single:.0}, das {das:.0}");
            all.push(two);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_shares_or_packets() {
        assert_eq!("0.4".parse(), Ok(Rate::Share(0.4)));
        assert_eq!("1.2".parse(), Ok(Rate::Share(1.2)));
        assert_eq!("5000".parse(), Ok(Rate::Packets(5000.0)));
        for bad in ["", "x", "0", "-1", "NaN", "inf", "2e6"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
        assert_eq!(Rate::Share(0.5).packets(3000.0), 1500.0);
        assert_eq!(Rate::Packets(700.0).packets(3000.0), 700.0);
    }
}
