//! Candidates for comparison: the kernel's policies, and yardsticks that only a simulator can run.

use std::fmt;

use curtail_kernel::hedge::IDEALIZED;
use curtail_kernel::{Arguments, Catalog, Policy, PolicyError};

use crate::error::Error;

/// A policy, or a yardstick for policies.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "an experiment has a handful of them")]
pub enum Candidate {
    /// A policy of the kernel.
    Policy(Policy),
    /// `o1`: per-shard queuing in a world whose hiccups cost nothing (S = P). No policy with
    /// first-come, first-served servers can be better at any percentile.
    O1,
    /// `idealized`: a hedge that knows exactly when each copy ends. It is not a bound, although the
    /// sources treat it as one. It serves every waiting query before any second copy, although a
    /// slow request may need the second copy more urgently.
    Idealized,
    /// `oracle`: a policy under which every client sees the queue and the speed of every server. It
    /// is available only for servers that clients share.
    Oracle,
    /// `probabilistic:auto[:BUDGET]`: a `probabilistic:D:Q` whose delay and probability are trained
    /// first.
    Trained {
        /// The share of queries that may get a second copy, 0 to 1. `None` if the share is also
        /// trained.
        budget: Option<f64>,
    },
}

impl Candidate {
    /// The names of the candidates that only a simulator can run.
    pub const SIMULATED: [&str; 4] = ["probabilistic:auto[:BUDGET]", "idealized", "o1", "oracle"];

    /// Parses a policy, or a candidate of [`Self::SIMULATED`]. Delays without a unit are multiples
    /// of `unit_ns`.
    pub fn parse(text: &str, unit_ns: u64) -> Result<Self, Error> {
        Self::parse_in(&Catalog::new(), text, unit_ns)
    }

    /// Parses a candidate as [`Self::parse`] does, or a policy of one's own that is in a catalog.
    pub fn parse_in(catalog: &Catalog, text: &str, unit_ns: u64) -> Result<Self, Error> {
        match text.split_once("auto") {
            _ if text == "o1" => return Ok(Self::O1),
            _ if text == "idealized" => return Ok(Self::Idealized),
            _ if text == "oracle" => return Ok(Self::Oracle),
            Some(("probabilistic:", "")) => return Ok(Self::Trained { budget: None }),
            Some(("probabilistic:", budget)) => {
                let share = budget.strip_prefix(':').and_then(|share| share.parse().ok());
                let share = share.filter(|share: &f64| share.is_sign_positive() && *share <= 1.0);
                let wrong = || {
                    let why = "its budget is not a fraction; use a number from 0 to 1";
                    Error::Policy(format!("policy {text:?}: {why}"))
                };
                return Ok(Self::Trained { budget: Some(share.ok_or_else(wrong)?) });
            }
            _ => {}
        }
        catalog.parse(text, Some(unit_ns)).map(Self::Policy).map_err(|error| match error {
            // The kernel's list of policies does not include the simulated candidates.
            PolicyError::Unknown { .. } => {
                let why = format!("{error}; or {}", Self::SIMULATED.join(", "));
                Error::UnknownPolicy { name: text.to_owned(), why }
            }
            PolicyError::Argument { .. } => Error::Policy(error.to_string()),
        })
    }

    /// Parses all candidates of a comparison.
    pub fn parse_all(names: &[String], unit_ns: u64) -> Result<Vec<Self>, Error> {
        let mut candidates: Vec<Self> = Vec::new();
        for name in names {
            let candidate = Self::parse(name, unit_ns).map_err(|error| match error {
                Error::UnknownPolicy { name, why } => {
                    Error::UnknownPolicy { why: format!("policy {name}: {why}"), name }
                }
                error => Error::Policy(format!("policy {name}: {error}")),
            })?;
            if candidates.contains(&candidate) {
                return Err(Error::PolicyTwice { name: name.clone() });
            }
            candidates.push(candidate);
        }
        Ok(candidates)
    }

    /// Whether hiccups cost nothing in the world of the candidate.
    pub(crate) fn is_without_jitter(&self) -> bool {
        *self == Self::O1
    }

    /// Returns the kernel policy that the simulation runs. For [`Self::Oracle`] and
    /// [`Self::Trained`] it is a policy with the same requirements.
    pub fn policy(&self) -> Policy {
        match *self {
            Self::Policy(policy) => policy,
            Self::O1 => Policy::PSQ,
            Self::Oracle => Policy::LEAST_OUTSTANDING,
            Self::Idealized => Policy::hedged(IDEALIZED.with(Arguments::NONE)),
            Self::Trained { .. } => Policy::probabilistic(0, 0.0),
        }
    }
}

impl From<Policy> for Candidate {
    fn from(policy: Policy) -> Self {
        Self::Policy(policy)
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
    fn an_unknown_name_is_quoted_and_the_list_contains_the_bound() {
        let message = |text: &str| Candidate::parse(text, 1).expect_err(text).to_string();
        assert!(message("idealizedx").starts_with("unknown policy \"idealizedx\"; use one of "));
        assert!(message("idealizedx").ends_with("idealized, o1, oracle"));
        assert!(!message("bounded:x").contains("o1"), "the error is about the bound of a policy");
        for text in ["o1", "oracle", "idealized", "probabilistic:auto", "probabilistic:auto:0.05"] {
            let candidate = Candidate::parse(text, 1).expect(text);
            assert_eq!(candidate.to_string(), text);
            assert_ne!(candidate, Candidate::Policy(candidate.policy()));
        }
        for share in ["1.1", "-0", "-1", "NaN", "inf", "half", ""] {
            let text = format!("probabilistic:auto:{share}");
            let message = message(&text);
            assert!(message.contains("use a number from 0 to 1"), "{message}");
        }
    }
}
