//! Which server takes a copy.

mod least_outstanding;
mod random;
mod round_robin;
mod two_choices;

pub use least_outstanding::LeastOutstanding;
pub use random::Random;
pub use round_robin::RoundRobin;
pub use two_choices::TwoChoices;

use crate::Rng;
use crate::id::{GroupId, ServerId};
use crate::levels::{Avoid, Levels};

/// Picks a server of a group for a copy.
pub trait Pick {
    /// A server that is available and not to be avoided, or none. A picker must find one where
    /// there is one: the cell counts on it for work conservation.
    fn pick(
        &mut self,
        group: GroupId,
        levels: Levels<'_>,
        avoid: Avoid,
        rng: &mut Rng,
    ) -> Option<ServerId>;
}
