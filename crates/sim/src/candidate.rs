//! What is compared: the policies of the kernel, and two yardsticks that only a simulator can run.

use std::fmt;

use curtail_kernel::hedge::{Cancellation, Probabilistic};
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
    /// `oracle`: every client knows the queue and the speed of every server. For servers that clients
    /// share.
    Oracle,
    /// `probabilistic:auto[:BUDGET]`: a `probabilistic:D:Q` whose delay and probability are trained first.
    Trained {
        /// The share of queries that may get a second copy, 0 to 1; none where that is trained, too.
        budget: Option<f64>,
    },
}

impl Candidate {
    /// The forms of what only a simulator can run.
    pub const SIMULATED: [&str; 4] = ["probabilistic:auto[:BUDGET]", "idealized", "o1", "oracle"];

    /// Parses a policy as everywhere, or `o1`. Delays without a unit are multiples of `unit_ns`.
    pub fn parse(text: &str, unit_ns: u64) -> Result<Self, Error> {
        match text.split_once("auto") {
            _ if text == "o1" => return Ok(Self::O1),
            _ if text == "idealized" => return Ok(Self::Idealized),
            _ if text == "oracle" => return Ok(Self::Oracle),
            Some(("probabilistic:", "")) => return Ok(Self::Trained { budget: None }),
            Some(("probabilistic:", budget)) => {
                let share = budget.strip_prefix(':').and_then(|share| share.parse().ok());
                let share = share.filter(|share: &f64| share.is_sign_positive() && *share <= 1.0);
                let wrong = || {
                    let why = "its budget is no share; give it a number from 0 to 1";
                    Error::Policy(format!("policy {text:?}: {why}"))
                };
                return Ok(Self::Trained { budget: Some(share.ok_or_else(wrong)?) });
            }
            _ => {}
        }
        Policy::parse(text, Some(unit_ns)).map(Self::Policy).map_err(|error| match error {
            // The list of policies lacks those that only a simulator runs.
            PolicyError::Unknown { .. } => {
                Error::Policy(format!("{error}; or {}", Self::SIMULATED.join(", ")))
            }
            PolicyError::Argument { .. } => Error::Policy(error.to_string()),
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

    /// The kernel's policy that runs; of [`Self::Idealized`] and [`Self::Trained`] one with the same needs.
    pub fn policy(&self) -> Policy {
        match *self {
            Self::Policy(policy) => policy,
            Self::O1 => Policy::PSQ,
            Self::Oracle => Policy::LEAST_OUTSTANDING,
            Self::Idealized => Policy::from(Cancellation::Preemptive),
            Self::Trained { .. } => Policy::from(Probabilistic { delay_ns: 0, probability: 0.0 }),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => policy.fmt(f),
            Self::O1 => f.write_str("o1"),
            Self::Idealized => f.write_str("idealized"),
            Self::Oracle => f.write_str("oracle"),
            Self::Trained { budget: None } => f.write_str("probabilistic:auto"),
            Self::Trained { budget: Some(budget) } => write!(f, "probabilistic:auto:{budget}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_repeated_as_written_and_the_bound_is_on_the_list() {
        let said = |text: &str| Candidate::parse(text, 1).expect_err(text).to_string();
        assert!(said("idealizedx").starts_with("unknown policy \"idealizedx\"; use one of "));
        assert!(said("idealizedx").ends_with("idealized, o1, oracle"));
        assert!(!said("bounded:x").contains("o1"), "that is about the bound of a policy");
        for text in ["o1", "oracle", "idealized", "probabilistic:auto", "probabilistic:auto:0.05"] {
            let candidate = Candidate::parse(text, 1).expect(text);
            assert_eq!(candidate.to_string(), text);
            assert_ne!(candidate, Candidate::Policy(candidate.policy()));
        }
        for share in ["1.1", "-0", "-1", "NaN", "inf", "half", ""] {
            let text = format!("probabilistic:auto:{share}");
            let said = said(&text);
            assert!(said.contains("give it a number from 0 to 1"), "{said}");
        }
    }
}
