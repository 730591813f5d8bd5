//! Time in the kernel: an integer that the caller passes in with every event.

use core::fmt;

/// An infinite duration, in nanoseconds: a timeout that is switched off.
pub const NEVER_NS: u64 = u64::MAX;

/// A point in time, in nanoseconds since an epoch that the caller chooses.
///
/// The simulator's epoch is the start of the run. The runtime's epoch is the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// A time that is later than every other time.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the time `ns` nanoseconds later. Adding [`NEVER_NS`] results in [`Self::NEVER`].
    #[must_use]
    pub fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Returns the nanoseconds since `earlier`, or 0 if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}
