//! Parses handwritten scenarios, which are TOML files with units for times and with steps in
//! chronological order.

use curtail_kernel::hedge::rescue::{Exploration, Prefetch, Replaced, Snapshot};
use curtail_kernel::hedge::{self, LearnedDelay};
use curtail_kernel::{Limits, NEVER_NS, Policy, Tuning, duration};
use curtail_sim::script::{Script, Step, What};
use serde::Deserialize;

/// A scenario from a file.
pub struct Scenario {
    pub script: Script,
    /// Texts that the log must contain, in this order. They ensure that a scenario still
    /// demonstrates what it was written for.
    pub decides: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    policy: String,
    servers: u32,
    slots: u32,
    cancel: Cancel,
    seed: u64,
    #[serde(default)]
    limits: WrittenLimits,
    #[serde(default)]
    learned: WrittenLearned,
    #[serde(default)]
    decides: Vec<String>,
    steps: Vec<WrittenStep>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Cancel {
    None,
    Reset,
}

/// Limits that are left out default to those of the kernel.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenLimits {
    max_outstanding: Option<u32>,
    queue: Option<u32>,
    timeout: Option<String>,
    attempt_timeout: Option<String>,
    retries: Option<u8>,
    eject_after: Option<u32>,
    ejection: Option<String>,
    hedge_budget: Option<f64>,
    /// For policies with rates: copies per 20 ms interval.
    initial_rate: Option<f64>,
    burst: Option<f64>,
}

/// The copy that is replaced by a third one if both are probably stuck.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WrittenReplaced {
    First,
    Second,
}

/// The service's snapshot, for a policy that learns. It is empty if left out.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenLearned {
    delay: Option<String>,
    suspect: Option<String>,
    slots: Option<u32>,
    overtakes: Option<u32>,
    explore: Option<String>,
    every: Option<u32>,
    replaced: Option<WrittenReplaced>,
    #[serde(default)]
    at_once: bool,
    #[serde(default)]
    audit: bool,
    #[serde(default)]
    prefetch: u32,
}

/// One of `query`, `leaves`, `up`, `unhealthy`, `drain` and `down`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStep {
    at: String,
    query: Option<String>,
    #[serde(default)]
    jitter: Vec<String>,
    leaves: Option<u32>,
    up: Option<u32>,
    unhealthy: Option<u32>,
    drain: Option<u32>,
    down: Option<u32>,
}

/// Parses a scenario.
pub fn read(text: &str) -> Result<Scenario, String> {
    let written: Written =
        curtail_config::parse("scenario", text).map_err(|error| error.to_string())?;
    let policy = Policy::parse(&written.policy, None).map_err(|error| error.to_string())?;
    let limits = written.limits.read(matches!(written.cancel, Cancel::Reset))?;
    let steps = written.steps.iter().map(WrittenStep::read).collect::<Result<_, _>>()?;
    let learned = Some(written.learned.read(&policy)?);
    let Written { servers, slots, seed, decides, .. } = written;
    let script = Script { policy, servers, slots, limits, seed, learned, steps };
    script.check().map_err(|error| error.to_string())?;
    Ok(Scenario { script, decides })
}

fn ns(text: &str) -> Result<u64, String> {
    duration::parse(text).map_err(|error| format!("{text:?}: {error}"))
}

impl WrittenLimits {
    fn read(self, cancel: bool) -> Result<Limits, String> {
        let default = Limits::default();
        let time = |text: Option<String>, default| text.map_or(Ok(default), |text| ns(&text));
        Ok(Limits {
            max_outstanding: self.max_outstanding.unwrap_or(default.max_outstanding),
            queue: self.queue.unwrap_or(default.queue),
            timeout_ns: time(self.timeout, default.timeout_ns)?,
            attempt_timeout_ns: time(self.attempt_timeout, default.attempt_timeout_ns)?,
            cancel,
            retries: self.retries.unwrap_or(default.retries),
            eject_after: self.eject_after.unwrap_or(default.eject_after),
            ejection_ns: time(self.ejection, default.ejection_ns)?,
            hedge_budget: self.hedge_budget.unwrap_or(default.hedge_budget),
            tuning: Tuning {
                initial_rate: self.initial_rate.unwrap_or(default.tuning.initial_rate),
                burst: self.burst.unwrap_or(default.tuning.burst),
                ..default.tuning
            },
            ..default
        })
    }
}

