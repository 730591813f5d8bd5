//! What is compared: one description, from which the flags of both the demo and the simulator are
//! made, so that they cannot differ.

/// The policies whose latencies are compared.
pub(crate) const POLICIES: [&str; 2] = ["psq", "laedge"];
/// Utilizations, λ P̄ / (r c) in both.
pub(crate) const LOADS: [f64; 3] = [0.2, 0.4, 0.6];
/// What is compared of their latencies.
pub(crate) const PERCENTILES: [f64; 2] = [50.0, 99.0];

const SHARDS: &str = "5";
const REPLICAS: &str = "2";
const SLOTS: &str = "1";
const SERVICE: &str = "exp:3ms";
/// Probability and length.
const HICCUP: &str = "0.003:45ms";

/// The mean of P + J, in ms, by the two above: what the leaves should draw.
pub(crate) const DRAWN_MEAN_MS: f64 = 3.0 + 0.003 * 45.0;

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
    /// The longest that the machine may stand still in a sound run, in ns: a third of a hiccup.
    /// Where virtual machines share a host, that takes hundreds of milliseconds at times; the
    /// requests that pile up meanwhile are more than one in a hundred, and no simulation knows of
    /// them.
    pub(crate) stall_most_ns: u64,
}

impl Size {
    pub(crate) fn new(smoke: bool) -> Self {
        if smoke {
            // A 99th percentile takes a thousand.
            let (simulated, stall_most_ns) = (20_000, u64::MAX);
            Self { repetitions: 1, requests: 1_050, simulated, stall_most_ns }
        } else {
            let (simulated, stall_most_ns) = (200_000, 15_000_000);
            Self { repetitions: 20, requests: 1_050, simulated, stall_most_ns }
        }
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
pub(crate) fn demo_flags(size: Size, seed: u64) -> Vec<String> {
    let loads = LOADS.map(|load| load.to_string()).join(",");
    let (requests, seed) = (size.requests.to_string(), seed.to_string());
    let flags = [
        ["--loads", &loads],
        ["--policies", &POLICIES.join(",")],
        ["--requests", &requests],
        ["--shards", SHARDS],
        ["--replicas", REPLICAS],
        ["--slots", SLOTS],
        ["--service-time", SERVICE],
        ["--hiccup", HICCUP],
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
        ["--service", SERVICE],
        ["--requests", &requests],
        ["--percentiles", &percentiles],
        ["--seed", "42"],
    ];
    flags.into_iter().flatten().map(str::to_owned).collect()
}

/// J, as the simulator writes it.
pub(crate) fn jitter() -> String {
    format!("bimodal:{HICCUP}")
}
