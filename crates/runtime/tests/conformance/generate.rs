//! Generates random scenarios, each from a seed.

use curtail_kernel::balance::PICKS;
use curtail_kernel::hedge::rescue::{Exploration, Prefetch, Replaced, Snapshot};
use curtail_kernel::hedge::{self, LearnedDelay};
use curtail_kernel::{Limits, NEVER_NS, Policy, Rng, Tuning, rng};
use curtail_sim::script::{Script, Step, What};
use rand_core::Rng as _;

use crate::scenario;

/// Number of queries in a scenario.
const QUERIES: u32 = 300;

/// Step sizes, one of which is chosen for each scenario. Most times are multiples of it, so a
/// larger step makes more events simultaneous.
const GRIDS_NS: [u64; 3] = [1, 250_000, 1_000_000];

/// The mean service time, in ns.
const SERVICE_NS: u64 = 4_000_000;

fn below(rng: &mut Rng, n: u64) -> u64 {
    rng.next_u64() % n
}

fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[below(rng, choices.len() as u64) as usize]
}

fn one_in(rng: &mut Rng, n: u64) -> bool {
    below(rng, n) == 0
}

/// Returns the scenario for a seed. Successive seeds use the policies in turn.
pub fn scenario(seed: u64) -> Script {
    let forms = scenario::forms();
    let form = &forms[(seed % forms.len() as u64) as usize];
    let rng = &mut rng(seed);
    let grid = pick(rng, &GRIDS_NS);
    let servers = pick(rng, &[1, 2, 2, 3, 4]);
    let slots = pick(rng, &[1, 1, 2, 3]);
    let delay = format!("{}ns", near(rng, SERVICE_NS, grid));
    let bound = slots + below(rng, 3) as u32;
    let policy = composed(rng, scenario::fill(form, bound, &delay, "0.5"));
    let limits = limits(rng, &policy, slots, grid);
    let learned = learned(rng, &policy, grid);
    let steps = steps(rng, servers, slots, grid);
    Script { policy, servers, slots, limits, seed, learned, steps }
}

/// Returns the policy. With a probability of 1/2, a random pick replaces the policy's default pick,
/// provided that the policy accepts the random one.
fn composed(rng: &mut Rng, policy: Policy) -> Policy {
    let text = format!("{policy}+{}", pick(rng, PICKS).name);
    let policy =
        if one_in(rng, 2) { None } else { Policy::parse(&text, None).ok() }.unwrap_or(policy);
    // If the policy supports rate limits, they are enabled with a probability of 1/8.
    let paced = Policy::parse(&format!("{policy}+cubic"), None);
    if one_in(rng, 8) { paced.unwrap_or(policy) } else { policy }
}

/// Returns a snapshot that a service could have learned, if the policy learns.
fn learned(rng: &mut Rng, policy: &Policy, grid: u64) -> Option<hedge::Snapshot> {
    policy.learner(&Limits::default())?;
    if policy.rescues().is_none() {
        let delay_ns = if one_in(rng, 4) { NEVER_NS } else { near(rng, SERVICE_NS, grid) };
        return Some(hedge::Snapshot::new(LearnedDelay { delay_ns }));
    }
    let mut explore = Snapshot::NOTHING.explore;
    let suspect_ns = if one_in(rng, 2) { NEVER_NS } else { grid + near(rng, 2 * SERVICE_NS, grid) };
    if suspect_ns == NEVER_NS {
        explore[0] = Exploration { age_ns: near(rng, SERVICE_NS, grid), every: pick(rng, &[1, 2]) };
    }
    let at_once = one_in(rng, 2);
    let replaces = pick(rng, &[None, Some(Replaced::First), Some(Replaced::Second)]);
    let audit_every = pick(rng, &[1, 2, u32::MAX]);
    let (round_trip_ns, per_64) = (near(rng, SERVICE_NS / 4, grid), pick(rng, &[0, 0, 1, 64]));
    let (least_slots, of) = (pick(rng, &[1, 2]), pick(rng, &[1, 2]));
    let prefetch = Prefetch { per_64, least_slots, one_in: of };
    let overtakes = pick(rng, &[0, 1, u32::MAX]);
    let unusual_ns = if one_in(rng, 2) { NEVER_NS } else { near(rng, SERVICE_NS, grid) };
    let nothing = Snapshot { unusual_ns, ..Snapshot::NOTHING };
    let (give_up_ns, slots) = (near(rng, SERVICE_NS, grid), pick(rng, &[1, 2, u32::MAX]));
    let learned = Snapshot { suspect_ns, overtakes, explore, at_once, audit_every, ..nothing };
    let learned = Snapshot { replaces, round_trip_ns, prefetch, give_up_ns, slots, ..learned };
    Some(hedge::Snapshot::new(learned))
}

