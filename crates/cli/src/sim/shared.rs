//! The parameters of servers that clients share.

use curtail_sim::{Outcome, Parameters, allowed};

use crate::args::within;
use crate::digits::or_none;
use crate::table::row;

const HEADING: &str = "Servers that clients share";

/// In place of shards with servers of their own.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct SharedArgs {
    /// Servers that clients share; a request asks one group of --replicas neighbors
    #[arg(long, value_name = "N", help_heading = HEADING)]
    pub(crate) servers: Option<u32>,
    /// Clients, each of which chooses for itself [default: 1]
    #[arg(long, value_name = "N", help_heading = HEADING)]
    pub(crate) clients: Option<u32>,
    /// Slots of a server in the configuration of each client [default: --slots]
    #[arg(long, value_name = "N", value_parser = within(&allowed::SLOTS), help_heading = HEADING)]
    pub(crate) client_slots: Option<u32>,
    /// Every T, each server draws its speed: 1, or D times as fast; the mean counts for utilization [default: all 1]
    #[arg(long, value_name = "D:T", help_heading = HEADING)]
    pub(crate) speed: Option<String>,
    /// The share A of the clients makes the share B of the demand [default: all alike]
    #[arg(long, value_name = "A:B", help_heading = HEADING)]
    pub(crate) demand: Option<String>,
    /// At a time, so many clients ask for more, up to a utilization
    #[arg(long, value_name = "AT:N:U", help_heading = HEADING)]
    pub(crate) surge: Option<String>,
    /// The speed of the first server until a time, where 0 is down, and from then on
    #[arg(long, value_name = "AT:FROM:TO", help_heading = HEADING)]
    pub(crate) turn: Option<String>,
    /// The share of requests that all servers of the group serve, for read repair [default: 0]
    #[arg(long, value_name = "SHARE", help_heading = HEADING)]
    pub(crate) repair: Option<f64>,
    /// b, 1 to 8, by which C3 makes long queues worse than slow servers [default: 3]
    #[arg(long, value_name = "B", help_heading = HEADING)]
    pub(crate) score_exponent: Option<u32>,
    /// Another parameter of policies that adapt, as initial-rate=5; may be repeated
    #[arg(long, value_name = "NAME=VALUE", help_heading = HEADING)]
    pub(crate) tune: Option<Vec<String>>,
    /// A stage that copies pass behind their server's own, at every server or client, with strict priority and
    /// purges or as a legacy layer without; may be repeated, in order
    #[arg(long, value_name = "NAME[@client][/legacy]:DIST", help_heading = HEADING)]
    pub(crate) stage: Option<Vec<String>>,
    /// By how much each response is late, as bimodal:0.1:5ms, which is no work of its server's [default: none]
    #[arg(long, value_name = "DIST", help_heading = HEADING)]
    pub(crate) noise: Option<String>,
    /// Duplicates of das are pre-empted between pieces of this length [default: at any time]
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    pub(crate) chunk: Option<String>,
    /// Count the load of each server in windows of this length [default: 100ms]
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    pub(crate) load_window: Option<String>,
    /// With --json: report the queue and the load of the first server, window by window
    #[arg(long, requires = "json", help_heading = HEADING)]
    pub(crate) queue_series: bool,
}

/// What takes one value, for a macro.
macro_rules! single {
    ($each:ident) => {
        $each!(
            servers,
            clients,
            client_slots,
            speed,
            demand,
            surge,
            turn,
            repair,
            score_exponent,
            noise,
            chunk,
            load_window
        )
    };
}

impl SharedArgs {
    pub(super) fn override_(&self, parameters: &mut Parameters) {
        let to = parameters;
        macro_rules! set {
            ($($name:ident),*) => {$(
                if self.$name.is_some() {
                    to.$name = self.$name.clone();
                }
            )*};
        }
        single!(set);
        to.stage.extend(self.stage.iter().flatten().cloned());
        to.tune.extend(self.tune.iter().flatten().cloned());
        to.queue_series |= self.queue_series;
    }

    /// The parameters that flags give: their names, and what was written.
    pub(super) fn given(&self) -> Vec<(String, String)> {
        let mut given = Vec::new();
        macro_rules! list {
            ($($name:ident),*) => {$(
                if let Some(value) = &self.$name {
                    given.push((stringify!($name).replace('_', "-"), value.to_string()));
                }
            )*};
        }
        single!(list);
        for (name, texts) in [("stage", &self.stage), ("tune", &self.tune)] {
            given.extend(texts.iter().flatten().map(|text| (name.to_owned(), text.clone())));
        }
        given
    }
}

/// How servers that clients share were loaded.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let loads = || outcomes.iter().filter_map(|outcome| Some((outcome, outcome.servers.as_ref()?)));
    if loads().next().is_none() {
        return String::new();
    }
    let width = outcomes.iter().map(|outcome| outcome.policy.chars().count()).max().unwrap_or(0);
    let columns = [-(width.max("policy".len()) as isize + 2), 10, 12, 12, 12, 12];
    let heads = ["policy", "mean cv", "busiest cv", "most there", "p99 of busy", "of others"];
    let mut text = String::from(
        "\nHow much the load of servers varies, window by window (coefficient of variation), and the most requests at one\n\n",
    );
    text += &row(&columns, heads);
    for (outcome, load) in loads() {
        let share = |of: Option<f64>| or_none(of, |share| format!("{share:.2}"));
        let p99 = |of: &Option<curtail_sim::Figures>| {
            or_none(of.as_ref().and_then(|of| of.percentile(99.0)), |p99| format!("{p99:.1}"))
        };
        text += &row(
            &columns,
            [
                outcome.policy.clone(),
                share(load.cv),
                share(load.busiest_cv),
                load.most_outstanding.to_string(),
                p99(&load.busy_clients),
                p99(&load.other_clients),
            ],
        );
    }
    text
}
