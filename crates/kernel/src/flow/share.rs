//! The rates that the resources of a process can sustain, by workflow and sharing policy.
//!
//! Source: document 002 §5.2.5, Algorithm 4 (bottleneck fairness, as in Retro), and DRF. The load
//! of a workflow on a resource is the work that arrives for it per second, in slots. If no resource
//! is contended, rates rise. If a resource is contended, the workflows share it max-min fairly, by
//! weight, and each workflow that exceeds its share is limited to that share.
//!
//! Deviations from Algorithm 4:
//! - **Load counts arriving and waiting work**, not served work. A resource cannot serve more than
//!   its capacity, so its spare capacity would never be negative if only served work counted. A
//!   resource counts as full at a target utilization below 1, and its waiting work is to be done
//!   within a set time.
//! - **A rate is computed from the admitted rate, not from itself.** Without contention, it is (1 +
//!   β) times the admitted rate, plus part of the workflow's share of the spare capacity. That part
//!   is converted to requests by their measured cost. The spare capacity is shared by the workflows
//!   that want more than their rate, not by all active ones. In the source, β is added to σ (line
//!   5) in every interval in which a workflow sends little, so the rate no longer limits the
//!   workflow when it sends a flood of requests. If new rates affect the load only after several
//!   intervals, as in deep graphs, the rate also overshoots by the sum of these steps.
//! - **No rate is below the equal share** of a workflow, even if the workflow is idle: it gets its
//!   share as soon as it starts.
//! - **If a resource is contended, every workflow gets the rate that its fair share allows** (lines
//!   10 to 15), computed from the cost of its requests. In equilibrium, this is σ·ratio for
//!   workflows beyond their share. For others, it is a rate that does not limit them.
//! - **A process that is not a leaf** behaves like a leaf, and does not jump to the downstream rate
//!   (line 7). Such jumps would overload the local resource again and again. The downstream rate
//!   limits the process anyway (Algorithm 3).

use alloc::vec::Vec;

use super::{Config, Workflow};

/// How a contended resource is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Max-min fair by weight, at the resource with the least spare capacity.
    #[default]
    Bottleneck,
    /// Dominant resource fairness: max-min fair by weight, where each workflow is measured by the
    /// resource of which it uses the largest fraction.
    Drf,
    /// Not shared: only the limits of the workflows apply.
    Static,
}

/// A resource, as a sharing policy sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Used {
    /// The resource's capacity for arriving work, in slots.
    pub(super) capacity: f64,
    /// l: the load of each workflow, in slots.
    pub(super) loads: Vec<f64>,
    /// The work that a request of each workflow causes at this resource, in slot-seconds.
    pub(super) costs: Vec<f64>,
}

impl Used {
    /// Returns φ: the fraction of the capacity that is spare. It is negative if the resource is
    /// contended.
    pub(super) fn spare(&self) -> f64 {
        1.0 - self.loads.iter().sum::<f64>() / self.capacity
    }
}

/// A workflow, as a sharing policy sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// The rate of admitted requests, per second.
    pub(super) admitted: f64,
    /// Whether the workflow wants more than its rate.
    pub(super) is_limited: bool,
}

/// Sets the rate of each workflow to the rate that the resources can sustain, in requests per
/// second.
pub(super) fn local_rates(
    used: &[Used],
    demands: &[Demand],
    workflows: &[Workflow],
    config: &Config,
    rates: &mut [f64],
) {
    rates.fill(f64::INFINITY);
    if config.sharing != Sharing::Static
        && let Some(tightest) = used.iter().min_by(|a, b| a.spare().total_cmp(&b.spare()))
    {
        if tightest.spare() >= 0.0 {
            raise(tightest, demands, workflows, config, rates);
        } else {
            let contended = match config.sharing {
                Sharing::Drf => used,
                _ => core::slice::from_ref(tightest),
            };
            limit(contended, workflows, rates);
        }
    }
    for (at, (rate, workflow)) in rates.iter_mut().zip(workflows).enumerate() {
        *rate = rate
            .min(alone(used, at))
            .max(workflow.guarantee)
            .max(config.least_rate)
            .min(workflow.limit);
    }
}

