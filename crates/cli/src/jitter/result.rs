//! The result, as JSON: what was found, whether there are hiccups, and what causes them.

use std::path::Path;

use curtail_jitter::{
    Attribution, Bias, Blame, Estimate, Floor, Intermediate, Modality, Stop, Summary,
};
use curtail_load::{Errors, Pace, Plan};
use curtail_machine::{Cause, Causes, Counters, likely};
use serde::Serialize;

use super::args::LEAST;
use super::measure::Measured;
use super::measure::{Ended, Execution};
use super::reach::Missed;
use crate::exit::Typed;

/// The document of `curtail jitter`.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    /// Whether the measurement ended early.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) partial: bool,
    /// The reason for an early end, unless a signal interrupted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended_because: Option<Typed<Ended>>,
    pub(super) target: String,
    #[serde(flatten)]
    pub(super) all: Means,
    /// The smallest number of executions of a query, and whether that is enough.
    pub(super) repetitions: u32,
    pub(super) enough: &'static str,
    /// True if the queries ran one at a time, so that none of them waited. Otherwise, `rate` is set
    /// to the number of queries per second.
    pub(super) unloaded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<f64>,
    /// Whether this rate was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate_reached: Option<bool>,
    /// The reason why P and J are not valid for this rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate_missed: Option<Typed<Missed>>,
    pub(super) errors: Errors,
    /// The leaf's own hiccups, after subtracting the floor.
    pub(super) hiccup: Hiccup,
    /// The smallest J at which an execution is more likely than not to contain a hiccup.
    pub(super) hiccups_from_ns: Option<f64>,
    /// Modes of J that lie between the body of the distribution and the hiccups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) intermediate: Vec<Intermediate>,
    pub(super) floor: FloorFound,
    pub(super) blame: Blame,
    pub(super) fit: Modality,
    /// The likely causes of the hiccups, if the leaf is on this machine.
    pub(super) causes: Option<Causes>,
    /// The sampled leaf, or the reason why there is none.
    pub(super) leaf: Typed<Leaf>,
    /// Whether there are hiccups, and what causes them.
    pub(super) verdict: Typed<Verdict>,
    pub(super) classes: Vec<Class>,
    pub(super) samples: String,
}

/// Whether the leaf's processes are on this machine, so that their counters can be sampled.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Leaf {
    Watched { name: String, processes: usize },
    NotWatched,
}

#[derive(Debug, Serialize)]
pub(super) struct Mean {
    pub(super) mean: f64,
}

