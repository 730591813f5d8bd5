//! What is compared: the policies of the kernel, and the bound O1.

use std::fmt;

use curtail_kernel::Policy;

use crate::error::Error;

/// A policy, or a bound on all policies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Candidate {
    /// A policy of the kernel.
    Policy(Policy),
    /// `o1`: per-shard queuing in a world whose hiccups cost nothing (S = P). No policy whose
    /// servers work first come, first served can be better at any percentile.
    ///
    /// Idealized Hedge is not such a bound, as the sources believe: it serves every waiting query
    /// before any second copy, though a second copy may be what a slow request waits for.
    O1,
}

impl Candidate {
    /// Parses a policy as everywhere, or `o1`. Delays without a unit are multiples of `unit_ns`.
    ///
    /// # Errors
    /// Says which policies there are.
    pub fn parse(text: &str, unit_ns: u64) -> Result<Self, Error> {
        if text == "o1" {
            return Ok(Self::O1);
        }
        Policy::parse(text, Some(unit_ns)).map(Self::Policy).map_err(|error| {
            let text = error.to_string();
            Error::Policy(text.replace("idealized", "idealized, o1"))
        })
    }

    /// The kernel's policy that runs.
    #[must_use]
    pub fn policy(&self) -> Policy {
        match *self {
            Self::Policy(policy) => policy,
            Self::O1 => Policy::PerShardQueue,
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => policy.fmt(f),
            Self::O1 => f.write_str("o1"),
        }
    }
}
