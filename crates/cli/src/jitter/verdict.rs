//! Whether there are hiccups, and what causes them.

use curtail_jitter::Blame;
use curtail_jitter::machine::{Cause, Causes};
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
    /// The leaf waits for a processor.
    ProcessorWaits,
    Leaf,
    LeafAndMachine,
    Machine,
    Undecided,
}

/// True if at least half of the hiccups were waits for a processor.
fn mostly_queued(causes: Option<&Causes>) -> bool {
    let Some(causes) = causes else { return false };
    let all: u64 = causes.0.iter().map(|likely| likely.hiccups).sum();
    let queued = causes.0.iter().find(|likely| likely.cause == Cause::RunQueue);
    queued.is_some_and(|queued| 2 * queued.hiccups >= all)
}

pub(super) fn verdict(
    bimodal: bool,
    repetitions: u32,
    blame: Blame,
    causes: Option<&Causes>,
) -> Typed<Verdict> {
    let (of, text) = match (bimodal, blame) {
        (false, _) if repetitions < LEAST => (
            Verdict::TooFewRepetitions { needed: LEAST },
            "Whether there are hiccups cannot be told: execute every query 20 times or more (--repeat).",
        ),
        (false, _) => (
            Verdict::NoHiccups,
            "No hiccups were found: J has one mode. Whether a second copy of a query gains anything \
             depends on how far J spreads: ask curtail advise --samples.",
        ),
        (true, Blame::Leaf) if mostly_queued(causes) => (
            Verdict::ProcessorWaits,
            "The machine alone does not have these hiccups: the leaf waits for a processor that others \
             have, this generator perhaps among them. Keep the two apart, such as with --processors.",
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
            "The hiccups are the machine's: the leaf has no more of them than a loop that does nothing.",
        ),
        (true, _) => (
            Verdict::Undecided,
            "There are hiccups, and it cannot be told whether they are the leaf's or the machine's: \
             measure for longer, or with a larger --floor.",
        ),
    };
    Typed::new(of, text)
}
