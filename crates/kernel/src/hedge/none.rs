//! Plain load balancing without second copies.

use super::Hedge;

/// No second copies.
#[derive(Clone, Debug, Default)]
pub struct NoHedge;

impl Hedge for NoHedge {
    const HEDGES: bool = false;
    const SETS_TIMERS: bool = false;
}
