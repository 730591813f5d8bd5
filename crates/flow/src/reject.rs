//! Why a request or a sub-task is not served.
//!
//! Source: document 002 §5.2.5, *Admission control and drop policies*: control returns to the code of the service, which
//! may do less in place of nothing.
//!
//! Cost: none.

use curtail_kernel::flow::Drop as Dropped;

/// Why a request or a sub-task was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It could not meet its deadline.
    Late,
    /// As many wait as may.
    Full,
}

impl From<Dropped> for Reason {
    fn from(why: Dropped) -> Self {
        match why {
            Dropped::Late => Self::Late,
            Dropped::Full => Self::Full,
        }
    }
}

/// It was not served, and has cost next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", match .reason {
    Reason::Late => "it cannot meet its deadline",
    Reason::Full => "too many wait; try again later",
})]
pub struct Rejected {
    /// Why.
    pub reason: Reason,
}

impl From<Reason> for Rejected {
    fn from(reason: Reason) -> Self {
        Self { reason }
    }
}
