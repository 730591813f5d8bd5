//! Measures how fast the rates settle after a step, and whether they oscillate afterward.
//!
//! The graph is a chain of services with a given depth and width, and its last service is the
//! bottleneck. Four equal workflows demand twice its capacity. At 10 s the capacity of the last
//! service halves or doubles, or a fifth workflow starts. The rates at the entry, averaged over
//! three intervals, have settled once they stay within a fifth of their final average. They are
//! sampled once per interval of 100 ms. The rates of a service with one process and a few slots are
//! noisy, so the mean over several runs is used to show the transient.

use std::sync::atomic::{AtomicBool, AtomicU64};

use curtail_sim::Plan;
use curtail_sim::graph::{Graph, GraphFile, GraphOutcome, run as simulate};
use serde::Serialize;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Depths of the chain
    #[arg(long, value_delimiter = ',', default_value = "1,2,5,10")]
    depth: Vec<u32>,
    /// Widths of the chain: processes per service
    #[arg(long, value_delimiter = ',', default_value = "1,10,100")]
    width: Vec<u32>,
    /// Share of all announcements that are lost
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// Delay of the announcements that are not lost, in seconds
    #[arg(long, default_value_t = 0.0)]
    delay: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    Halved,
    Doubled,
    Demand,
}

#[derive(Debug, Serialize)]
pub(crate) struct Settled {
    depth: u32,
    width: u32,
    step: Step,
    /// The number of intervals until the rates stay near their final value.
    intervals: usize,
    /// The standard deviation of the rates in the last 5 s, divided by their mean.
    swing: f64,
    /// Jain's index of the workflows' goodput. The workflows are equal, so the ideal value is 1.
    jain: f64,
    /// The goodput divided by the capacity of the last service.
    used: f64,
}

/// The requests per second that one process of the last service can serve: 4 slots, 40 ms each.
const PER_PROCESS: f64 = 100.0;
const STEP_AT: usize = 100;
const SAMPLES: usize = 250;

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Settled>> {
    let mut all = Vec::new();
    for &depth in &args.depth {
        for &width in &args.width {
            for step in [Step::Halved, Step::Doubled, Step::Demand] {
                let graph = Graph::new(&chain(args, depth, width, step)?)?;
                let (progress, stop) = (AtomicU64::new(0), AtomicBool::new(false));
                let plan = Plan { threads: 1, percentiles: &[], progress: &progress, stop: &stop };
                let control = "fq+fifo+rc".parse().map_err(anyhow::Error::msg)?;
                let seeds = 1..=u64::from((16 / width.max(1)).max(1));
                let outcomes = seeds.map_while(|seed| simulate(&graph, control, seed, &plan));
                all.push(settled(&outcomes.collect::<Vec<_>>(), depth, width, step));
            }
        }
    }
    Ok(all)
}

/// Returns the graph, which has the form of a file for `curtail graph`.
fn chain(args: &Args, depth: u32, width: u32, step: Step) -> anyhow::Result<GraphFile> {
    let &Args { loss, delay, .. } = args;
    let slots = match step {
        Step::Halved => "slots = 4, changes_at = '10s', then_slots = 2",
        Step::Doubled => "slots = 2, changes_at = '10s', then_slots = 4",
        Step::Demand => "slots = 4",
    };
    let mut text = format!(
        "duration = '25s'\nwarmup = '15s'\nsample = '100ms'\ntimeout = '1s'\n\
         flow = {{ loss = {loss:?}, delay = {delay:?} }}\n"
    );
    let mut steps = String::new();
    for at in 0..depth {
        let (slots, acts) = match at + 1 == depth {
            true => (slots, "'use cpu exp:40ms'".to_owned()),
            false => ("slots = 64", format!("'use cpu exp:1ms', 'call s{}'", at + 1)),
        };
        text += &format!(
            "[[service]]\nname = 's{at}'\ninstances = {width}\n\
             resource = [{{ name = 'cpu', {slots} }}]\n"
        );
        steps += &format!("s{at} = [{acts}]\n");
    }
    let rate = 2.0 * PER_PROCESS * f64::from(width) / 4.0;
    let workflows = if matches!(step, Step::Demand) { 5 } else { 4 };
    for index in 0..workflows {
        let from = if index == 4 { "10s" } else { "0s" };
        text += &format!(
            "[[workflow]]\nname = 'w{index}'\ndeadline = '1s'\npartitions = 1\n\
             clients = [{{ open = {rate:?}, from = '{from}' }}]\n[workflow.at]\n{steps}"
        );
    }
    Ok(toml::from_str(&text)?)
}

fn settled(outcomes: &[GraphOutcome], depth: u32, width: u32, step: Step) -> Settled {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let of_all =
        |of: &dyn Fn(&GraphOutcome) -> f64| mean(&outcomes.iter().map(of).collect::<Vec<_>>());
    // The first four workflows together. The fifth has no limit before it starts.
    let rate = |of: &GraphOutcome, sample: usize| {
        (0..4).map(|index: usize| of.workflows[index].series[sample].rates[0]).sum::<f64>()
    };
    let rates: Vec<f64> = (0..SAMPLES).map(|sample| of_all(&|of| rate(of, sample))).collect();
    let last = mean(&rates[SAMPLES - 50..]);
    let is_off = |&sample: &usize| (mean(&rates[sample - 2..=sample]) / last - 1.0).abs() > 0.2;
    let last_off = (STEP_AT..SAMPLES).rev().find(is_off);
    let swing = |of: &GraphOutcome| {
        let late: Vec<f64> = (SAMPLES - 50..SAMPLES).map(|sample| rate(of, sample)).collect();
        let off = late.iter().map(|rate| (rate - mean(&late)).powi(2));
        mean(&off.collect::<Vec<_>>()).sqrt() / mean(&late)
    };
    let goodput = |index: usize| of_all(&|of| of.workflows[index].goodput);
    let goodputs: Vec<f64> = (0..outcomes[0].workflows.len()).map(goodput).collect();
    let (sum, squares) =
        (goodputs.iter().sum::<f64>(), goodputs.iter().map(|goodput| goodput.powi(2)).sum::<f64>());
    let halved = if matches!(step, Step::Halved) { 0.5 } else { 1.0 };
    Settled {
        depth,
        width,
        step,
        intervals: last_off.map_or(0, |sample| sample + 1 - STEP_AT),
        swing: of_all(&swing),
        jain: sum * sum / (goodputs.len() as f64 * squares),
        used: sum / (PER_PROCESS * f64::from(width) * halved),
    }
}
