//! The names of policies: how a person writes them, and how they are printed.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::Policy;
use crate::config::Topology;
use crate::duration;
use crate::hedge::{Cancellation, Version};

/// A policy that does not exist, or not in this form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// There is none of this name, or none of this name that takes what follows it.
    Unknown {
        /// What was written.
        text: String,
    },
    /// An argument is wrong.
    Argument {
        /// What was written.
        text: String,
        /// What is wrong, and the mend, with a semicolon between them.
        why: String,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { text } => {
                write!(f, "unknown policy {text:?}; use one of {}", Policy::FORMS.join(", "))
            }
            Self::Argument { text, why } => write!(f, "policy {text:?}: {why}"),
        }
    }
}

impl core::error::Error for PolicyError {}

impl Policy {
    /// The forms of every policy, for help and error texts.
    pub const FORMS: &[&str] = &[
        "random",
        "round-robin",
        "least-outstanding",
        "two-choices",
        "bounded:N",
        "psq",
        "naive",
        "clone",
        "delayed:D[:cc]",
        "probabilistic:D:Q",
        "probabilistic:auto[:BUDGET]",
        "tied",
        "app-timeout:D",
        "laedge",
        "laedge:cc",
        "laedge:cc+pc",
        "laedge+bounded:N",
        "rescue",
        "rescue:preempt",
        "rescue:no-cancel",
        "rescue+bounded:N",
        "idealized",
    ];

    /// Those of them that only the simulator can run ([`Policy::simulator_only`]).
    const SIMULATOR_FORMS: &[&str] = &["probabilistic:auto[:BUDGET]", "tied", "idealized"];

    /// The forms of the policies that run on real servers.
    #[must_use]
    pub fn live_forms() -> Vec<&'static str> {
        let live = |form: &&str| !Self::SIMULATOR_FORMS.contains(form);
        Self::FORMS.iter().copied().filter(live).collect()
    }

    /// Parses a policy. A delay without a unit counts in multiples of `unit_ns`, where one is given.
    ///
    /// # Errors
    /// Says what is wrong and which policies there are.
    pub fn parse(text: &str, unit_ns: Option<u64>) -> Result<Self, PolicyError> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(n, r)| (n, Some(r)));
        match (name, rest) {
            ("random", None) => Ok(Self::Random),
            ("round-robin", None) => Ok(Self::RoundRobin),
            ("least-outstanding", None) => Ok(Self::LeastOutstanding),
            ("two-choices", None) => Ok(Self::TwoChoices),
            ("rescue", None) => Ok(Self::Rescue(Version::Cleanup)),
            ("rescue", Some("preempt")) => Ok(Self::Rescue(Version::Preempt)),
            ("rescue", Some("no-cancel")) => Ok(Self::Rescue(Version::NoCancel)),
            ("psq", None) => Ok(Self::PerShardQueue),
            ("naive", None) => Ok(Self::Naive),
            ("clone", None) => Ok(Self::Clone),
            ("tied", None) => Ok(Self::Tied),
            ("idealized", None) => Ok(Self::Idealized),
            ("laedge", None) => Ok(Self::Laedge(Cancellation::Plain)),
            ("laedge", Some("cc")) => Ok(Self::Laedge(Cancellation::Cleanup)),
            ("laedge", Some("cc+pc")) => Ok(Self::Laedge(Cancellation::Preemptive)),
            ("bounded", Some(n)) => Ok(Self::Bounded(bound(text, n)?)),
            ("laedge+bounded", Some(n)) => Ok(Self::LaedgeBounded(bound(text, n)?)),
            ("rescue+bounded", Some(n)) => Ok(Self::RescueBounded(bound(text, n)?)),
            ("delayed", Some(rest)) => {
                let (delay, cleanup) =
                    rest.strip_suffix(":cc").map_or((rest, false), |delay| (delay, true));
                Ok(Self::Delayed { delay_ns: span(text, delay, unit_ns)?, cleanup })
            }
            ("app-timeout", Some(delay)) => {
                Ok(Self::AppTimeout { delay_ns: span(text, delay, unit_ns)? })
            }
            ("probabilistic", Some("auto")) => Ok(Self::ProbabilisticAuto { budget: None }),
            ("probabilistic", Some(rest)) => match rest.split_once(':') {
                Some(("auto", budget)) => {
                    Ok(Self::ProbabilisticAuto { budget: Some(fraction(text, budget)?) })
                }
                Some((delay, probability)) => Ok(Self::Probabilistic {
                    delay_ns: span(text, delay, unit_ns)?,
                    probability: fraction(text, probability)?,
                }),
                None => Err(unknown(text)),
            },
            _ => Err(unknown(text)),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::RoundRobin => f.write_str("round-robin"),
            Self::LeastOutstanding => f.write_str("least-outstanding"),
            Self::TwoChoices => f.write_str("two-choices"),
            Self::Bounded(n) => write!(f, "bounded:{n}"),
            Self::PerShardQueue => f.write_str("psq"),
            Self::Naive => f.write_str("naive"),
            Self::Clone => f.write_str("clone"),
            Self::Delayed { delay_ns, cleanup } => {
                let cleanup = if *cleanup { ":cc" } else { "" };
                write!(f, "delayed:{}{cleanup}", duration::format(*delay_ns))
            }
            Self::Probabilistic { delay_ns, probability } => {
                write!(f, "probabilistic:{}:{probability}", duration::format(*delay_ns))
            }
            Self::ProbabilisticAuto { budget: None } => f.write_str("probabilistic:auto"),
            Self::ProbabilisticAuto { budget: Some(budget) } => {
                write!(f, "probabilistic:auto:{budget}")
            }
            Self::Tied => f.write_str("tied"),
            Self::AppTimeout { delay_ns } => {
                write!(f, "app-timeout:{}", duration::format(*delay_ns))
            }
            Self::Laedge(Cancellation::Plain) => f.write_str("laedge"),
            Self::Laedge(Cancellation::Cleanup) => f.write_str("laedge:cc"),
            Self::Laedge(Cancellation::Preemptive) => f.write_str("laedge:cc+pc"),
            Self::LaedgeBounded(n) => write!(f, "laedge+bounded:{n}"),
            Self::Rescue(Version::Cleanup) => f.write_str("rescue"),
            Self::Rescue(Version::Preempt) => f.write_str("rescue:preempt"),
            Self::Rescue(Version::NoCancel) => f.write_str("rescue:no-cancel"),
            Self::RescueBounded(n) => write!(f, "rescue+bounded:{n}"),
            Self::Idealized => f.write_str("idealized"),
        }
    }
}

