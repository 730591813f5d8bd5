//! What is compared: one description, from which the flags of both the demo and the simulator are
//! made, so that they cannot differ.

/// What is compared of latencies.
pub(crate) const PERCENTILES: [f64; 2] = [50.0, 99.0];

const SHARDS: &str = "5";
const REPLICAS: &str = "2";
const SLOTS: &str = "1";
/// The demo's mean of P, and the length of its hiccups.
const SERVICE_MS: u32 = 3;
const HICCUP_MS: u32 = 45;
const HICCUP_PROBABILITY: f64 = 0.003;
/// The longest that the machine may stand still in a sound run, as a share of a hiccup. Where virtual
/// machines share a host, that takes hundreds of milliseconds at times; the requests that pile up
/// meanwhile are more than one in a hundred, and no simulation knows of them.
const STALL_MOST: f64 = 1.0 / 3.0;

/// Which policies at which loads, and how much of them is measured and simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) policies: &'static [&'static str],
    /// Utilizations, λ P̄ / (r c) in both.
    pub(crate) loads: &'static [f64],
    /// A load before these that is not compared: where policies learn, they do so there.
    pub(crate) learning: Option<f64>,
    /// The policies are compared with each other, too: a run counts at a load only if it is sound for
    /// all of them, so that all have the same requests.
    pub(crate) together: bool,
    pub(crate) size: Size,
}

impl Plan {
    /// Per-shard queuing and LÆDGE.
    pub(crate) const fn search(size: Size) -> Self {
        let (policies, loads) = (&["psq", "laedge"], &[0.2, 0.4, 0.6]);
        Self { policies, loads, learning: None, together: false, size }
    }

    /// How many percentiles are compared.
    pub(crate) fn cells(&self) -> usize {
        self.policies.len() * self.loads.len() * PERCENTILES.len()
    }
}

/// How much is measured and simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Sound runs of each cell, each with draws of its own.
    pub(crate) repetitions: usize,
    /// Requests of a policy at a load, in each of them: few, for a run counts only if nothing
    /// disturbs it.
    pub(crate) requests: u32,
    /// Requests of a replication of a simulation.
    pub(crate) simulated: u32,
    /// How many times as long as the demo's all times of the service are.
    pub(crate) scale: u32,
    /// The longest that the machine may stand still in a sound run, in ns.
    pub(crate) stall_most_ns: u64,
}

impl Size {
    pub(crate) fn new(smoke: bool, scale: u32) -> Self {
        let stall_most_ns = (f64::from(HICCUP_MS * scale) * 1e6 * STALL_MOST) as u64;
        // A 99th percentile takes a thousand.
        let full =
            Self { repetitions: 20, requests: 1_050, simulated: 200_000, scale, stall_most_ns };
        if smoke {
            Self { repetitions: 1, simulated: 20_000, stall_most_ns: u64::MAX, ..full }
        } else {
            full
        }
    }

    /// The mean of P + J, in ms: what the leaves should draw.
    pub(crate) fn drawn_mean_ms(self) -> f64 {
        let hiccup = HICCUP_PROBABILITY * f64::from(HICCUP_MS);
        f64::from(self.scale) * (f64::from(SERVICE_MS) + hiccup)
    }

    fn service(self) -> String {
        format!("exp:{}ms", SERVICE_MS * self.scale)
    }

    /// Probability and length.
    fn hiccup(self) -> String {
        format!("{HICCUP_PROBABILITY}:{}ms", HICCUP_MS * self.scale)
    }

    /// J, as the simulator writes it.
    pub(crate) fn jitter(self) -> String {
        format!("bimodal:{}", self.hiccup())
    }
}

/// The name of a percentile, as the simulator has it.
pub(crate) fn name(percentile: f64) -> String {
    format!("p{percentile}")
}

/// What a load is called.
pub(crate) fn percent(load: f64) -> String {
    format!("{:.0} %", load * 100.0)
}

/// For `curtail demo`.
pub(crate) fn demo_flags(plan: &Plan, seed: u64) -> Vec<String> {
    let size = plan.size;
    let loads: Vec<String> = plan.learning.iter().chain(plan.loads).map(f64::to_string).collect();
    let (requests, seed) = (size.requests.to_string(), seed.to_string());
    let flags = [
        ["--loads", &loads.join(",")],
        ["--policies", &plan.policies.join(",")],
        ["--requests", &requests],
        ["--shards", SHARDS],
        ["--replicas", REPLICAS],
        ["--slots", SLOTS],
        ["--service-time", &size.service()],
        ["--hiccup", &size.hiccup()],
        ["--seed", &seed],
    ];
    flags.into_iter().flatten().map(str::to_owned).collect()
}

/// For `curtail sim`, but for J.
pub(crate) fn sim_flags(size: Size) -> Vec<String> {
    let requests = size.simulated.to_string();
    let percentiles = PERCENTILES.map(|percentile| percentile.to_string()).join(",");
    let flags = [
        ["--utilization-of", "mean"],
        ["--arrivals", "poisson"],
        ["--shards", SHARDS],
        ["--replicas", REPLICAS],
        ["--slots", SLOTS],
        ["--service", &size.service()],
        ["--requests", &requests],
        ["--percentiles", &percentiles],
        ["--seed", "42"],
    ];
    flags.into_iter().flatten().map(str::to_owned).collect()
}
