//! Decides whether there are hiccups, and what causes them.

use curtail_jitter::machine::{Cause, Causes};
use curtail_jitter::{Attribution, Blame};
use serde::Serialize;

use super::args::LEAST;
use crate::verdict::Typed;

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
    use curtail_jitter::machine::Likely;
    use curtail_jitter::{FloorHits, LeafHiccups};

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
