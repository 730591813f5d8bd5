//! The reasons why a request or a sub-task is not served.
//!
//! Source: document 002 §5.2.5, *Admission control and drop policies*: control returns to the
//! service's code, which can then respond after doing only part of the work.
//!
//! Cost: none.

use curtail_kernel::flow::Drop as Dropped;

/// The reason why a request or a sub-task was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It could not meet its deadline.
    Late,
    /// The queue is full.
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

/// A rejection. The request or sub-task was not served, and rejecting it cost almost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", match .reason {
    Reason::Late => "it cannot meet its deadline",
    Reason::Full => "too many requests are waiting; try again later",
})]
pub struct Rejected {
    /// The reason.
    pub reason: Reason,
}

impl From<Reason> for Rejected {
    fn from(reason: Reason) -> Self {
        Self { reason }
    }
}
