//! What is measured and simulated: one description for both, so that they cannot differ.

/// In this order everywhere.
pub(super) const POLICIES: [&str; 3] = ["psq", "laedge", "rescue"];
/// Utilizations that are judged, λ P̄ / (r c).
pub(super) const LOADS: [f64; 3] = [0.3, 0.5, 0.7];
/// A service that has run for a while is judged: at this load, before the others, rescue learns.
const LEARNING: f64 = 0.2;

const SHARDS: &str = "5";
const REPLICAS: &str = "2";
const SLOTS: &str = "1";
/// The demo's mean of P; hiccups take 15 times as long.
const SERVICE_MS: u32 = 3;
const HICCUP_MS: u32 = 45;
const HICCUP_PROBABILITY: f64 = 0.003;

/// How much is measured and simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Sound runs at each load, each with draws of its own.
    pub(super) repetitions: usize,
    /// Requests of a policy at a load, in each of them: few, for a run counts only if nothing
    /// disturbs it.
    pub(super) requests: u32,
    /// Requests of a replication of a simulation.
    pub(super) simulated: u32,
    /// How many times as long as the demo's all times of the service are: on a busy host a machine
    /// stands still for milliseconds.
    pub(super) scale: u32,
}

impl Size {
    pub(super) const FULL: Self =
        Self { repetitions: 10, requests: 1_050, simulated: 200_000, scale: 3 };

    fn service(self) -> String {
        format!("exp:{}ms", SERVICE_MS * self.scale)
    }

    fn hiccup(self) -> String {
        format!("{HICCUP_PROBABILITY}:{}ms", HICCUP_MS * self.scale)
    }

    /// J, as the simulator writes it.
    pub(super) fn jitter(self) -> String {
        format!("bimodal:{}", self.hiccup())
    }

    /// The longest that the machine may stand still in a sound run, in ns: a third of a hiccup.
    pub(super) fn stall_most_ns(self) -> u64 {
        u64::from(HICCUP_MS * self.scale) * 1_000_000 / 3
    }
}

/// What a load is called.
pub(super) fn percent(load: f64) -> String {
    format!("{:.0} %", load * 100.0)
}

/// For `curtail demo`.
pub(super) fn demo_flags(size: Size, seed: u64) -> Vec<String> {
    let loads = [LEARNING].into_iter().chain(LOADS).map(|load| load.to_string());
    let loads = loads.collect::<Vec<_>>().join(",");
    let (requests, seed) = (size.requests.to_string(), seed.to_string());
    let flags = [
        ["--loads", &loads],
        ["--policies", &POLICIES.join(",")],
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
pub(super) fn sim_flags(size: Size) -> Vec<String> {
    let requests = size.simulated.to_string();
    let flags = [
        ["--utilization-of", "mean"],
        ["--arrivals", "poisson"],
        ["--shards", SHARDS],
        ["--replicas", REPLICAS],
        ["--slots", SLOTS],
        ["--service", &size.service()],
        ["--requests", &requests],
        ["--percentiles", "50,99"],
        ["--seed", "42"],
    ];
    flags.into_iter().flatten().map(str::to_owned).collect()
}
