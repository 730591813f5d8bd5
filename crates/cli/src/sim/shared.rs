//! Parameters of servers that clients share.

use curtail_sim::{Outcome, Parameters, allowed};

use crate::args::within;
use crate::digits::or_none;
use crate::table::row;

const HEADING: &str = "Servers that clients share";

/// Flags for servers that clients share. They replace shards that have servers of their own.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct SharedArgs {
    /// Number of servers that clients share; a request goes to one group of --replicas neighbors
    #[arg(long, value_name = "N", help_heading = HEADING)]
    pub(crate) servers: Option<u32>,
    /// Number of clients, each of which picks servers on its own [default: 1]
    #[arg(long, value_name = "N", help_heading = HEADING)]
    pub(crate) clients: Option<u32>,
    /// Slots of a server in each client's configuration [default: --slots]
    #[arg(long, value_name = "N", value_parser = within(&allowed::SLOTS), help_heading = HEADING)]
    pub(crate) client_slots: Option<u32>,
    /// Every T, each server draws a new speed, 1 or D; the utilization refers to the mean speed
    /// [default: all 1]
    #[arg(long, value_name = "D:T", help_heading = HEADING)]
    pub(crate) speed: Option<String>,
    /// The fraction A of the clients generates the fraction B of the demand [default: all alike]
    #[arg(long, value_name = "A:B", help_heading = HEADING)]
    pub(crate) demand: Option<String>,
    /// At the time AT, N of the clients raise the utilization to U
    #[arg(long, value_name = "AT:N:U", help_heading = HEADING)]
    pub(crate) surge: Option<String>,
    /// Speed of the first server, which is FROM until the time AT and TO afterward; with a speed of
    /// 0 the server is down
    #[arg(long, value_name = "AT:FROM:TO", help_heading = HEADING)]
    pub(crate) turn: Option<String>,
    /// Fraction of requests that all servers of the group serve, as in read repair [default: 0]
    #[arg(long, value_name = "SHARE", help_heading = HEADING)]
    pub(crate) repair: Option<f64>,
    /// Exponent b of the queue in C3's score, 1 to 8: a higher exponent avoids long queues more
    /// strongly [default: 3]
    #[arg(long, value_name = "B", help_heading = HEADING)]
    pub(crate) score_exponent: Option<u32>,
    /// Change a parameter of adaptive policies, for example initial-rate=5 (repeatable)
    #[arg(long, value_name = "NAME=VALUE", help_heading = HEADING)]
    pub(crate) tune: Option<Vec<String>>,
    /// Add a stage behind the servers' own stage, at every server or every client; it has strict
    /// priority and purges copies, unless it is a legacy stage (repeatable, in order)
    #[arg(long, value_name = "NAME[@client][/legacy]:DIST", help_heading = HEADING)]
    pub(crate) stage: Option<Vec<String>>,
    /// Delay added to each response, such as bimodal:0.1:5ms; it does not occupy the server
    /// [default: none]
    #[arg(long, value_name = "DIST", help_heading = HEADING)]
    pub(crate) noise: Option<String>,
    /// Preempt das duplicates only between chunks of this length [default: at any time]
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    pub(crate) chunk: Option<String>,
    /// Length of the windows in which the load of each server is counted [default: 100ms]
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    pub(crate) load_window: Option<String>,
    /// With --json: report the queue and the load of the first server per window
    #[arg(long, requires = "json", help_heading = HEADING)]
    pub(crate) queue_series: bool,
}

/// Passes the parameters that have a single value to a macro.
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

    /// Returns the names and values of the parameters that are given as flags.
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

/// A table of the servers' load per policy.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let loads = || outcomes.iter().filter_map(|outcome| Some((outcome, outcome.servers.as_ref()?)));
    if loads().next().is_none() {
        return String::new();
    }
    let width = outcomes.iter().map(|outcome| outcome.policy.chars().count()).max().unwrap_or(0);
    let columns = [-(width.max("policy".len()) as isize + 2), 10, 12, 12, 12, 12];
    let heads = ["policy", "mean cv", "busiest cv", "most at one", "p99 of busy", "of others"];
    let mut text = String::from(
        "\nVariation of the servers' load between windows (coefficient of variation), and the most \
         requests at one server\n\n",
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