/// Algorithm 4, lines 3 to 7: no resource is contended.
fn raise(
    tightest: &Used,
    demands: &[Demand],
    workflows: &[Workflow],
    config: &Config,
    rates: &mut [f64],
) {
    // The spare capacity is divided among the workflows that want it. The equal share counts all
    // workflows that use the resource.
    let weight = |at: usize, counts: bool| if counts { workflows[at].weight } else { 0.0 };
    let sum = |counts: &dyn Fn(usize) -> bool| -> f64 {
        (0..workflows.len()).map(|at| weight(at, counts(at))).sum()
    };
    let limited = sum(&|at| demands[at].is_limited);
    let active = sum(&|at| tightest.loads[at] > 0.0);
    let spare = config.spare_gain * tightest.spare() * tightest.capacity;
    for (at, rate) in rates.iter_mut().enumerate() {
        let cost = tightest.costs[at];
        if cost > 0.0 {
            let own = workflows[at].weight;
            let of_spare = own / (limited + weight(at, !demands[at].is_limited));
            let of_all = own / (active + weight(at, tightest.loads[at] <= 0.0));
            let probed = demands[at].admitted * (1.0 + config.probe) + spare * of_spare / cost;
            *rate = probed.max(tightest.capacity * of_all / cost);
        }
    }
}

/// Returns the rate that a workflow would have if it had the resources to itself.
fn alone(used: &[Used], workflow: usize) -> f64 {
    let of = |used: &Used| match used.costs[workflow] {
        cost if cost > 0.0 => used.capacity / cost,
        _ => f64::INFINITY,
    };
    used.iter().map(of).fold(f64::INFINITY, f64::min)
}

/// Algorithm 4, lines 9 to 15, at the contended resources.
fn limit(contended: &[Used], workflows: &[Workflow], rates: &mut [f64]) {
    let granted = |at: usize| {
        // The fraction of its demand that a workflow is guaranteed.
        let worth = |used: &Used| match used.loads[at] {
            load if load > 0.0 => workflows[at].guarantee * used.costs[at] / load,
            _ => 0.0,
        };
        contended.iter().map(worth).fold(0.0, f64::max).min(1.0)
    };
    let granted: Vec<f64> = (0..rates.len()).map(granted).collect();
    let levels = fill(contended, workflows, &granted);
    for (at, rate) in rates.iter_mut().enumerate() {
        let mut allowed = f64::INFINITY;
        for (used, level) in contended.iter().zip(&levels.by_resource) {
            let (load, cost) = (used.loads[at], used.costs[at]);
            if load <= 0.0 || cost <= 0.0 || level.is_infinite() {
                continue;
            }
            let dominant = dominant(contended, at);
            // Converts the level to the fraction of the demand, then to requests.
            let ratio = granted[at] + workflows[at].weight * level / dominant;
            allowed = allowed.min(ratio * load / cost);
        }
        *rate = allowed;
    }
}

/// Returns the dominant share of a workflow: the largest fraction of a resource that it demands.
fn dominant(used: &[Used], workflow: usize) -> f64 {
    used.iter().map(|used| used.loads[workflow] / used.capacity).fold(0.0, f64::max)
}

struct Levels {
    /// The dominant share per unit of weight at which each resource is full. ∞ for a resource that
    /// is never full.
    by_resource: Vec<f64>,
}

/// Progressive filling: all dominant shares rise together. When a resource is full, the shares of
/// its users stop rising.
fn fill(used: &[Used], workflows: &[Workflow], granted: &[f64]) -> Levels {
    let mut by_resource = alloc::vec![f64::INFINITY; used.len()];
    // The fraction of its demand that each workflow gets. It is `None` while the workflow's share
    // still rises.
    let mut stopped: Vec<Option<f64>> = alloc::vec![None; workflows.len()];
    loop {
        let open = (0..used.len()).filter(|&at| by_resource[at].is_infinite());
        let level_of = |at: usize| (at, level(&used[at], used, workflows, granted, &stopped));
        let full = open.map(level_of).min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((resource, level)) = full.filter(|(_, level)| level.is_finite()) else {
            return Levels { by_resource };
        };
        by_resource[resource] = level;
        for (at, stopped) in stopped.iter_mut().enumerate() {
            if used[resource].loads[at] > 0.0 && stopped.is_none() {
                let part = granted[at] + workflows[at].weight * level / dominant(used, at);
                *stopped = Some(part.min(1.0));
            }
        }
    }
}

