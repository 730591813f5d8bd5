//! What is compared: the policies of the kernel, and two yardsticks that only a simulator can run.

use std::fmt;

use curtail_kernel::{Policy, PolicyError};

use crate::error::Error;

/// A policy, or a yardstick for all policies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Candidate {
    /// A policy of the kernel.
    Policy(Policy),
    /// `o1`: per-shard queuing in a world whose hiccups cost nothing (S = P). No policy whose
    /// servers work first come, first served can be better at any percentile.
    O1,
    /// `idealized`: a hedge that knows when each copy will end. Not a bound, as the sources
    /// believe: it serves every waiting query before any second copy, though a second copy may be
    /// what a slow request waits for.
    Idealized,
}

impl Candidate {
    /// Parses a policy as everywhere, or `o1`. Delays without a unit are multiples of `unit_ns`.
    pub fn parse(text: &str, unit_ns: u64) -> Result<Self, Error> {
        if text == "o1" {
            return Ok(Self::O1);
        }
        let policy = Policy::parse(text, Some(unit_ns)).map(|policy| match policy {
            Policy::Idealized => Self::Idealized,
            policy => Self::Policy(policy),
        });
        policy.map_err(|error| {
            // The list of policies that it ends with lacks this one.
            let more = if matches!(error, PolicyError::Unknown { .. }) { ", o1" } else { "" };
            Error::Policy(format!("{error}{more}"))
        })
    }

    /// Parses what is compared.
    pub fn parse_all(names: &[String], unit_ns: u64) -> Result<Vec<Self>, Error> {
        let mut candidates: Vec<Self> = Vec::new();
        for name in names {
            let candidate = Self::parse(name, unit_ns)
                .map_err(|error| Error::Policy(format!("policy {name}: {error}")))?;
            if candidates.contains(&candidate) {
                return Err(Error::PolicyTwice { name: name.clone() });
            }
            candidates.push(candidate);
        }
        Ok(candidates)
    }

    /// The kernel's policy that runs.
    pub fn policy(&self) -> Policy {
        match *self {
            Self::Policy(policy) => policy,
            Self::O1 => Policy::PerShardQueue,
            Self::Idealized => Policy::Idealized,
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => policy.fmt(f),
            Self::O1 => f.write_str("o1"),
            Self::Idealized => f.write_str("idealized"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_repeated_as_written_and_the_bound_is_on_the_list() {
        let said = |text| Candidate::parse(text, 1).expect_err(text).to_string();
        assert!(said("idealizedx").starts_with("unknown policy \"idealizedx\"; use one of "));
        assert!(said("idealizedx").ends_with("idealized, o1"));
        assert!(!said("bounded:x").contains("o1"), "that is about the bound of a policy");
        assert_eq!(Candidate::parse("o1", 1).expect("the bound"), Candidate::O1);
    }
}
