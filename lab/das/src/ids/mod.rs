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

mod bench;
mod suricata;
mod traffic;

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::value_parser;
use curtail_machine::take_turns;
use curtail_stats::{Ratio, ratio};
use serde::Serialize;

use crate::common::print;
use bench::{Bench, Figures, Turn};

/// The first guess of the capacity, in packets per second. It is below the capacity of any machine.
const GUESS: f64 = 500.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Length of a turn
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
    /// Arrival rates, as multiples of the measured capacity of both nodes
    #[arg(long, value_delimiter = ',', default_values_t = [0.4, 0.7, 0.9, 1.2])]
    rates: Vec<f64>,
    /// Number of turns of single copies and of DAS at each rate
    #[arg(long, default_value_t = 6, value_parser = value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// One rate, with or without a straggler.
#[derive(Debug, Clone, Serialize)]
struct Row {
    /// The rate divided by the capacity of both nodes.
    rate: f64,
    /// Packets per second that both primaries process without duplicates.
    capacity: f64,
    straggler: bool,
    single: Figures,
    das: Figures,
    /// The goodput of DAS divided by that of single copies: the median of the rounds, and its
    /// interval.
    ratio: f64,
    ratio_low: f64,
    ratio_high: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!((1.0..=600.0).contains(&args.seconds), "--seconds: must be from 1 to 600");
    ensure!(
        args.rates.iter().all(|rate| *rate > 0.0 && *rate <= 10.0),
        "--rates: must be from 0 to 10"
    );
    suricata::lead()?;
    suricata::install()?;
    suricata::take_precedence()?;
    eprintln!("starting four instances of Suricata");
    let mut bench = Bench::start()?;
    let capacity = args.capacity(&mut bench)?;
    eprintln!("capacity: {capacity:.0} packets/s on both nodes");
    let mut rows = Vec::new();
    let span = Duration::from_secs_f64(args.seconds);
    for straggler in [false, true] {
        for rate in &args.rates {
            let sides = take_turns(
                2,
                args.rounds.into(),
                |side, _| {
                    bench.run(Turn { rate: rate * capacity, span, das: side == 1, straggler })
                },
                |_| true,
            )?;
            let row = Row::new(*rate, capacity, straggler, &sides[0], &sides[1]);
            let node = if straggler { ", straggler" } else { "" };
            eprintln!("{rate} of the capacity{node}: das over single copies {:.3}", row.ratio);
            rows.push(row);
        }
    }
    print(&rows, args.json)
}

impl Args {
    /// Measures the goodput of both primaries under a load that is a fifth higher than their
    /// estimated capacity.
    fn capacity(&self, bench: &mut Bench) -> Result<f64> {
        let mut measure = |rate, seconds| -> Result<f64> {
            let span = Duration::from_secs_f64(seconds);
            let turn = Turn { rate, span, das: false, straggler: false };
            Ok(bench.run(turn)?["goodput"])
        };
        let (mut rate, mut about) = (GUESS, GUESS);
        while about > 0.8 * rate {
            rate *= 2.0;
            ensure!(rate < 1e6, "packets cause too little work");
            about = measure(rate, 0.5)?;
        }
        ensure!(about > 0.0, "Suricata sends no packets");
        measure(1.2 * about, self.seconds)
    }
}

impl Row {
    fn new(rate: f64, capacity: f64, straggler: bool, single: &[Figures], das: &[Figures]) -> Self {
        let rounds = single.iter().zip(das).map(|(single, das)| das["goodput"] / single["goodput"]);
        let Ratio { value, low, high } = ratio(rounds);
        let (single, das) = (mean(single), mean(das));
        let (ratio, ratio_low, ratio_high) = (value, low, high);
        Self { rate, capacity, straggler, single, das, ratio, ratio_low, ratio_high }
    }
}

fn mean(all: &[Figures]) -> Figures {
    let names = all.first().into_iter().flat_map(|of| of.keys().copied());
    names
        .map(|name| (name, all.iter().map(|of| of[name]).sum::<f64>() / all.len() as f64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(goodput: f64) -> Figures {
        Figures::from([("goodput", goodput)])
    }

    #[test]
    fn rounds_are_compared_side_by_side() {
        let [single, das] = [[100.0, 200.0].map(of), [50.0, 400.0].map(of)];
        let Row { ratio, ratio_low, ratio_high, single, das, .. } =
            Row::new(0.5, 1000.0, false, &single, &das);
        assert!((ratio - 1.0).abs() < 1e-12, "{ratio}");
        assert_eq!((ratio_low, ratio_high), (0.5, 2.0));
        assert_eq!((single["goodput"], das["goodput"]), (150.0, 225.0));
    }
}
