//! Probabilistic hedge (p-Hedge, SingleR): delayed hedge with a coin. A query whose first copy has
//! not answered after a fixed delay gets a second one with a fixed probability.
//!
//! Source: document 000 §2.5.2 and §4.6, 001 §2.3 (Kaler et al.). Losers run to their end. Cost:
//! O(log n) for the timer.
//!
//! Settled: the coin comes from the cell's generator and is tossed when the delay is over, so queries
//! that were answered before take nothing from the generator; the second copy restarts the whole
//! query; the delay counts from the start of the first copy, as with [`super::Delayed`]. The delay
//! and the probability are trained outside, over samples of response times. Deviation: where no
//! server has room at that time, there is no second copy.

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

/// A second copy after a fixed delay, with a fixed probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probabilistic {
    /// In nanoseconds.
    pub delay_ns: u64,
    /// From 0 to 1.
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

/// True with this probability: never at 0, always at 1.
fn toss(rng: &mut Rng, probability: f64) -> bool {
    // As many bits as a float holds, from 0 up to but without 1.
    let drawn = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    drawn < probability
}

impl Named for Probabilistic {
    type Hedge = Self;
    const FORMS: &'static [&'static str] = &["probabilistic:D:Q"];

    fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
        // The delay `auto` is one that the simulator trains.
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
