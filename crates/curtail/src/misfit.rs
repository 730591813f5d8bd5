//! Describes settings that do not fit the policy or each other, in terms of the builder.

use std::time::Duration;

use curtail_kernel::{Limits, Misfit, Policy};

/// Describes what does not fit, and how to change that.
pub(crate) fn describe(misfit: Misfit, policy: &Policy, limits: &Limits) -> String {
    if misfit.is_error() { error(misfit, policy) } else { warning(misfit, policy, limits) }
}

/// The service cannot run, or would do harm.
fn error(misfit: Misfit, policy: &Policy) -> String {
    match misfit {
        Misfit::SimulatorOnly(why) => format!("policy {policy} {why}; use another policy"),
        Misfit::NeedsCancellation(instead) => format!(
            "policy {policy} stops copies, but servers continue to work on them; call \
             .cancellation(Cancel::OnDrop) if they stop when the future of a request is dropped, or \
             use {instead}"
        ),
        Misfit::NeedsStage => format!(
            "policy {policy} sends every query twice, which is safe only if servers run a stage that \
             serves duplicates last; call .staged() if they do, or use rescue"
        ),
        Misfit::PrioritiesBehind(gate) => format!(
            "policy {policy} queues duplicates at the servers, where they would fill the slots; \
             remove {gate}"
        ),
        Misfit::Unbudgeted => format!(
            "policy {policy} sends two or more copies of every query, without a budget; use \
             delayed:D or rescue"
        ),
        Misfit::NeedsSlots => format!(
            "policy {policy} keeps queries in a queue until a server is free; call .slots(n) with the \
             number of queries that a server serves at once, or use a policy like \
             rescue+least-outstanding"
        ),
        Misfit::BoundBelowSlots { bound, slots } => format!(
            "policy {policy} has a bound of {bound}, below the {slots} slots of a server; use a bound \
             of at least {slots}"
        ),
        Misfit::NeedsProbe => format!(
            "policy {policy} asks servers for their load; call .probe(|service| ...) with a function \
             that does so"
        ),
        other => format!("policy {policy} does not fit the settings: {other:?}"),
    }
}

/// A setting has no effect, or not the expected one.
fn warning(misfit: Misfit, policy: &Policy, limits: &Limits) -> String {
    let Limits { timeout_ns, attempt_timeout_ns, cancel_timeout_ns, .. } = *limits;
    let [timeout, attempt, cancel] =
        [timeout_ns, attempt_timeout_ns, cancel_timeout_ns].map(Duration::from_nanos);
    match misfit {
        Misfit::SlotsUnused => {
            format!(
                "policy {policy} does not use the number of slots; remove .slots(n), or use rescue"
            )
        }
        Misfit::RescueBudgetUnused => {
            format!("policy {policy} does not use .rescue_budget(); remove it, or use rescue")
        }
        Misfit::NoRescueBudget => format!(
            "without a rescue budget, policy {policy} explores nothing, so it learns and rescues \
             nothing; set .rescue_budget() above 0, or use psq"
        ),
        Misfit::NoHedgeBudget => format!(
            "without a hedge budget, policy {policy} sends no second copies; set .hedge_budget() \
             above 0, or use a policy like least-outstanding"
        ),
        Misfit::HedgeBelowRescue { hedge, rescue } => format!(
            "the hedge budget ({hedge}) is below the rescue budget ({rescue}), and rescues spend from \
             both; set .hedge_budget() to at least {rescue}"
        ),
        Misfit::AttemptNotBelowTimeout => format!(
            "the timeout ({timeout:?}) is not longer than the attempt timeout ({attempt:?}), so a copy \
             that hangs is never retried; set .timeout() to at least twice that"
        ),
        Misfit::CancelBelowAttempt => format!(
            "the cancel timeout ({cancel:?}) is shorter than the attempt timeout ({attempt:?}), so a \
             server that still works on a slow request gets another one; set .cancel_timeout() to at \
             least {attempt:?}"
        ),
        Misfit::DelayNotBelowAttempt => format!(
            "the delay of policy {policy} is not below the attempt timeout ({attempt:?}), so it never \
             hedges; use a shorter delay"
        ),
        other => format!("policy {policy} does not fit the settings: {other:?}"),
    }
}
