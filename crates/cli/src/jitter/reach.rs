//! Decides whether the requested load was reached over all turns.
//!
//! If queries arrive faster than they are served, they queue, and P includes the wait. A single
//! turn is not enough to decide, because it may end early or include a pause of the leaf.

use curtail_load::{Errors, Invalid, Report};
use serde::Serialize;

use crate::exit::Typed;

/// Up to this number of late queries may be due to chance, because a few queries are still
/// outstanding when a turn ends early.
const CHANCE: u64 = 20;
/// The fraction of queries that may be late.
const SHARE_FINE: f64 = 0.03;

/// Why the load was not reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Missed {
    RateMissed { rate: f64, due: u64, late: u64 },
}

/// Queries that were not executed when due.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Reach {
    /// Queries that were due.
    due: u64,
    /// Queries that got no response in time. Bad responses are excluded, because they do not depend
    /// on the load.
    unanswered: u64,
    /// Queries that waited for a connection.
    waited: u64,
    /// Queries that were never sent.
    dropped: u64,
}

impl Reach {
    /// Adds a turn that was not interrupted.
    pub(super) fn add(&mut self, report: &Report) {
        self.count(report.requests, report.errors, &report.invalid_because);
    }

    fn count(&mut self, due: u64, errors: Errors, reasons: &[Invalid]) {
        self.due += due;
        self.dropped += errors.dropped;
        for reason in reasons {
            match reason {
                Invalid::FellShort { answered, requests, errors, .. } => {
                    let failed = errors.total() - errors.timeout - errors.dropped;
                    self.unanswered += requests.saturating_sub(answered + failed);
                }
                // Otherwise this program was late, which does not affect service times.
                Invalid::FellBehind { late, waited, .. } if 2 * waited >= *late => {
                    self.waited += late;
                }
                _ => {}
            }
        }
    }

    /// If the load was missed, returns the reason why P and J are not valid for this rate.
    pub(super) fn missed(&self, rate: f64) -> Option<Typed<Missed>> {
        let late = self.unanswered.max(self.waited);
        let too_many = late > CHANCE && late as f64 > SHARE_FINE * self.due as f64;
        (too_many || self.dropped > 0).then(|| {
            let (due, late) = (self.due, late.max(self.dropped));
            let text = format!(
                "the load of {rate}/s was not reached: of {due} queries that were due, {late} were \
                 sent or answered too late or not at all, so P and J include queuing; use a lower \
                 --rate, or more --connections"
            );
            Typed::new(Missed::RateMissed { rate, due, late }, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_load::Limit;

    #[test]
    fn a_load_is_missed_if_many_queries_are_late() {
        let fine = Errors::default();
        let short = |requests, answered, errors| {
            let limited_by = None;
            Invalid::FellShort { answered, requests, errors, limited_by }
        };
        let behind = |late, waited| {
            let (requests, limit_ns, connections) = (1_000, 250_000, 64);
            let limited_by = Limit::Machine;
            Invalid::FellBehind { late, requests, limit_ns, waited, connections, limited_by }
        };
        let timeout = Errors { timeout: 90, ..fine };
        let dropped = Errors { dropped: 1, ..fine };
        let bad = Errors { status_5xx: 400, ..fine };
        for (why, is_missed, turns) in [
            ("late", true, &[(1_000, fine, Some(short(1_000, 600, fine)))][..]),
            ("timed out", true, &[(1_000, fine, Some(short(1_000, 910, timeout)))]),
            ("waited", true, &[(1_000, fine, Some(behind(90, 80)))]),
            ("the backlog was full", true, &[(1_000, dropped, None)]),
            ("fine", false, &[(1_000, fine, None)]),
            ("chance in a short turn", false, &[(60, fine, Some(short(60, 40, fine)))]),
            ("bad answers", false, &[(1_000, bad, Some(short(1_000, 600, bad)))]),
            ("this program was late", false, &[(1_000, fine, Some(behind(90, 3)))]),
            (
                "a pause in one of two turns",
                false,
                &[(4_000, fine, Some(short(4_000, 3_800, fine))), (4_000, fine, None)],
            ),
        ] {
            let mut reach = Reach::default();
            turns.iter().for_each(|(due, errors, reason)| {
                reach.count(*due, *errors, reason.as_slice());
            });
            let missed = reach.missed(400.0).map(|missed| missed.text);
            assert_eq!(missed.is_some(), is_missed, "{why}: {missed:?}");
            assert!(missed.is_none_or(|text| text.contains("400/s was not reached: of 1000 ")));
        }
    }
}
