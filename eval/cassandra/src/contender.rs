//! Who chooses the replica that a read goes to.

use std::str::FromStr;

use curtail_kernel::Policy;

/// Who chooses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contender {
    /// As it was given.
    pub(crate) name: String,
    /// A policy of the kernel chooses among the replicas, each of which reads from itself; none: the driver does.
    pub(crate) policy: Option<Policy>,
    /// The driver sends to replicas of the key, and not to any node.
    pub(crate) token_aware: bool,
    /// Cassandra's dynamic snitch is on: a coordinator reads from the replica that it ranks first.
    pub(crate) snitch: bool,
    /// A coordinator asks another replica when the first is slower than p99.
    pub(crate) retry: bool,
}

impl FromStr for Contender {
    type Err = String;

    /// `snitch`, `token-aware`, each with `+retry`; else a policy of the kernel.
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
                    format!("{error}; or use snitch, token-aware, each with +retry")
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
        assert!(of("snatch").unwrap_err().contains("or use snitch, token-aware"));
    }
}
