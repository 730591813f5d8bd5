//! Checks the coverage of the intervals by simulation.

use super::scenario::Scenario;
use crate::Estimate;

/// The results of 20 runs for each point in a grid of probabilities and durations.
#[derive(Debug, Default)]
struct Covered {
    runs: u32,
    probability: u32,
    /// The number of runs that found hiccups, and the number of those runs whose interval contains
    /// the true duration.
    found: u32,
    duration: u32,
    /// The largest relative errors among runs with 200 hiccups or more.
    error: f64,
    error_of_duration: f64,
}

impl Covered {
    fn add(
        &mut self,
        scenario: &Scenario,
        probability: Estimate,
        duration: Option<Estimate>,
        seen: f64,
    ) {
        self.runs += 1;
        self.probability += u32::from(probability.contains(scenario.probability));
        let truth_ns = scenario.duration * 1e6;
        if let Some(duration) = duration {
            self.found += 1;
            self.duration += u32::from(duration.contains(truth_ns));
            if seen >= 200.0 {
                let off = |value: f64, truth: f64| (value / truth - 1.0).abs();
                self.error = self.error.max(off(probability.value, scenario.probability));
                self.error_of_duration = self.error_of_duration.max(off(duration.value, truth_ns));
            }
        }
    }

    fn assert(&self) {
        assert_eq!(self.runs, 20);
        assert!(self.probability >= 18, "{self:?}");
        assert!(self.duration * 10 >= self.found * 9, "{self:?}");
        assert!(self.error <= 0.15 && self.error_of_duration <= 0.05, "{self:?}");
    }
}

/// Returns pairs of a scenario and a seed.
fn grid(like: Scenario, seed: u64) -> impl Iterator<Item = (Scenario, u64)> {
    let probabilities = [0.002, 0.005, 0.02, 0.05];
    let cells =
        probabilities.into_iter().flat_map(|p| [5.0, 8.0, 15.0, 30.0, 50.0].map(|d| (p, d)));
    cells.enumerate().map(move |(run, (probability, times))| {
        (Scenario { probability, duration: times * like.mean_p, ..like }, seed + run as u64)
    })
}

fn of_summaries(like: Scenario, seed: u64) -> Covered {
    let mut covered = Covered::default();
    for (scenario, seed) in grid(like, seed) {
        let hiccups = scenario.run(seed).all().summarize().hiccups;
        covered.add(&scenario, hiccups.probability, hiccups.duration_ns, hiccups.count);
    }
    covered
}

#[test]
fn intervals_contain_hiccups_of_constant_length() {
    for mean_p in [10.0, 1.0] {
        let covered = of_summaries(Scenario { mean_p, ..Scenario::default() }, 100);
        covered.assert();
        assert_eq!(covered.found, 20);
    }
}

#[test]
fn intervals_contain_hiccups_of_varying_length() {
    let covered = of_summaries(Scenario { variation: 0.3, ..Scenario::default() }, 200);
    covered.assert();
    assert_eq!(covered.found, 20);
}

#[test]
fn intervals_contain_exponential_hiccups() {
    let like = Scenario { variation: 1.0, pauses: 0.0, ..Scenario::default() };
    let covered = of_summaries(like, 300);
    assert!(covered.probability >= 18, "{covered:?}");
    assert!(covered.duration * 10 >= covered.found * 9, "{covered:?}");
}

/// Pauses of 1 to 4 ms overlap with hiccups of 5 ms ± 30 %. Only the floor separates the pauses
/// from the hiccups.
#[test]
fn with_a_floor_intervals_contain_hiccups_that_overlap_with_pauses() {
    let mut covered = Covered::default();
    for (scenario, seed) in
        grid(Scenario { mean_p: 1.0, variation: 0.3, ..Scenario::default() }, 400)
    {
        let executions = scenario.run(seed);
        let summary = executions.all().summarize();
        let floor = scenario.floor(&executions, 60.0, seed);
        let leaf = executions.all().attribute(&summary, &floor).leaf;
        let probability = leaf.map_or(summary.hiccups.probability, |leaf| leaf.probability);
        covered.add(&scenario, probability, leaf.and_then(|leaf| leaf.duration_ns), 0.0);
    }
    covered.assert();
    assert!(covered.found >= 16, "{covered:?}");
}

#[test]
fn intervals_contain_the_truth_with_few_executions() {
    for (mean_p, variation, seed) in [(10.0, 0.0, 500), (1.0, 0.0, 520), (10.0, 0.3, 540)] {
        let like =
            Scenario { queries: 40, executions: 50, mean_p, variation, ..Scenario::default() };
        of_summaries(like, seed).assert();
    }
}

#[test]
fn clusters_widen_the_interval() {
    let scenario = Scenario { probability: 0.01, duration: 100.0, ..Scenario::default() };
    let alone = scenario.run(1).all().summarize().hiccups;
    let clustered = Scenario { cluster: 20, ..scenario }.run(1).all().summarize().hiccups;
    assert!(alone.dispersion < 2.0, "{alone:?}");
    assert!(clustered.dispersion > 8.0, "{clustered:?}");
    let width = |estimate: Estimate| (estimate.high - estimate.low) / estimate.value;
    assert!(width(clustered.probability) > 2.5 * width(alone.probability));
    let covers = |seed| {
        let hiccups = Scenario { cluster: 20, ..scenario }.run(seed).all().summarize().hiccups;
        u32::from(hiccups.probability.contains(0.01))
    };
    assert!((0..20).map(covers).sum::<u32>() >= 18);
}
