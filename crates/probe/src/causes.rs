//! What likely makes a stage vary: evidence that its duration goes with.
//!
//! The part of a stage's variance that goes with an evidence is the square of their correlation, with the correlation's
//! sign beside it. Parts do not add up, because evidence may go together; and what goes together need not be the cause,
//! so a knob is to be tested. The machine's counters are of the whole process, not of a stage.
//!
//! Cost: one division per stage and evidence.

use curtail_jitter::machine;
use serde::Serialize;

use crate::knobs::{self, Knob};
use crate::moments::Moments;
use crate::profile::{Evidence, Profile, Reason};

/// Evidence that explains less is not named.
pub const EXPLAINS_MIN: f64 = 0.2;

/// What a stage's duration goes with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// Which evidence.
    pub kind: Evidence,
    /// The share of the stage's variance that it explains.
    pub explains: f64,
    /// If the stage takes longer where the evidence is larger.
    pub longer_with_more: bool,
    /// Of an attribute, its key and value; of a number of calls, the stage that makes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The same for people.
    pub text: String,
    /// What may help.
    pub knobs: &'static [Knob],
}

/// What the machine did to the process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pressure {
    /// What kept it from running.
    pub kind: machine::Cause,
    /// How much: of the time; of its time on processors and in their queues; or faults per request.
    pub value: f64,
    /// The same for people.
    pub text: String,
    /// What may help.
    pub knobs: &'static [Knob],
}

/// The causes of a stage, those that explain the most first.
pub(crate) fn of_stage(profile: &Profile, moments: &Moments, stage: usize) -> Vec<Cause> {
    let explained = profile.evidence.iter().filter_map(|&kind| {
        let value = profile.value_of(kind)?;
        let covariance = moments.covariance(stage, value);
        let explains = covariance * covariance / moments.variance(stage) / moments.variance(value);
        let longer_with_more = covariance > 0.0;
        let text = text(kind, longer_with_more);
        // Nothing goes with what does not vary.
        (explains >= EXPLAINS_MIN && explains.is_finite()).then(|| Cause {
            kind,
            explains: explains.min(1.0),
            longer_with_more,
            of: None,
            text,
            knobs: if longer_with_more { knobs::of(kind) } else { &[] },
        })
    });
    let reasons = profile.traces.iter().flat_map(|traces| &traces.reasons);
    let reasons = reasons.filter(|reason| reason.stage == stage).map(of_reason);
    let mut causes: Vec<Cause> = explained.chain(reasons).collect();
    causes.sort_by(|a, b| b.explains.total_cmp(&a.explains));
    causes
}

/// What a stage of traces goes with.
fn of_reason(reason: &Reason) -> Cause {
    let Reason { kind, explains, of, text, .. } = reason.clone();
    Cause { kind, explains, longer_with_more: true, of: Some(of), text, knobs: knobs::of(kind) }
}

/// What the evidence means.
fn text(kind: Evidence, longer_with_more: bool) -> String {
    let (what, why) = match kind {
        Evidence::Wakeup => (
            "the longer the sleeping thread takes to run once data are there",
            "the scheduler, an idle processor that sleeps deeply, or another thread is in the way",
        ),
        Evidence::RunQueue => (
            "the longer its thread waits for a processor",
            "other threads, often background work, have the processor",
        ),
        Evidence::Blocked => (
            "the longer its thread sleeps after it has read the request",
            "it waits for a lock, a disk, or another service",
        ),
        Evidence::Remote => (
            "more often if the thread runs on another processor than the one that took the packet",
            "the thread migrates, or interrupts come in elsewhere",
        ),
        Evidence::Batch => (
            "the more requests were read before it in the same batch",
            "requests of a batch are served one after the other, and batches differ in size",
        ),
        // Of traces, which give their own words.
        Evidence::Calls => ("the more often it is called", "calls follow each other"),
        Evidence::Attribute => ("with this attribute", "look at what it stands for"),
        Evidence::Queue => ("the longer it queues", "what it waits for is busy"),
    };
    match longer_with_more {
        true => format!("it takes longer {what}: {why}"),
        false => format!("it takes less time {what}: likely both follow from something else"),
    }
}

/// What the process suffered, as far as the kernel counts it.
pub(crate) fn of_machine(profile: &Profile) -> Vec<Pressure> {
    use machine::Cause::{MajorFaults, RunQueue, Stopped, Throttled};
    let ends = (profile.windows.first(), profile.windows.last());
    let (Some(counted), (Some(first), Some(last))) = (profile.machine, ends) else {
        return Vec::new();
    };
    let time = last.start_ns.saturating_add(last.length_ns).saturating_sub(first.start_ns) as f64;
    let running = counted.ran_ns.saturating_add(counted.run_delay_ns) as f64;
    let requests = profile.requests() as f64 * f64::from(profile.cost.map_or(1, |of| of.one_in));
    let found = [
        (Stopped, counted.stopped_ns, time, 0.01, "of the time"),
        (Throttled, counted.throttled_ns, time, 0.01, "of the time"),
        (RunQueue, counted.run_delay_ns, running, 0.1, "of the time that its threads could run"),
        (MajorFaults, counted.major_faults, requests, 0.001, "of its requests"),
    ];
    let found = found.into_iter().filter_map(|(kind, count, of, least, unit)| {
        let value = count as f64 / of;
        (value >= least && value.is_finite()).then(|| Pressure {
            kind,
            value,
            text: format!("the process was {} for {:.1} % {unit}", kind.text(), value * 100.0),
            knobs: knobs::of_machine(kind),
        })
    });
    found.collect()
}