impl WrittenLearned {
    fn read(&self, policy: &Policy) -> Result<hedge::Snapshot, String> {
        let time = |text: &Option<String>| text.as_deref().map_or(Ok(NEVER_NS), ns);
        if policy.learns_delay() {
            return Ok(hedge::Snapshot::new(LearnedDelay { delay_ns: time(&self.delay)? }));
        }
        let nothing = Snapshot::NOTHING;
        let mut explore = nothing.explore;
        let every = self.every.unwrap_or(1);
        explore[0] = Exploration { age_ns: time(&self.explore)?, every };
        Ok(hedge::Snapshot::new(Snapshot {
            suspect_ns: time(&self.suspect)?,
            slots: self.slots.unwrap_or(nothing.slots),
            overtakes: self.overtakes.unwrap_or(nothing.overtakes),
            explore,
            replaces: self.replaced.as_ref().map(|replaced| match replaced {
                WrittenReplaced::First => Replaced::First,
                WrittenReplaced::Second => Replaced::Second,
            }),
            at_once: self.at_once,
            audit_every: if self.audit { 1 } else { u32::MAX },
            prefetch: Prefetch { per_64: self.prefetch, ..Prefetch::NONE },
            ..nothing
        }))
    }
}

impl WrittenStep {
    fn read(&self) -> Result<Step, String> {
        let Self { at, query, jitter, leaves, up, unhealthy, drain, down } = self;
        let jitter_ns = match jitter.iter().map(|text| ns(text)).collect::<Result<Vec<_>, _>>()?[..]
        {
            [] => [0, 0],
            [first] => [first, 0],
            [first, second] => [first, second],
            _ => return Err(format!("the step at {at} has more than two times of jitter")),
        };
        let servers = [
            up.map(What::Up),
            unhealthy.map(What::Unhealthy),
            drain.map(What::Drain),
            down.map(What::Down),
        ];
        let servers: Vec<What> = servers.into_iter().flatten().collect();
        let what = match (query, leaves, &servers[..]) {
            (Some(service), None, []) => What::Arrive { service_ns: ns(service)?, jitter_ns },
            (None, Some(query), []) => What::Leave(*query),
            (None, None, &[what]) => what,
            _ => {
                let one = "query, leaves, up, unhealthy, drain and down";
                return Err(format!("the step at {at} needs one of {one}"));
            }
        };
        Ok(Step { at_ns: ns(at)?, what })
    }
}

/// Returns every form of a deployable policy, with and without its optional parts: `delayed:D`,
/// `delayed:D:cc`, …
pub fn forms() -> Vec<String> {
    let mut forms = Vec::new();
    for form in Policy::live_forms() {
        match form.split_once('[') {
            None => forms.push(form.to_owned()),
            Some((kept, rest)) => {
                let optional = rest.trim_end_matches(']');
                forms.extend([kept.to_owned(), format!("{kept}{optional}")]);
            }
        }
    }
    forms
}

/// Returns a policy of the given form, with a bound in place of N, a delay in place of D, a
/// probability in place of Q, and a pick in place of PICK.
pub fn fill(form: &str, bound: u32, delay: &str, probability: &str) -> Policy {
    let part = |part: &str| match part {
        "N" => bound.to_string(),
        "D" => delay.to_owned(),
        "Q" => probability.to_owned(),
        "pN" => "p95".to_owned(),
        word => word.replace("PICK", "two-choices"),
    };
    let text: Vec<String> = form.split(':').map(part).collect();
    Policy::parse(&text.join(":"), None).expect("the only placeholders in a form are N, D and Q")
}

/// Returns whether a policy has this form.
pub fn is_of(policy: &str, form: &str) -> bool {
    let (policy, form): (Vec<_>, Vec<_>) = (policy.split(':').collect(), form.split(':').collect());
    policy.len() == form.len()
        && policy.iter().zip(form).all(|(part, form)| match form {
            "N" | "D" | "Q" => true,
            "pN" => part.starts_with('p'),
            form if form.ends_with("+PICK") => {
                part.split('+').next() == form.split('+').next() && part != &"rescue"
            }
            form => *part == form,
        })
}
