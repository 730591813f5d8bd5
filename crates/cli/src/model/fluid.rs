//! `curtail model fluid`: how queues evolve at servers that several clients share.

use std::num::NonZeroU32;

use curtail_queueing::fluid::{Evolution, Fluid};
use serde::Serialize;

use super::values::{OneUnit, figure};
use super::{ModelResult, refused};
use crate::digits;
use crate::exit::Stop;
use crate::plot::format::counted;
use crate::table::row;

/// How queues evolve when clients share servers and rank them as C3 does, in a fluid model without
/// randomness.
///
/// All clients are alike and act in step, which is the worst case for herding. The output is the
/// mean queue of each server, and its range during the second half of the simulated time. An
/// oscillating queue is a sign of herding. To see the effect of randomness, run `curtail sim
/// --servers`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model fluid --service 4ms,20ms --network 250us --for 1s
  curtail model fluid --service 4ms,4ms,4ms --network 250us --for 1s --clients 150 --blind")]
pub(super) struct Args {
    /// Mean service time of each server
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', required = true)]
    service: Vec<String>,
    /// Requests that a server executes at once
    #[arg(long, value_name = "N", default_value = "4")]
    slots: NonZeroU32,
    /// Number of clients
    #[arg(long, value_name = "N", default_value = "30")]
    clients: NonZeroU32,
    /// Load of the clients, as a fraction of the servers' capacity
    #[arg(long, value_name = "FRACTION", default_value = "0.7", value_parser = super::values::utilization)]
    utilization: f64,
    /// One-way latency between client and server
    #[arg(long, value_name = "TIME")]
    network: String,
    /// Length of time to simulate
    #[arg(long = "for", value_name = "TIME")]
    duration: String,
    /// Exponent b of the queue in C3's score, 1 to 8: a higher exponent avoids long queues more
    /// strongly
    #[arg(long, value_name = "B", default_value = "3")]
    score_exponent: u32,
    /// Weight of a new response in a client's moving averages, above 0 and below 1
    #[arg(long, value_name = "WEIGHT", default_value = "0.9")]
    sample_weight: f64,
    /// Clients exclude their own outstanding requests from the score
    #[arg(long)]
    blind: bool,
}

/// The evolution of the queues over time.
#[derive(Serialize)]
pub(super) struct Queues {
    unit: &'static str,
    duration: f64,
    clients: u32,
    servers: Vec<Evolution>,
}

pub(super) fn compute(args: &Args) -> Result<Queues, Stop> {
    let mut unit = OneUnit::default();
    let mut time = |flag: &str, text: &str| {
        unit.read(text.trim()).map_err(|why| refused(format_args!("{flag}: {why}")))
    };
    let services = args.service.iter().map(|text| time("--service", text));
    let fluid = Fluid {
        services: services.collect::<Result<_, _>>()?,
        slots: args.slots.get(),
        clients: args.clients.get(),
        utilization: args.utilization,
        network: time("--network", &args.network)?,
        exponent: args.score_exponent,
        compensates: !args.blind,
        sample_weight: args.sample_weight,
    };
    let duration = time("--for", &args.duration)?;
    let servers = fluid.evolve(duration).map_err(refused)?;
    Ok(Queues { unit: unit.scale().unit(), duration, clients: fluid.clients, servers })
}

impl ModelResult for Queues {
    fn text(&self) -> String {
        let mut text = format!(
            "{} and {}; times in {}\n\n",
            counted(self.clients as usize, "client", "clients"),
            counted(self.servers.len(), "server", "servers"),
            digits::unit_words(self.unit)
        );
        let columns = [12, 8, 12, 8, 8];
        text += &row(&columns, ["service time", "share", "mean queue", "least", "most"]);
        for Evolution { service, share, mean, least, most, .. } in &self.servers {
            let share = format!("{:.1} %", share * 100.0);
            let queues = [*mean, *least, *most].map(|queue| format!("{queue:.1}"));
            let cells = [figure(*service), share].into_iter().chain(queues);
            text += &row(&columns, cells);
        }
        text
    }
}