/// Draws a time from zero to twice a mean, on the grid.
fn near(rng: &mut Rng, mean_ns: u64, grid: u64) -> u64 {
    below(rng, 2 * mean_ns + 1) / grid * grid
}

fn limits(rng: &mut Rng, policy: &Policy, slots: u32, grid: u64) -> Limits {
    let default = Limits::default();
    let maybe = |rng: &mut Rng, ns: u64, default| {
        if one_in(rng, 3) { grid + near(rng, ns, grid) } else { default }
    };
    Limits {
        cancel: policy.needs_cancellation() || one_in(rng, 2),
        queue: pick(rng, &[1, 4, default.queue]),
        max_outstanding: pick(rng, &[slots, slots + 2, default.max_outstanding]),
        timeout_ns: maybe(rng, 8 * SERVICE_NS, default.timeout_ns),
        attempt_timeout_ns: maybe(rng, 3 * SERVICE_NS, default.attempt_timeout_ns),
        retries: pick(rng, &[0, 1, 2]),
        eject_after: pick(rng, &[0, 1, 2]),
        ejection_ns: pick(rng, &[0, 2 * SERVICE_NS, default.ejection_ns]),
        hedge_budget: pick(rng, &[0.25, 1.0]),
        tuning: Tuning {
            initial_rate: pick(rng, &[0.5, 2.0, 10.0]),
            burst: pick(rng, &[1.0, 3.0]),
            ..default.tuning
        },
        ..default
    }
}

fn steps(rng: &mut Rng, servers: u32, slots: u32, grid: u64) -> Vec<Step> {
    // The load is between half and twice the servers' capacity, with occasional pauses.
    let load = pick(rng, &[5, 8, 12, 20]);
    let gap_ns = SERVICE_NS * 10 / load / u64::from(servers * slots);
    let faults = pick(rng, &[0, 10, 40]);
    let mut steps = Vec::new();
    let mut at_ns = 0;
    let mut arrived = 0;
    while arrived < QUERIES {
        let gap_ns = if one_in(rng, 50) { 20 * SERVICE_NS } else { gap_ns };
        at_ns += near(rng, gap_ns, grid);
        let server = below(rng, servers.into()) as u32;
        let what = if faults > 0 && one_in(rng, 1_000 / faults) {
            let faults = [
                What::Down(server),
                What::Drain(server),
                What::Unhealthy(server),
                What::Up(server),
            ];
            pick(rng, &faults)
        } else if one_in(rng, 20) {
            // If the server is out of service, it is restored.
            What::Up(server)
        } else if faults > 0 && arrived > 0 && one_in(rng, 20) {
            What::Leave(arrived - 1 - below(rng, u64::from(arrived.min(5))) as u32)
        } else {
            arrived += 1;
            query(rng, grid)
        };
        steps.push(Step { at_ns, what });
    }
    steps
}

/// Draws a query. Each copy may have its own hiccup.
fn query(rng: &mut Rng, grid: u64) -> What {
    let mut hiccup = || if one_in(rng, 5) { 10 * SERVICE_NS / grid * grid } else { 0 };
    let jitter_ns = [hiccup(), hiccup()];
    What::Arrive { service_ns: near(rng, SERVICE_NS, grid), jitter_ns }
}