/// A mean of P. P is a minimum of several times, so it is biased.
#[derive(Debug, Serialize)]
pub(super) struct MeanOfLeast {
    pub(super) mean: f64,
    pub(super) bias: Option<Bias>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Hiccup {
    pub(super) probability: f64,
    pub(super) probability_ci95: [f64; 2],
    pub(super) duration_ns: Option<f64>,
    pub(super) duration_ci95: Option<[f64; 2]>,
    pub(super) bimodal: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct FloorFound {
    /// The probability that a gap of at least `gaps_from_ns` hits an execution. If there are no
    /// hiccups, every gap counts.
    pub(super) probability: f64,
    pub(super) duration_ns: Option<f64>,
    /// The shortest gap that is counted, in nanoseconds.
    pub(super) gaps_from_ns: u64,
    /// How long the loops ran, in nanoseconds, summed over processors.
    pub(super) observed_ns: u64,
    pub(super) processors: usize,
    pub(super) longest_gap_ns: u64,
}

/// The mean times of some queries, and all of their hiccups, whatever the cause.
#[derive(Debug, Serialize)]
pub(super) struct Means {
    pub(super) queries: usize,
    pub(super) executions: usize,
    pub(super) service_ns: Mean,
    #[serde(rename = "P_ns")]
    pub(super) p_ns: MeanOfLeast,
    #[serde(rename = "J_ns")]
    pub(super) j_ns: Mean,
    pub(super) seen: Hiccup,
}

#[derive(Debug, Serialize)]
pub(super) struct Class {
    pub(super) class: String,
    #[serde(flatten)]
    pub(super) means: Means,
}

impl Means {
    fn of(summary: &Summary) -> Means {
        Means {
            queries: summary.queries,
            executions: summary.executions,
            service_ns: Mean { mean: summary.mean_service_ns },
            p_ns: MeanOfLeast { mean: summary.mean_p_ns, bias: summary.bias },
            j_ns: Mean { mean: summary.mean_j_ns },
            seen: Hiccup::seen(summary),
        }
    }
}

impl Found {
    pub(super) fn why_partial(&self) -> &str {
        self.ended_because.as_ref().map_or("interrupted", |why| &why.text)
    }
}

impl Hiccup {
    fn new(probability: Estimate, duration: Option<Estimate>, bimodal: bool) -> Hiccup {
        Hiccup {
            probability: probability.value,
            probability_ci95: [probability.low, probability.high],
            duration_ns: duration.map(|of| of.value),
            duration_ci95: duration.map(|of| [of.low, of.high]),
            bimodal,
        }
    }

    fn seen(summary: &Summary) -> Hiccup {
        let hiccups = &summary.hiccups;
        Hiccup::new(hiccups.probability, hiccups.duration_ns, summary.modality.bimodal)
    }
}

/// Derives the result from the measurements.
pub(super) fn conclude(measured: &Measured, plan: &Plan, samples: &Path) -> Found {
    let rate = match &plan.pace {
        Pace::Open { profile, .. } => Some(profile.first()),
        Pace::Closed => None,
    };
    let rate_missed = rate.and_then(|rate| measured.reach.missed(rate));
    let executions = measured.executions.all();
    let summary = executions.summarize();
    let floor = Floor::new(measured.floor.observed_ns, &measured.floor.lengths());
    let attribution = floor.as_ref().map(|floor| executions.attribute(&summary, floor));
    let classes = measured.executions.classes().iter().enumerate().filter_map(|(at, class)| {
        let means = Means::of(&measured.executions.class(at)?.summarize());
        Some(Class { class: class.clone(), means })
    });
    let found_floor = attribution.as_ref().map(|of| (of.floor, of.gaps_from_ns));
    let causes = causes(measured, &summary);
    let repetitions = measured.executions.repetitions();
    let bimodal = summary.modality.bimodal;
    let verdict = verdict(bimodal, repetitions, attribution.as_ref(), causes.as_ref());
    let undecided = matches!(verdict.of, Verdict::Undecided { .. });
    Found {
        partial: measured.interrupted || measured.ended.is_some(),
        ended_because: measured.ended.clone(),
        target: plan.target.to_string(),
        all: Means::of(&summary),
        repetitions,
        enough: match measured.enough {
            Stop::Converged => "converged",
            Stop::AtMost => "at-most",
            Stop::NotYet => "not-yet",
        },
        unloaded: rate.is_none(),
        rate,
        rate_reached: rate.map(|_| rate_missed.is_none()),
        rate_missed,
        errors: measured.errors,
        hiccup: own(attribution.as_ref(), &summary, undecided),
        hiccups_from_ns: summary.hiccups.from_ns,
        intermediate: summary.intermediate.clone(),
        floor: FloorFound {
            probability: found_floor.map_or(0.0, |(hits, _)| hits.probability),
            duration_ns: found_floor.and_then(|(hits, _)| hits.duration_ns),
            gaps_from_ns: found_floor.map_or(0, |(_, from)| from),
            observed_ns: measured.floor.observed_ns,
            processors: measured.floor.processors,
            longest_gap_ns: measured.floor.gaps.max(),
        },
        blame: match attribution {
            Some(of) if !undecided => of.blame,
            _ => Blame::Undecided,
        },
        verdict,
        causes,
        leaf: match &measured.leaf {
            Ok((leaf, _)) => {
                let (name, processes) = (leaf.name.clone(), leaf.processes.len());
                let text = format!("{name} ({processes})");
                Typed::new(Leaf::Watched { name, processes }, text)
            }
            Err(why) => Typed::new(Leaf::NotWatched, why),
        },
        fit: summary.modality,
        classes: classes.collect(),
        samples: samples.display().to_string(),
    }
}

/// The leaf's own hiccups. If the cause is undecided, the confidence interval of the probability
/// also covers the interval for all observed hiccups.
fn own(attribution: Option<&Attribution>, summary: &Summary, undecided: bool) -> Hiccup {
    let (seen, bimodal) = (&summary.hiccups, summary.modality.bimodal);
    match attribution.and_then(|of| of.leaf) {
        Some(leaf) if undecided => Hiccup::new(
            leaf.probability.hull(seen.probability),
            leaf.duration_ns.or(seen.duration_ns),
            bimodal,
        ),
        Some(leaf) => Hiccup::new(leaf.probability, leaf.duration_ns, bimodal),
        None => Hiccup::seen(summary),
    }
}

/// The likely causes of all hiccups; `None` without counters or hiccups.
fn causes(measured: &Measured, summary: &Summary) -> Option<Causes> {
    let (Ok(_), Some(from_ns)) = (&measured.leaf, summary.hiccups.from_ns) else { return None };
    let is_slow = |of: &&Execution| jitter_ns(measured, of) as f64 >= from_ns;
    let slow = measured.each.iter().filter(is_slow);
    let causes = slow.map(|of| likely(jitter_ns(measured, of), counted(measured, of).as_ref()));
    Some(Causes::count(causes))
}

/// Returns how much longer an execution took than the P of its query.
pub(super) fn jitter_ns(measured: &Measured, execution: &Execution) -> u64 {
    let p_ns = measured.executions.p_ns(execution.query);
    execution.service_ns.saturating_sub(p_ns.unwrap_or(execution.service_ns))
}

/// What the leaf's counters recorded during an execution.
pub(super) fn counted(measured: &Measured, execution: &Execution) -> Option<Counters> {
    let (_, report) = measured.leaf.as_ref().ok()?;
    let span = std::time::Duration::from_nanos(execution.service_ns);
    report.between(execution.ended.checked_sub(span)?, execution.ended)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Verdict {
    TooFewRepetitions {
        needed: u32,
    },
    NoHiccups,
    /// The leaf waits for a processor during its hiccups.
    ProcessorWaits,
    Leaf,
    LeafAndMachine,
    Machine,
    Undecided {
        because: Reason,
    },
}

/// Why the cause is undecided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reason {
    /// There were too few hiccups, or the idle loops ran too briefly.
    TooLittle,
    /// The idle loop was interrupted more often than the leaf.
    FloorExceeds,
    /// According to the kernel's counters, the machine did not cause most of the hiccups.
    CountersDisagree,
}

/// Whether at least half of the hiccups were waits for a processor.
fn mostly_queued(causes: Option<&Causes>) -> bool {
    let Some(causes) = causes else { return false };
    let all: u64 = causes.0.iter().map(|likely| likely.hiccups).sum();
    let queued = causes.0.iter().find(|likely| likely.cause == Cause::RunQueue);
    queued.is_some_and(|queued| 2 * queued.hiccups >= all)
}

/// The number of hiccups in which the leaf did not need a processor, and the total number of
/// hiccups for which there are counter samples. An idle loop detects neither a leaf that sleeps nor
/// one that is stopped or throttled.
fn off_processor(causes: Option<&Causes>) -> (u64, u64) {
    let all = causes.map_or(&[][..], |causes| &causes.0);
    let sum = |of: &dyn Fn(Cause) -> bool| {
        all.iter().filter(|likely| of(likely.cause)).map(|likely| likely.hiccups).sum()
    };
    let off = [Cause::Waiting, Cause::MajorFaults, Cause::Stopped, Cause::Throttled];
    (sum(&|cause| off.contains(&cause)), sum(&|cause| cause != Cause::Unknown))
}

const CANNOT: &str =
    "There are hiccups, but it is undecided whether the leaf or the machine causes them: ";

/// Why the machine is not blamed for the hiccups, although the idle loop was interrupted just as
/// often.
fn open_because(
    attribution: Option<&Attribution>,
    causes: Option<&Causes>,
) -> Option<(Reason, String)> {
    let blame = attribution.map_or(Blame::Undecided, |of| of.blame);
    let floor_exceeds = attribution.is_some_and(|of| of.floor_exceeds);
    let (off, all) = off_processor(causes);
    match blame {
        Blame::Machine | Blame::Undecided if floor_exceeds || blame == Blame::Machine => {}
        _ => return None,
    }
    let again = "Measure again when nothing else runs here.";
    if 2 * off > all {
        let text = format!(
            "{CANNOT}an idle loop was stopped as often, but in {off} of {all} hiccups the leaf did \
             not wait for a processor. {again}"
        );
        return Some((Reason::CountersDisagree, text));
    }
    let text = format!(
        "{CANNOT}an idle loop was stopped more often than the leaf, so the machine was busier \
         then. {again}"
    );
    floor_exceeds.then_some((Reason::FloorExceeds, text))
}

/// `attribution` is `None` if no floor was observed.
pub(super) fn verdict(
    bimodal: bool,
    repetitions: u32,
    attribution: Option<&Attribution>,
    causes: Option<&Causes>,
) -> Typed<Verdict> {
    if let Some((because, text)) = open_because(attribution, causes).filter(|_| bimodal) {
        return Typed::new(Verdict::Undecided { because }, text);
    }
    let blame = attribution.map_or(Blame::Undecided, |of| of.blame);
    let (of, text) = match (bimodal, blame) {
        (false, _) if repetitions < LEAST => (
            Verdict::TooFewRepetitions { needed: LEAST },
            "There are too few repetitions to find hiccups: execute every query at least 20 times \
             (--repeat).",
        ),
        (false, _) => (
            Verdict::NoHiccups,
            "No hiccups were found: J has one mode. The gain of a second copy depends on the \
             spread of J: run curtail advise --samples.",
        ),
        (true, Blame::Leaf) if mostly_queued(causes) => (
            Verdict::ProcessorWaits,
            "The machine alone does not have these hiccups: the leaf waits for a processor that \
             others use, perhaps this generator. Separate the two, for example with --processors.",
        ),
        (true, Blame::Leaf) => {
            (Verdict::Leaf, "The hiccups are the leaf's own: the machine does not explain them.")
        }
        (true, Blame::Both) => (
            Verdict::LeafAndMachine,
            "Some of the hiccups are the leaf's own, some are the machine's.",
        ),
        (true, Blame::Machine) => (
            Verdict::Machine,
            "The hiccups are the machine's: the leaf has no more of them than an idle loop.",
        ),
        (true, _) => {
            let text = format!("{CANNOT}measure for longer, or with a larger --floor.");
            return Typed::new(Verdict::Undecided { because: Reason::TooLittle }, text);
        }
    };
    Typed::new(of, text)
}

#[cfg(test)]
mod tests {
    use curtail_jitter::{FloorHits, LeafHiccups};
    use curtail_machine::Likely;

    use super::*;

    fn found(blame: Blame, floor_exceeds: bool, causes: &[(Cause, u64)]) -> Typed<Verdict> {
        let floor = FloorHits { probability: 0.015, duration_ns: Some(4e7) };
        let leaf: Option<LeafHiccups> = None;
        let attribution =
            Attribution { blame, floor, gaps_from_ns: 1, floor_exceeds, leaf, p_value: 0.5 };
        let causes = causes.iter().map(|&(cause, hiccups)| Likely { cause, hiccups });
        verdict(true, 150, Some(&attribution), Some(&Causes(causes.collect())))
    }

    #[test]
    fn counters_that_disagree_leave_the_cause_open() {
        let waits = [(Cause::Waiting, 125), (Cause::RunQueue, 7), (Cause::Unknown, 2)];
        let open = found(Blame::Machine, false, &waits);
        assert_eq!(open.of, Verdict::Undecided { because: Reason::CountersDisagree });
        assert!(open.text.contains("in 125 of 132 hiccups the leaf did not wait"), "{}", open.text);
        for agree in [&[(Cause::RunQueue, 90), (Cause::Waiting, 40)][..], &[(Cause::Unknown, 9)]] {
            assert_eq!(found(Blame::Machine, false, agree).of, Verdict::Machine, "{agree:?}");
        }
        assert_eq!(found(Blame::Leaf, false, &waits).of, Verdict::Leaf);
    }

    #[test]
    fn a_floor_that_exceeds_the_hiccups_leaves_the_cause_open() {
        for blame in [Blame::Machine, Blame::Undecided] {
            let open = found(blame, true, &[(Cause::RunQueue, 9)]);
            assert_eq!(open.of, Verdict::Undecided { because: Reason::FloorExceeds });
        }
        let little = found(Blame::Undecided, false, &[(Cause::RunQueue, 9)]);
        assert_eq!(little.of, Verdict::Undecided { because: Reason::TooLittle });
        assert!(little.text.ends_with("measure for longer, or with a larger --floor."));
    }
}
