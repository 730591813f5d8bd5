//! Probabilistic hedge (p-Hedge, SingleR): a query whose first copy has not responded after a fixed
//! delay gets a second one with a fixed probability.
//!
//! Source: document 000 §2.5.2 and §4.6, 001 §2.3 (Kaler et al.). Losers run to completion. Cost:
//! O(log n) for the timer.
//!
//! Choices:
//! - A random number is drawn when the delay ends, so queries that end earlier do not use the
//!   cell's generator.
//! - The second copy executes the whole query from the beginning.
//! - The delay is measured from the start of the first copy, as with [`super::Delayed`].
//! - The delay and the probability are trained elsewhere, on samples of response times.
//!
//! Deviation: if no server has room when the delay ends, there is no second copy.

use core::fmt;

use super::{Hedge, duplicate, set_timer_after};
use crate::Rng;
use crate::action::StartReason;
use crate::balance::Pick;
use crate::cell::Core;
use crate::config::{Limits, Topology};
use crate::duration;
use crate::id::QueryId;
use crate::policy::{Args, Named, PolicyError};
use rand_core::Rng as _;

/// A hedge that starts a second copy after a fixed delay, with a fixed probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probabilistic {
    /// The delay, in ns.
    pub delay_ns: u64,
    /// The probability, from 0 to 1.
    pub probability: f64,
}

impl Hedge for Probabilistic {
    fn primary_started<P: Pick>(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        set_timer_after(core, query, self.delay_ns);
    }

    fn timer<P: Pick>(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        if toss(&mut core.rng, self.probability) {
            duplicate(core, pick, query, StartReason::Delay);
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

impl Named for Probabilistic {
    type Hedge = Self;
    const FORMS: &'static [&'static str] = &["probabilistic:D:Q"];

    fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
        // The simulator trains the delay `auto`.
        let [delay, probability] = *args.list() else { return Err(args.unknown()) };
        if delay == "auto" {
            return Err(args.unknown());
        }
        Ok(Self { delay_ns: args.delay(delay)?, probability: args.fraction(probability)? })
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "probabilistic:{}:{}", duration::format(self.delay_ns), self.probability)
    }

    fn hedge(&self, _: &Topology, _: &Limits) -> Self {
        *self
    }

    fn delay_ns(&self) -> Option<u64> {
        Some(self.delay_ns)
    }
}
