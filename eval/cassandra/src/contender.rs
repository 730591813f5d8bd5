//! The contenders: methods that choose the replica for a read.

use std::str::FromStr;

use curtail_kernel::Policy;

/// A method that chooses replicas.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contender {
    /// The name on the command line.
    pub(crate) name: String,
    /// The kernel policy that chooses among the replicas. Each replica serves the read from its own
    /// data. `None` if the driver chooses.
    pub(crate) policy: Option<Policy>,
    /// Whether the driver sends requests only to replicas of the key, not to any node.
    pub(crate) token_aware: bool,
    /// Whether Cassandra's dynamic snitch is on, so that a coordinator reads from the replica that
    /// the snitch ranks first.
    pub(crate) snitch: bool,
    /// Whether a coordinator reads from another replica when the first is slower than p99.
    pub(crate) retry: bool,
}

impl FromStr for Contender {
    type Err = String;

    /// Parses `snitch` or `token-aware`, each optionally with `+retry`. Anything else is a kernel
    /// policy.
    fn from_str(text: &str) -> Result<Self, String> {
        let (base, retry) = match text.strip_suffix("+retry") {
            Some(base) => (base, true),
            None => (text, false),
        };
        let driver = |token_aware| Self {
            name: text.to_owned(),
            policy: None,
            token_aware,
            snitch: true,
            retry,
        };
        match base {
            "snitch" => Ok(driver(false)),
            "token-aware" => Ok(driver(true)),
            _ => {
                let policy = Policy::parse(text, None).map_err(|error| {
                    format!("{error}; or use snitch or token-aware, each with or without +retry")
                })?;
                let name = text.to_owned();
                Ok(Self {
                    name,
                    policy: Some(policy),
                    token_aware: true,
                    snitch: false,
                    retry: false,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_is_the_driver_or_a_policy() {
        let of = |text: &str| {
            text.parse::<Contender>().map(|one| (one.token_aware, one.snitch, one.retry))
        };
        assert_eq!(of("snitch"), Ok((false, true, false)));
        assert_eq!(of("token-aware+retry"), Ok((true, true, true)));
        assert_eq!(of("c3"), Ok((true, false, false)));
        assert!(of("snatch").unwrap_err().contains("or use snitch or token-aware"));
    }
}
