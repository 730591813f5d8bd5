//! Time as the kernel sees it: an integer passed in with every event.

use core::fmt;

/// A span without an end, in nanoseconds: a timeout that is switched off.
pub const NEVER_NS: u64 = u64::MAX;

/// A point in time: nanoseconds since an epoch of the caller's choice.
///
/// The simulator's epoch is the start of the run, the runtime's the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Later than every other time.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time `ns` nanoseconds later; [`NEVER_NS`] later is [`Self::NEVER`].
    #[must_use]
    pub fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to here, zero where `earlier` is later.
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
