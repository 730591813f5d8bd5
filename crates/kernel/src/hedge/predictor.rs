//! Predicts which copy of a hedged query would end later, and how much time stopping it would save.
//!
//! Source: the function *end(request)* of document 000, Algorithms 1 and 2, and §5.3. Pre-emptive
//! cancellation with a perfect predictor *is* Idealized Hedge. With the age of the copies as the
//! predictor, it is LÆDGE.

use crate::cell::CopyView;
use crate::time::Timestamp;

/// The copy of a pair that is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The copy that started first.
    Older,
    /// The copy that started last.
    Newer,
    /// Either copy: they look the same, so one is chosen at random.
    Either,
}

/// A predictor's judgment of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgment {
    /// The copy to stop if one must be stopped.
    pub victim: Victim,
    /// How much longer the victim would run, in ns. The pair with the largest value is broken
    /// first.
    pub saves_ns: u64,
}

/// Judges hedged queries. Called when a pair forms and when a forecast about it arrives.
pub trait Predictor {
    /// Judges a pair of copies.
    fn judge(&self, older: &CopyView, newer: &CopyView) -> Judgment;
}

/// Predicts that the copy that started last will end last (document 001 §4, "LÆDGE with CC+PC").
///
/// Choice: if there are several pairs, the pair whose older copy has the longest lead is broken.
#[derive(Clone, Debug, Default)]
pub struct MostRecent;

impl Predictor for MostRecent {
    fn judge(&self, older: &CopyView, newer: &CopyView) -> Judgment {
        let saves_ns = newer.started.since(older.started);
        let victim = if saves_ns == 0 { Victim::Either } else { Victim::Newer };
        Judgment { victim, saves_ns }
    }
}

/// Predicts perfectly, from [`crate::Event::Forecast`] (document 000, Algorithm 1). For the
/// simulator. A pair without forecasts is judged as [`MostRecent`] would judge it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Oracle;

impl Predictor for Oracle {
    fn judge(&self, older: &CopyView, newer: &CopyView) -> Judgment {
        if older.ends == Timestamp::NEVER || newer.ends == Timestamp::NEVER {
            return MostRecent.judge(older, newer);
        }
        if older.ends > newer.ends {
            Judgment { victim: Victim::Older, saves_ns: older.ends.since(newer.ends) }
        } else {
            Judgment { victim: Victim::Newer, saves_ns: newer.ends.since(older.ends) }
        }
    }
}
