//! Reports the settings of a service that do not fit its policy or each other
//! ([`curtail_kernel::Misfit`]), in terms of the keys of the configuration.

use std::ops::Range;
use std::time::Duration;

use curtail_config::{Given, Report};
use curtail_kernel::{Limits, Misfit, Policy, Settings};

use super::model::FlowRole;
use super::raw;

/// Reports what does not fit. `at` is the span of the service's table.
pub(super) fn report(
    raw: &raw::Service,
    at: &Range<usize>,
    policy: Policy,
    settings: &Settings,
    report: &mut Report<'_>,
) {
    let spot = Spot { raw, at, policy, limits: policy.limits(settings) };
    for misfit in policy.misfits(settings) {
        match misfit {
            Misfit::NeedsSlots | Misfit::NeedsProbe => spot.missing(misfit, report),
            misfit if misfit.is_error() => spot.error(misfit, report),
            misfit => spot.warn(misfit, report),
        }
    }
}

/// A service whose settings do not fit.
struct Spot<'r> {
    raw: &'r raw::Service,
    at: &'r Range<usize>,
    policy: Policy,
    limits: Limits,
}

impl Spot<'_> {
    fn missing(&self, misfit: Misfit, report: &mut Report<'_>) {
        if misfit == Misfit::NeedsProbe {
            let wrong = "the policy prequal sends probes and needs a path for them";
            let fix = "add probe = \"/load\", a path whose response reports \
                       named_metrics.in_flight and named_metrics.latency_ms in the header \
                       endpoint-load-metrics";
            return report.missing(self.at, wrong, fix);
        }
        let wrong = "policy keeps queries in the proxy until a replica has a free slot, so it needs the number of slots";
        let add = "add slots = N, the number of queries that a replica serves at once";
        let without = match self.policy.rescues() {
            None if !self.policy.hedges() => ", or use \"least-outstanding\", which needs none",
            Some(_) => ", or use \"rescue+least-outstanding\", which needs none",
            None => "",
        };
        let at = self.raw.policy.as_ref().map_or(self.at.clone(), Given::span);
        report.missing(&at, wrong, &format!("{add}{without}"));
    }

    /// Reports an error about the policy.
    fn error(&self, misfit: Misfit, report: &mut Report<'_>) {
        let (wrong, fix) = match misfit {
            Misfit::NeedsCancellation(instead) => (
                "policy cancels copies, but with cancel = \"none\" the replicas continue to work on \
                 them"
                .to_owned(),
                format!(
                    "set cancel = \"reset\" if the replicas stop when a connection is reset, or \
                     use {instead}"
                ),
            ),
            Misfit::NeedsStage => (
                "policy sends every query twice, which is safe only if the replicas serve requests \
                 with \"priority: u=7\" last"
                    .to_owned(),
                "run a stage in front of them and set stage = true, or use rescue".to_owned(),
            ),
            Misfit::PrioritiesBehind(gate) => (
                "policy queues duplicates at the replicas, where they would fill a gate of slots \
                 or a bound"
                    .to_owned(),
                format!("remove {gate}"),
            ),
            Misfit::Unbudgeted => (
                "policy sends two or more copies of every query, without a budget".to_owned(),
                "use delayed:D or rescue, or add unsafe_baseline = true to measure it".to_owned(),
            ),
            Misfit::BoundBelowSlots { bound, slots } => (
                format!("policy has a bound of {bound}, below the replicas' {slots} slots"),
                format!("use a bound of at least {slots}, or fewer slots"),
            ),
            _ => return,
        };
        let at = self.raw.policy.as_ref().map_or(self.at.clone(), Given::span);
        report.error(&at, &wrong, &fix);
    }

    /// Reports a setting without the expected effect.
    fn warn(&self, misfit: Misfit, report: &mut Report<'_>) {
        let Self { raw, policy, limits, .. } = self;
        let [whole, attempt, silent] =
            [limits.timeout_ns, limits.attempt_timeout_ns, limits.cancel_timeout_ns]
                .map(Duration::from_nanos);
        // A sidecar uses the slots for admission, regardless of the policy.
        let is_ingress = raw.flow.as_ref().is_some_and(|given| *given.get() == FlowRole::Ingress);
        let (hedge_at, rescue_at) =
            (raw.hedge_budget.as_ref().map(Given::span), raw.rescue_budget.span());
        let (at, wrong, fix) = match misfit {
            Misfit::SlotsUnused if is_ingress => return,
            Misfit::SlotsUnused => (
                raw.slots.as_ref().map(Given::span),
                format!(
                    "slots is for policies that keep queries in the proxy, and {policy} ignores it"
                ),
                "remove it, or use rescue",
            ),
            Misfit::RescueBudgetUnused => (
                rescue_at,
                format!("rescue_budget is for the policy rescue, and {policy} ignores it"),
                "remove it, or use rescue",
            ),
            Misfit::NoRescueBudget => (
                rescue_at,
                "without a rescue_budget the policy explores nothing, so it learns and rescues \
                 nothing"
                    .to_owned(),
                "set it above 0, or use psq",
            ),
            Misfit::NoHedgeBudget => (
                hedge_at,
                "without a hedge_budget no second copies are sent".to_owned(),
                "set it above 0, or use a policy without second copies, like least-outstanding",
            ),
            Misfit::HedgeBelowRescue { hedge, rescue } => (
                hedge_at.or(rescue_at),
                format!(
                    "hedge_budget ({hedge}) is below rescue_budget ({rescue}), and rescues spend \
                     from both"
                ),
                "set hedge_budget to at least rescue_budget",
            ),
            Misfit::AttemptNotBelowTimeout => (
                raw.attempt_timeout.as_ref().map(Given::span),
                format!(
                    "the request's timeout ({whole:?}) is not longer than attempt_timeout \
                     ({attempt:?}), so a copy that hangs is never retried"
                ),
                "set timeout to at least twice attempt_timeout",
            ),
            Misfit::CancelBelowAttempt => (
                raw.cancel_timeout.span(),
                format!(
                    "cancel_timeout ({silent:?}) is shorter than attempt_timeout ({attempt:?}), so \
                     a replica that still works on a slow request gets another one"
                ),
                "set cancel_timeout to at least attempt_timeout",
            ),
            Misfit::DelayNotBelowAttempt => (
                raw.policy.as_ref().map(Given::span),
                format!(
                    "the delay is not below attempt_timeout ({attempt:?}), so the policy never \
                     hedges"
                ),
                "use a shorter delay",
            ),
            _ => return,
        };
        if let Some(at) = at {
            report.warn(&at, &wrong, fix);
        }
    }
}
