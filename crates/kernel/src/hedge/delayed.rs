//! Hedges that act if the first copy has not responded after a delay.
//!
//! Choices of all of them: the second copy executes the whole query from the beginning. The delay is
//! measured from the start of the first copy. In the sources, the first copy starts when the query
//! arrives. Deviation: if no server has room when the delay ends, there is no second copy. In the
//! sources, queues are infinite. Cost: O(log n) for the timer.

use alloc::boxed::Box;

use super::learned_delay::{AfterLearnedDelay, DelayLearner};
use super::learning::AnyLearner;
use super::rule::{Hedge, NewHedge, set_timer_after};
use crate::Rng;
use crate::action::{StartReason, StopReason};
use crate::balance::Pick;
use crate::cell::Core;
use crate::descriptor::{Arguments, Conduct, Descriptor, Needs};
use crate::id::QueryId;
use rand_core::Rng as _;

const TIMED: Needs = Needs { timers: true, budget: true, ..Needs::NOTHING };

/// `delayed:D` (d-Hedge): starts a second copy after a fixed delay, or after one that is learned
/// from traffic (`learned_delay.rs`).
///
/// Source: document 000 §2.5.2 and §4.6, 001 §2.3 (Dean and Barroso). With cleanup cancellation,
/// the loser is stopped. Choice: there are variants with and without cancellation. The best curves
/// of the thesis match the variant without cancellation.
pub static DELAYED: Descriptor<NewHedge> = Descriptor {
    name: "delayed",
    forms: &["delayed:D[:cc]", "delayed:pN[:cc]"],
    about: "a second copy after a delay, or after a percentile of recent response times",
    needs: |of| Needs { cancellation: cleans_up(of), ..TIMED },
    builds: NewHedge {
        learner: |of, _, _| Some(AnyLearner::new(DelayLearner::new(of.percentile?))),
        ..NewHedge::push(|of, _| match of.delay_ns {
            Some(delay_ns) => Box::new(Delayed { delay_ns, cleans_up: cleans_up(of) }),
            None => Box::new(AfterLearnedDelay::new(cleans_up(of))),
        })
    },
};

fn cleans_up(of: &Arguments) -> bool {
    of.form % 2 == 1
}

/// `probabilistic:D:Q` (p-Hedge, SingleR): after a fixed delay, starts a second copy with a fixed
/// probability.
///
/// Source: document 000 §2.5.2 and §4.6, 001 §2.3 (Kaler et al.). Losers run to completion.
///
/// Choices:
/// - A random number is drawn when the delay ends, so queries that end earlier do not use the
///   cell's generator.
/// - The delay and the probability are trained elsewhere, on samples of response times.
pub static PROBABILISTIC: Descriptor<NewHedge> = Descriptor {
    name: "probabilistic",
    forms: &["probabilistic:D:Q"],
    about: "a second copy after a delay, with a probability",
    needs: |_| TIMED,
    builds: NewHedge::push(|of, _| {
        Box::new(Probabilistic {
            delay_ns: of.delay_ns.unwrap_or_default(),
            probability: of.fraction.unwrap_or_default(),
        })
    }),
};

/// `app-timeout:D` (AppTO): restarts a query on another server after a fixed delay.
///
/// Source: document 003 §5.2 "Schemes" (Dean and Barroso): "the client purges the first request and
/// issues its duplicate request to another replica (request restart)".
///
/// Choices:
/// - The first copy is cancelled and the second one starts in the same step, without waiting until
///   the first has stopped. So the query may run on two servers for a while, and only queries that
///   may be duplicated are restarted. If there is no second copy, the first continues.
/// - The first copy may still win until it has stopped, because its response is just as good. The
///   loser is stopped (cleanup), whichever copy it is.
/// - A query has one timeout: the second copy runs for as long as it takes. A query that is retried
///   after a failure has no timeout.
pub static APP_TIMEOUT: Descriptor<NewHedge> = Descriptor {
    name: "app-timeout",
    forms: &["app-timeout:D"],
    about: "another copy in place of one that has not responded after a delay",
    needs: |_| Needs { cancellation: true, ..TIMED },
    builds: NewHedge {
        without_cancellation: "delayed:D",
        ..NewHedge::push(|of, _| Box::new(AppTimeout { delay_ns: of.delay_ns.unwrap_or_default() }))
    },
};

#[derive(Debug)]
struct Delayed {
    delay_ns: u64,
    cleans_up: bool,
}

impl<P: Pick + ?Sized> Hedge<P> for Delayed {
    fn conduct(&self) -> Conduct {
        Conduct { cleans_up: self.cleans_up, ..Conduct::default() }
    }

    fn primary_started(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        set_timer_after(core, query, self.delay_ns);
    }

    fn timer(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        core.duplicate(pick, query, StartReason::Delay);
    }
}

#[derive(Debug)]
struct Probabilistic {
    delay_ns: u64,
    probability: f64,
}

impl<P: Pick + ?Sized> Hedge<P> for Probabilistic {
    fn primary_started(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        set_timer_after(core, query, self.delay_ns);
    }

    fn timer(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        if toss(core.rng(), self.probability) {
            core.duplicate(pick, query, StartReason::Delay);
        }
    }
}

/// Returns true with the given probability: never at 0, always at 1.
fn toss(rng: &mut Rng, probability: f64) -> bool {
    // A random number from 0 up to, but excluding, 1. It has 53 random bits, which is the precision
    // of a float.
    let drawn = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    drawn < probability
}

#[derive(Debug)]
struct AppTimeout {
    delay_ns: u64,
}

impl<P: Pick + ?Sized> Hedge<P> for AppTimeout {
    fn conduct(&self) -> Conduct {
        Conduct { cleans_up: true, ..Conduct::default() }
    }

    fn primary_started(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        set_timer_after(core, query, self.delay_ns);
    }

    fn timer(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        let Some(first) = core.copies_of(query).next() else { return };
        if core.duplicate(pick, query, StartReason::Delay).is_some() {
            core.stop(first.id, StopReason::Purge);
            core.forbid_duplicates(query);
        }
    }
}