fn unknown(text: &str) -> PolicyError {
    PolicyError::Unknown { text: text.to_string() }
}

fn argument(text: &str, why: String) -> PolicyError {
    PolicyError::Argument { text: text.to_string(), why }
}

fn bound(text: &str, n: &str) -> Result<u32, PolicyError> {
    let range = 1..=Topology::MAX_GATE;
    n.parse().ok().filter(|n| range.contains(n)).ok_or_else(|| {
        let most = Topology::MAX_GATE;
        argument(text, format!("{n:?} is no bound; give it a number from 1 to {most}"))
    })
}

fn fraction(text: &str, value: &str) -> Result<f64, PolicyError> {
    // Without the zero that has a sign: it would be printed.
    let fits = |value: &f64| value.is_sign_positive() && *value <= 1.0;
    value.parse().ok().filter(fits).ok_or_else(|| {
        argument(text, format!("{value:?} is no share; give it a number from 0 to 1"))
    })
}

fn span(text: &str, delay: &str, unit_ns: Option<u64>) -> Result<u64, PolicyError> {
    if let Some(unit) = unit_ns
        && let Ok(multiple) = delay.parse::<f64>()
    {
        let ns = multiple * unit as f64;
        if ns.is_finite() && (0.0..9e15).contains(&ns) {
            return Ok(ns as u64);
        }
    }
    duration::parse(delay).map_err(|why| argument(text, why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example of a form, with all that may be left out.
    fn example(form: &str) -> String {
        let whole = form.replace("[:cc]", ":cc").replace("[:BUDGET]", ":0.05");
        whole.replace('N', "2").replace('D', "5ms").replace('Q', "0.125")
    }

    #[test]
    fn names_read_back_as_printed() {
        for form in Policy::FORMS {
            let text = example(form);
            let policy = Policy::parse(&text, None).expect(&text);
            assert_eq!(policy.to_string(), text);
        }
        for text in ["laedge", "delayed:1.5us", "probabilistic:auto", "probabilistic:0ns:0.1"] {
            assert_eq!(Policy::parse(text, None).expect(text).to_string(), text);
        }
        assert_eq!(
            Policy::parse("delayed:5", Some(1_000_000)),
            Ok(Policy::Delayed { delay_ns: 5_000_000, cleanup: false })
        );
    }

    #[test]
    fn the_forms_of_the_simulator_are_known() {
        for form in Policy::FORMS {
            let policy = Policy::parse(&example(form), None).expect(form);
            let live = Policy::live_forms().contains(form);
            assert_eq!(policy.simulator_only().is_none(), live, "{form}");
        }
    }

    #[test]
    fn wrong_names_say_what_to_write() {
        let names = ["", "lædge", "laedge:pc", "psq:1", "bounded", "bounded:0", "delayed:5"];
        let more = [
            "probabilistic",
            "probabilistic:5ms",
            "probabilistic:5:0.5",
            "app-timeout:5",
            "tied:1ms",
        ];
        for bad in names.into_iter().chain(more) {
            let said = Policy::parse(bad, None).expect_err(bad).to_string();
            assert!(said.contains("one of") || said.contains("give it"), "{said}");
        }
        for share in ["1.1", "-0", "-1", "NaN", "inf", "half", ""] {
            for bad in ["probabilistic:5ms:", "probabilistic:auto:"] {
                let said = Policy::parse(&format!("{bad}{share}"), None).expect_err(share);
                assert!(said.to_string().contains("give it a number from 0 to 1"), "{said}");
            }
        }
    }
}
