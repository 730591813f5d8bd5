//! The defaults of a service, which depend on its policy, and the settings that do not fit together.
//! The proxy's configuration and the library's builder both use these, and describe a [`Misfit`] in
//! words of their own.

use alloc::vec::Vec;

use super::Policy;
use crate::config::{Gate, Limits};
use crate::hedge::RESCUE;

/// What a person has set for a service. `None` stands for the default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settings {
    /// Number of queries that a server serves at the same time.
    pub slots: Option<u32>,
    /// Whether servers can stop a copy.
    pub cancel: bool,
    /// Whether some query may be sent again, to another server.
    pub may_retry: bool,
    /// Time from the arrival of a query to its deadline, in ns.
    pub timeout_ns: Option<u64>,
    /// Time without a response after which a copy counts as failed, in ns.
    pub attempt_timeout_ns: Option<u64>,
    /// Duration of silence after which a cancelled copy counts as lost, in ns.
    pub cancel_timeout_ns: Option<u64>,
    /// Retries per query, from 0 to 1.
    pub retry_budget: Option<f64>,
    /// Duplicates per query, from 0 to 1.
    pub hedge_budget: Option<f64>,
    /// Lost rescues per query, from 0 to 1.
    pub rescue_budget: Option<f64>,
    /// Whether servers serve duplicates after all other copies.
    pub has_stage: bool,
    /// Whether servers respond to load probes.
    pub has_probe: bool,
    /// Whether a policy without a budget for its duplicates is accepted.
    pub allows_unbudgeted: bool,
}

impl Settings {
    /// The default time from the arrival of a query to its deadline, in ns.
    pub const TIMEOUT_NS: u64 = 2_000_000_000;

    /// The default duration of silence after which a cancelled copy counts as lost, in ns. It is
    /// longer if servers cannot stop a copy and the attempt timeout is longer.
    pub const CANCEL_TIMEOUT_NS: u64 = 10_000_000_000;
}

