//! Which server takes a copy.

mod least_outstanding;
mod peak_ewma;
mod random;
mod round_robin;
mod two_choices;

pub use least_outstanding::LeastOutstanding;
pub use peak_ewma::PeakEwma;
pub use random::Random;
pub use round_robin::RoundRobin;
pub use two_choices::TwoChoices;

use crate::Rng;
use crate::event::Outcome;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};
use crate::time::Timestamp;

/// Picks a server of a group for a copy.
pub trait Pick {
    /// Is it to hear of the starts and ends of copies? Where not, a cell spends nothing on telling it.
    const OBSERVES: bool = false;

    /// A server that is available and not to be avoided, or none. A picker must find one where
    /// there is one: the cell counts on it for work conservation.
    fn pick(
        &mut self,
        group: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId>;

    /// A server was sent a copy, by this pick or by a hedge.
    fn started(&mut self, _server: ServerId, _now: Timestamp) {}

    /// A copy has freed its slot, so long after it was sent; none: it was stopped or lost, and says
    /// nothing but that it took at least so long.
    fn ended(
        &mut self,
        _server: ServerId,
        _now: Timestamp,
        _took_ns: u64,
        _outcome: Option<Outcome>,
    ) {
    }
}
