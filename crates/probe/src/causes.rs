//! Finds the likely causes of a stage's variability. They are the evidence that correlates with the
//! stage's duration.
//!
//! The share of the variance that a piece of evidence explains is the square of its correlation
//! with the stage's duration. The sign of the correlation is reported with that share. The shares
//! do not add up to the explained variance, because pieces of evidence may be correlated with each
//! other. Correlation does not prove causation, so every knob must be tested. The machine's
//! counters apply to the whole process and not to a single stage.
//!
//! Cost: one division per stage and piece of evidence.

use curtail_machine as machine;
use serde::Serialize;

use crate::knobs::{self, Knob};
use crate::moments::Moments;
use crate::profile::{Evidence, Profile, Reason};

/// The minimum share that evidence must explain to be listed.
pub const EXPLAINS_MIN: f64 = 0.2;

/// A likely cause of a stage's variability.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// The kind of evidence.
    pub kind: Evidence,
    /// The share of the stage's variance that the evidence explains.
    pub explains: f64,
    /// Whether the stage takes longer when the evidence is larger.
    pub longer_with_more: bool,
    /// The key and value of an attribute, or the stage that makes the calls if the evidence is a
    /// number of calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// A human-readable description.
    pub text: String,
    /// The knobs that may help.
    pub knobs: &'static [Knob],
}

/// A way in which the machine kept the process from running.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pressure {
    /// The kind of pressure.
    pub kind: machine::Cause,
    /// The share of its time that the process lost. For the run queue, it is a share of the time in
    /// which the process's threads were ready to run. For page faults, this field contains the
    /// number of faults per request instead.
    pub value: f64,
    /// A human-readable description.
    pub text: String,
    /// The knobs that may help.
    pub knobs: &'static [Knob],
}

/// Returns the causes of a stage, in descending order of the share that they explain.
pub(crate) fn of_stage(profile: &Profile, moments: &Moments, stage: usize) -> Vec<Cause> {
    let explained = profile.evidence.iter().filter_map(|&kind| {
        let value = profile.value_of(kind)?;
        let covariance = moments.covariance(stage, value);
        let explains = covariance * covariance / moments.variance(stage) / moments.variance(value);
        let longer_with_more = covariance > 0.0;
        let text = text(kind, longer_with_more);
        // The share is not finite if there is no variance.
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

/// Converts a reason that was found in traces.
fn of_reason(reason: &Reason) -> Cause {
    let Reason { kind, explains, of, text, .. } = reason.clone();
    Cause { kind, explains, longer_with_more: true, of: Some(of), text, knobs: knobs::of(kind) }
}

/// Returns a human-readable description of the evidence.
fn text(kind: Evidence, longer_with_more: bool) -> String {
    let (when, why) = match kind {
        Evidence::Wakeup => (
            "the longer its sleeping thread takes to run after data arrive",
            "the scheduler, an idle processor in deep sleep, or another thread delays it",
        ),
        Evidence::RunQueue => (
            "the longer its thread waits for a processor",
            "other threads, often background work, occupy the processor",
        ),
        Evidence::Blocked => (
            "the longer its thread sleeps after it has read the request",
            "it waits for a lock, a disk, or another service",
        ),
        Evidence::Remote => (
            "when the thread runs on another processor than the one that received the packet",
            "the thread migrates, or interrupts arrive on another processor",
        ),
        Evidence::Batch => (
            "the more requests were read before it in the same batch",
            "requests of a batch are served one after the other, and batches differ in size",
        ),
        // These kinds of evidence occur only in traces, which provide their own descriptions.
        Evidence::Calls => ("the more often it is called", "calls follow each other"),
        Evidence::Attribute => ("with this attribute", "find out what it stands for"),
        Evidence::Queue => ("the longer it queues", "the resource that it waits for is busy"),
    };
    match longer_with_more {
        true => format!("it takes longer {when}: {why}"),
        false => format!("it takes less time {when}: both probably have another cause"),
    }
}

/// Returns the pressures on the process that the kernel counted.
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