/// Settings that do not fit the policy or each other.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Misfit {
    /// The policy cannot run on real servers, for this reason, which follows its name.
    SimulatorOnly(&'static str),
    /// The policy stops copies, and servers cannot. Another policy that would do.
    NeedsCancellation(&'static str),
    /// The policy sends every query twice, and servers do not serve duplicates last.
    NeedsStage,
    /// The policy queues duplicates at servers, where they would fill this gate.
    PrioritiesBehind(Gate),
    /// The policy sends two or more copies of every query, without a budget.
    Unbudgeted,
    /// The policy keeps queries until a server has a free slot, and the number of slots is unknown.
    NeedsSlots,
    /// The policy's bound is below the number of slots.
    BoundBelowSlots {
        /// The bound.
        bound: u32,
        /// The number of slots.
        slots: u32,
    },
    /// The policy sends load probes, and servers do not respond to them.
    NeedsProbe,
    /// The policy does not use the number of slots.
    SlotsUnused,
    /// The policy does not use the rescue budget.
    RescueBudgetUnused,
    /// Without a rescue budget, the policy learns and rescues nothing.
    NoRescueBudget,
    /// Without a hedge budget, the policy sends no second copies.
    NoHedgeBudget,
    /// Rescues spend from both budgets, and the hedge budget is smaller.
    HedgeBelowRescue {
        /// The hedge budget.
        hedge: f64,
        /// The rescue budget.
        rescue: f64,
    },
    /// The attempt timeout is not below the timeout, so a copy that hangs is never retried.
    AttemptNotBelowTimeout,
    /// Servers cannot stop a copy, and the cancel timeout is below the attempt timeout.
    CancelBelowAttempt,
    /// The policy's delay is not below the attempt timeout, so the policy never hedges.
    DelayNotBelowAttempt,
}

impl Misfit {
    /// Whether the service cannot run, or would do harm. Otherwise, a setting has no effect or not
    /// the expected one.
    #[must_use]
    pub fn is_error(self) -> bool {
        match self {
            Self::SimulatorOnly(_)
            | Self::NeedsCancellation(_)
            | Self::NeedsStage
            | Self::PrioritiesBehind(_)
            | Self::Unbudgeted
            | Self::NeedsSlots
            | Self::BoundBelowSlots { .. }
            | Self::NeedsProbe => true,
            Self::SlotsUnused
            | Self::RescueBudgetUnused
            | Self::NoRescueBudget
            | Self::NoHedgeBudget
            | Self::HedgeBelowRescue { .. }
            | Self::AttemptNotBelowTimeout
            | Self::CancelBelowAttempt
            | Self::DelayNotBelowAttempt => false,
        }
    }
}

impl Policy {
    /// Returns the default policy, which needs no tuning.
    #[must_use]
    pub const fn usual(slots: Option<u32>) -> Self {
        match slots {
            Some(_) => Self::RESCUE,
            None => Self::RESCUE_WITHOUT_SLOTS,
        }
    }

    /// Whether its duplicates only fill slots that would otherwise be idle, at any load. The gate
    /// then limits them.
    #[must_use]
    pub fn fills_idle_slots(&self) -> bool {
        self.hedge.is_some_and(|hedge| (hedge.of.builds.fills_idle_slots)(&hedge.arguments))
    }

    /// Returns the limits of a service with these settings. All of its times are finite.
    #[must_use]
    pub fn limits(&self, settings: &Settings) -> Limits {
        let default = Limits::default();
        let timeout_ns = settings.timeout_ns.unwrap_or(Settings::TIMEOUT_NS);
        let retry_budget = settings.retry_budget.unwrap_or(default.retry_budget);
        let usual = if self.fills_idle_slots() { 1.0 } else { default.hedge_budget };
        let hedge_budget = settings.hedge_budget.unwrap_or(usual);
        // Half of the time is left for a retry. If there is none, an earlier timeout only causes
        // errors.
        let has_retry = settings.may_retry && retry_budget > 0.0;
        let usual = if has_retry { timeout_ns - timeout_ns / 2 } else { timeout_ns };
        let attempt_timeout_ns = settings.attempt_timeout_ns.unwrap_or(usual);
        let least = if settings.cancel { 0 } else { attempt_timeout_ns };
        let usual = Settings::CANCEL_TIMEOUT_NS.max(least);
        Limits {
            timeout_ns,
            attempt_timeout_ns,
            cancel_timeout_ns: settings.cancel_timeout_ns.unwrap_or(usual),
            cancel: settings.cancel,
            retry_budget,
            // If a budget is zero, there are no tokens at the start either.
            retry_reserve: if retry_budget > 0.0 { default.retry_reserve } else { 0 },
            hedge_budget,
            hedge_burst: if hedge_budget > 0.0 { default.hedge_burst } else { 0 },
            rescue_budget: settings.rescue_budget.unwrap_or(default.rescue_budget),
            ..default
        }
    }

    /// Returns the settings that do not fit. Defaults always fit, unless the policy needs something
    /// that has no default.
    #[must_use]
    pub fn misfits(&self, settings: &Settings) -> Vec<Misfit> {
        let mut found = Vec::new();
        let mut check = |wrong: bool, misfit: Misfit| found.extend(wrong.then_some(misfit));
        if let Some(why) = self.simulator_only() {
            check(true, Misfit::SimulatorOnly(why));
        }
        let (needs, pulls) = (self.needs(), self.pulls());
        let instead = self.hedge.map_or("", |hedge| hedge.of.builds.without_cancellation);
        check(needs.cancellation && !settings.cancel, Misfit::NeedsCancellation(instead));
        check(needs.priority && !settings.has_stage, Misfit::NeedsStage);
        check(needs.priority && pulls, Misfit::PrioritiesBehind(self.gate));
        let unbudgeted = !self.is_budgeted() && !needs.priority;
        check(unbudgeted && !settings.allows_unbudgeted, Misfit::Unbudgeted);
        check(pulls && settings.slots.is_none(), Misfit::NeedsSlots);
        check(!pulls && settings.slots.is_some(), Misfit::SlotsUnused);
        let slots = settings.slots.unwrap_or(1);
        if let Some(bound) = self.bound() {
            check(bound < slots, Misfit::BoundBelowSlots { bound, slots });
        }
        check(needs.probes && !settings.has_probe, Misfit::NeedsProbe);
        self.budgets(settings, &mut check);
        self.timeouts(settings, &mut check);
        found
    }

    fn budgets(&self, settings: &Settings, check: &mut impl FnMut(bool, Misfit)) {
        let limits = self.limits(settings);
        let (hedge, rescue) = (limits.hedge_budget, limits.rescue_budget);
        let rescues = self.has(&RESCUE);
        let (sets_hedge, sets_rescue) =
            (settings.hedge_budget.is_some(), settings.rescue_budget.is_some());
        check(sets_rescue && !rescues, Misfit::RescueBudgetUnused);
        check(sets_rescue && rescues && rescue == 0.0, Misfit::NoRescueBudget);
        let has_none = self.hedges() && self.is_budgeted() && hedge == 0.0;
        check(sets_hedge && has_none, Misfit::NoHedgeBudget);
        let is_less = rescues && hedge < rescue && !(sets_hedge && has_none);
        check((sets_hedge || sets_rescue) && is_less, Misfit::HedgeBelowRescue { hedge, rescue });
    }

    fn timeouts(&self, settings: &Settings, check: &mut impl FnMut(bool, Misfit)) {
        let Limits { timeout_ns, attempt_timeout_ns, cancel_timeout_ns, cancel, .. } =
            self.limits(settings);
        let sets_attempt = settings.attempt_timeout_ns.is_some();
        check(sets_attempt && timeout_ns <= attempt_timeout_ns, Misfit::AttemptNotBelowTimeout);
        // A server that stops when it is cancelled is never silent for long.
        let is_short = !cancel && cancel_timeout_ns < attempt_timeout_ns;
        check(settings.cancel_timeout_ns.is_some() && is_short, Misfit::CancelBelowAttempt);
        let is_late = self.delay_ns().is_some_and(|delay_ns| delay_ns >= attempt_timeout_ns);
        check(is_late, Misfit::DelayNotBelowAttempt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::NEVER_NS;

    /// Whatever a policy needs.
    fn given(policy: &Policy) -> Settings {
        let needs = policy.needs();
        let unbudgeted = !policy.is_budgeted() && !needs.priority;
        Settings {
            slots: needs.slots.then_some(2),
            cancel: needs.cancellation,
            may_retry: true,
            has_stage: needs.priority,
            has_probe: needs.probes,
            allows_unbudgeted: unbudgeted,
            ..Settings::default()
        }
    }

    #[test]
    fn the_defaults_of_every_policy_are_finite_and_fit() {
        for form in Policy::live_forms() {
            let name = form.replace("[:cc]", "").replace("PICK", "two-choices");
            let name = name.replace('N', "2").replace('D', "5ms").replace('Q', "0.125");
            let policy = Policy::parse(&name, None).expect(&name);
            let settings = given(&policy);
            assert_eq!(policy.misfits(&settings), [], "{name}");
            let limits = policy.limits(&settings);
            for ns in [limits.timeout_ns, limits.attempt_timeout_ns, limits.cancel_timeout_ns] {
                assert!((1..NEVER_NS).contains(&ns), "{name}: {ns}");
            }
            limits.check().expect(&name);
            // What is needed has no default.
            let nothing = policy.misfits(&Settings::default());
            let needs_anything = settings != Settings { may_retry: true, ..Settings::default() };
            assert_eq!(nothing.iter().any(|misfit| misfit.is_error()), needs_anything, "{name}");
        }
    }

    #[test]
    fn duplicates_that_only_fill_idle_slots_have_no_budget_by_default() {
        for (name, budget) in [
            ("laedge", 1.0),
            ("laedge:cc+pc", 1.0),
            ("rescue:preempt", 1.0),
            ("rescue", 0.2),
            ("delayed:5ms", 0.2),
            ("delayed:p95", 0.2),
        ] {
            let policy = Policy::parse(name, None).expect(name);
            assert_eq!(policy.limits(&Settings::default()).hedge_budget, budget, "{name}");
        }
    }
}
