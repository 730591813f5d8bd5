//! Whether the load that was asked for was there, of all turns together.
//!
//! Where queries come faster than they are answered they wait for each other, and P is that of a
//! queue. A turn may end early, and a pause of the leaf may spoil one: neither decides.

use curtail_load::{Errors, Invalid, Report};
use serde::Serialize;

use crate::verdict::Typed;

/// So many queries may be late by chance: a turn that ends early has a few of them under way.
const CHANCE: u64 = 20;
/// The share of the queries that may be late.
const SHARE_FINE: f64 = 0.03;

/// That a load was not reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Missed {
    RateMissed { rate: f64, due: u64, late: u64 },
}

/// Queries that were not executed when they were due.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Reach {
    /// Those that were due.
    due: u64,
    /// Those that had no answer in time. A bad one is no matter of the load.
    unanswered: u64,
    /// Those that waited for a connection.
    waited: u64,
    /// Those that were never sent.
    dropped: u64,
}

impl Reach {
    /// Takes in a turn that nobody interrupted.
    pub(super) fn add(&mut self, report: &Report) {
        self.count(report.requests, report.errors, &report.invalid_because);
    }

    fn count(&mut self, due: u64, errors: Errors, reasons: &[Invalid]) {
        self.due += due;
        self.dropped += errors.dropped;
        for reason in reasons {
            match reason {
                Invalid::FellShort { answered, requests, errors } => {
                    let failed = errors.total() - errors.timeout - errors.dropped;
                    self.unanswered += requests.saturating_sub(answered + failed);
                }
                // Else it is this program that was late, which is no part of a service time.
                Invalid::FellBehind { late, waited, .. } if 2 * waited >= *late => {
                    self.waited += late;
                }
                _ => {}
            }
        }
    }

    /// Why P and J are not those of this rate, if they are not.
    pub(super) fn missed(&self, rate: f64) -> Option<Typed<Missed>> {
        let late = self.unanswered.max(self.waited);
        let too_many = late > CHANCE && late as f64 > SHARE_FINE * self.due as f64;
        (too_many || self.dropped > 0).then(|| {
            let (due, late) = (self.due, late.max(self.dropped));
            let text = format!(
                "the load of {rate}/s was not reached: of {due} queries that were due, {late} were sent or \
                 answered too late or not at all, so P and J are those of a queue; use a lower --rate, or \
                 more --connections"
            );
            Typed::new(Missed::RateMissed { rate, due, late }, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(requests: u64, answered: u64, errors: Errors) -> Invalid {
        Invalid::FellShort { answered, requests, errors }
    }

    fn behind(requests: u64, late: u64, waited: u64) -> Invalid {
        Invalid::FellBehind { late, requests, limit_ns: 250_000, waited, connections: 64 }
    }

    /// What is said of turns of so many queries.
    fn missed(turns: &[(u64, Errors, &[Invalid])]) -> Option<String> {
        let mut reach = Reach::default();
        turns.iter().for_each(|(due, errors, reasons)| reach.count(*due, *errors, reasons));
        reach.missed(400.0).map(|missed| missed.text)
    }

    #[test]
    fn a_load_is_missed_where_many_queries_are_late() {
        let fine = Errors::default();
        let timeout = Errors { timeout: 90, ..fine };
        for reason in [short(1_000, 600, fine), short(1_000, 910, timeout), behind(1_000, 90, 80)] {
            let said = missed(&[(1_000, fine, &[reason])]).expect("that is too many");
            assert!(said.contains("400/s was not reached: of 1000 queries"), "{said}");
        }
        let dropped = Errors { dropped: 1, ..fine };
        assert!(missed(&[(1_000, dropped, &[])]).is_some(), "the backlog was full");
    }

    #[test]
    fn neither_chance_nor_bad_answers_nor_this_program_make_a_load_missed() {
        let fine = Errors::default();
        let bad = Errors { status_5xx: 400, ..fine };
        assert_eq!(missed(&[(1_000, fine, &[])]), None);
        assert_eq!(missed(&[(60, fine, &[short(60, 40, fine)])]), None, "of a short turn");
        assert_eq!(missed(&[(1_000, bad, &[short(1_000, 600, bad)])]), None, "bad answers");
        assert_eq!(missed(&[(1_000, fine, &[behind(1_000, 90, 3)])]), None, "this program");
        let turns = [(4_000, fine, &[short(4_000, 3_800, fine)][..]), (4_000, fine, &[])];
        assert_eq!(missed(&turns), None, "a pause in one of two turns");
    }
}