/// Returns the dominant share per unit of weight at which one resource is full. ∞ if all demands
/// fit.
fn level(
    resource: &Used,
    used: &[Used],
    workflows: &[Workflow],
    granted: &[f64],
    stopped: &[Option<f64>],
) -> f64 {
    let mut left = resource.capacity;
    // For each workflow whose share still rises: the level at which its whole demand is met, and
    // how much its usage rises per unit of level until then.
    let mut rising = Vec::new();
    for (at, &load) in resource.loads.iter().enumerate().filter(|(_, load)| **load > 0.0) {
        let part = stopped[at].unwrap_or(granted[at]);
        left -= part * load;
        if stopped[at].is_none() && part < 1.0 {
            let (dominant, weight) = (dominant(used, at), workflows[at].weight.max(1e-6));
            rising.push(((1.0 - part) * dominant / weight, load * weight / dominant));
        }
    }
    rising.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut slope: f64 = rising.iter().map(|&(_, slope)| slope).sum();
    let (mut at, left) = (0.0, left.max(0.0));
    let mut taken = 0.0;
    for (full_at, own) in rising {
        let more = (full_at - at) * slope;
        if taken + more > left {
            return at + (left - taken) / slope;
        }
        (taken, at) = (taken + more, full_at);
        slope -= own;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config { target: 1.0, queue: 100, ..Config::DEFAULT };

    const LIMITED: Demand = Demand { admitted: 100.0, is_limited: true };

    fn used(capacity: f64, loads: &[f64]) -> Used {
        // A request costs 10 ms.
        let costs = loads.iter().map(|&load| if load > 0.0 { 0.01 } else { 0.0 }).collect();
        Used { capacity, loads: loads.to_vec(), costs }
    }

    fn shared(used: &[Used], workflows: &[Workflow], sharing: Sharing) -> Vec<i64> {
        let mut rates = alloc::vec![0.0; workflows.len()];
        let demands = alloc::vec![LIMITED; workflows.len()];
        local_rates(used, &demands, workflows, &Config { sharing, ..CONFIG }, &mut rates);
        rates.iter().map(|rate| rate.round() as i64).collect()
    }

    #[test]
    fn workflows_beyond_their_share_are_limited_and_others_rise() {
        // Of the 2 slots, the first workflow gets 0.4, and each of the others gets 0.8.
        let used = [used(2.0, &[0.4, 2.0, 5.0])];
        assert_eq!(shared(&used, &[Workflow::default(); 3], Sharing::Bottleneck), [80, 80, 80]);
        let heavy = Workflow { weight: 3.0, ..Workflow::default() };
        let workflows = [Workflow::default(), heavy, Workflow::default()];
        assert_eq!(shared(&used, &workflows, Sharing::Bottleneck), [40, 120, 40]);
        let sure = Workflow { guarantee: 150.0, ..Workflow::default() };
        let workflows = [Workflow::default(), Workflow::default(), sure];
        // The third workflow is guaranteed 1.5 slots. The remaining 0.5 is divided evenly, so each
        // workflow gets 1/6 of a slot.
        assert_eq!(shared(&used, &workflows, Sharing::Bottleneck), [17, 17, 167]);
        let capped = Workflow { limit: 30.0, ..Workflow::default() };
        assert_eq!(shared(&used, &[capped; 3], Sharing::Static), [30, 30, 30]);
    }

    #[test]
    fn rates_rise_by_a_part_of_the_spare_capacity_and_never_below_an_equal_share() {
        let used = [used(2.0, &[0.5, 0.5, 0.0])];
        // If requests take 10 ms, a third of half a slot serves 16.7 requests per second. So each
        // rate is 102 + 16.7. The third workflow has no measured cost.
        assert_eq!(shared(&used, &[Workflow::default(); 3], Sharing::Bottleneck)[..2], [119, 119]);
        let mut rates = [0.0; 3];
        let heavy = Workflow { weight: 3.0, ..Workflow::default() };
        let workflows = [heavy, Workflow::default(), Workflow::default()];
        let polite = Demand { admitted: 1.0, is_limited: false };
        let greedy = Demand { admitted: 190.0, is_limited: true };
        local_rates(&used, &[greedy, polite, polite], &workflows, &CONFIG, &mut rates);
        assert_eq!(rates, [200.0, 50.0, f64::INFINITY], "the whole capacity; a fourth");
    }

    #[test]
    fn dominant_shares_are_equal() {
        // The example in the DRF paper has 9 CPUs and 18 GB, and tasks that need (1, 4) and (3, 1).
        // Three tasks of the first kind and two of the second fit, so each dominant share is two
        // thirds.
        let cpu =
            Used { capacity: 9.0, loads: alloc::vec![100.0, 300.0], costs: alloc::vec![1.0, 3.0] };
        let memory =
            Used { capacity: 18.0, loads: alloc::vec![400.0, 100.0], costs: alloc::vec![4.0, 1.0] };
        assert_eq!(shared(&[cpu, memory], &[Workflow::default(); 2], Sharing::Drf), [3, 2]);
    }
}
