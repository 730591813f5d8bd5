//! Parses and prints the names of policies.
//!
//! A name is `HEDGE+GATE+RATE+PICK`, in any order. A part that is left out is taken from the bare
//! name: `delayed:15ms` is `delayed:15ms+random`, and `laedge+bounded:2` is LÆDGE over JBSQ(2).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::{Gate, HedgeSpec, PickSpec, Policy};
use crate::config::Topology;
use crate::duration;
use crate::hedge::Slotless;
use crate::rate::RateSpec;

/// The part of a name that turns rate limits off. Bare names have no rate limits, either.
const UNPACED: &str = "unpaced";

/// The error for a policy that does not exist, or that does not exist in this form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// There is no policy with this name, or it does not take these arguments.
    Unknown {
        /// The policy as it was written.
        text: String,
    },
    /// An argument is wrong.
    Argument {
        /// The policy as it was written.
        text: String,
        /// The problem and the fix, separated by a semicolon.
        why: String,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { text } => {
                let forms = Policy::forms().join(", ");
                write!(f, "unknown policy {text:?}; use one of {forms}, {}", Policy::PARTS)
            }
            Self::Argument { text, why } => write!(f, "policy {text:?}: {why}"),
        }
    }
}

impl core::error::Error for PolicyError {}

/// A name and its arguments: `delayed:15ms:cc` has two arguments.
#[derive(Debug)]
pub struct Args<'a> {
    /// The whole policy as it was written, for error messages.
    text: &'a str,
    unit_ns: Option<u64>,
    name: &'a str,
    list: Vec<&'a str>,
}

impl<'a> Args<'a> {
    fn new(text: &'a str, unit_ns: Option<u64>, part: &'a str) -> Self {
        let mut list = part.split(':');
        Self { text, unit_ns, name: list.next().unwrap_or(part), list: list.collect() }
    }

    /// The arguments, in order.
    #[must_use]
    pub fn list(&self) -> &[&'a str] {
        &self.list
    }

    pub(super) fn is_named(&self, forms: &[&str]) -> bool {
        forms.iter().any(|form| form.split([':', '[']).next() == Some(self.name))
    }

    /// The error for arguments that the name does not take.
    #[must_use]
    pub fn unknown(&self) -> PolicyError {
        PolicyError::Unknown { text: self.text.to_string() }
    }

    fn wrong(&self, why: String) -> PolicyError {
        PolicyError::Argument { text: self.text.to_string(), why }
    }

    fn bound(&self, n: &str) -> Result<u32, PolicyError> {
        let range = 1..=Topology::MAX_GATE;
        n.parse().ok().filter(|n| range.contains(n)).ok_or_else(|| {
            let most = Topology::MAX_GATE;
            self.wrong(format!("{n:?} is not a valid bound; use a number from 1 to {most}"))
        })
    }

    /// Parses a number from 0 to 1.
    ///
    /// # Errors
    /// The value is not such a number.
    pub fn fraction(&self, value: &str) -> Result<f64, PolicyError> {
        // Excludes −0, because it would be printed with its sign.
        let fits = |value: &f64| value.is_sign_positive() && *value <= 1.0;
        value.parse().ok().filter(fits).ok_or_else(|| {
            self.wrong(format!("{value:?} is not a fraction; use a number from 0 to 1"))
        })
    }

    /// Parses a percentile above 0 and below 100.
    ///
    /// # Errors
    /// The value is not such a percentile.
    pub fn percentile(&self, value: &str) -> Result<f64, PolicyError> {
        let fits = |value: &f64| *value > 0.0 && *value < 100.0;
        value.parse().ok().filter(fits).ok_or_else(|| {
            self.wrong(format!(
                "p{value} is not a valid percentile; use one above p0 and below p100, like p95"
            ))
        })
    }

    /// Parses a delay, in ns. A delay without a unit is a multiple of the caller's unit, if there
    /// is one.
    ///
    /// # Errors
    /// The text is not a delay.
    pub fn delay(&self, text: &str) -> Result<u64, PolicyError> {
        if let Some(unit) = self.unit_ns
            && let Ok(multiple) = text.parse::<f64>()
        {
            let ns = multiple * unit as f64;
            if ns.is_finite() && (0.0..9e15).contains(&ns) {
                return Ok(ns as u64);
            }
        }
        duration::parse(text).map_err(|why| self.wrong(why.to_string()))
    }

    /// Sets a part of the policy. Each part may occur only once.
    fn set<T>(&self, part: &mut Option<T>, kind: &str, to: T) -> Result<(), PolicyError> {
        if part.replace(to).is_some() {
            return Err(self.wrong(format!("it contains two {kind}; use one")));
        }
        Ok(())
    }
}

/// Splits a name into its parts. The plus in `laedge:cc+pc` is part of an argument.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    core::iter::from_fn(move || {
        let text = rest?;
        let plus = text.match_indices('+').map(|(at, _)| at);
        let end = plus.filter(|&at| {
            let argument = text[..at].ends_with(":cc")
                && (text[at..].starts_with("+pc+") || &text[at..] == "+pc");
            !argument
        });
        let end = end.min();
        rest = end.map(|at| &text[at + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

impl Policy {
    /// The alternative to a bare name, for help and error texts.
    pub const PARTS: &'static str =
        "or parts joined by +, as in delayed:15ms+two-choices and round-robin+cubic";

    /// The forms of all names, for help and error texts: picks, hedges, and combinations.
    #[must_use]
    pub fn forms() -> Vec<&'static str> {
        Self::all_forms(false)
    }

    /// The forms of the policies that run on real servers.
    #[must_use]
    pub fn live_forms() -> Vec<&'static str> {
        Self::all_forms(true)
    }

    fn all_forms(live: bool) -> Vec<&'static str> {
        let mut forms = PickSpec::NAMES.to_vec();
        forms.extend(["c3:literal", "bounded:N", "psq"]);
        forms.extend(HedgeSpec::forms(live));
        forms.extend(["laedge+bounded:N", "rescue+bounded:N"]);
        forms
    }

    /// Parses a policy. A delay without a unit is a multiple of `unit_ns`, if that is given.
    ///
    /// # Errors
    /// The error names the problem and the policies that exist.
    pub fn parse(text: &str, unit_ns: Option<u64>) -> Result<Self, PolicyError> {
        let (mut gate, mut rate, mut pick, mut hedge) = (None, None, None, None);
        for part in parts(text) {
            let args = Args::new(text, unit_ns, part);
            let named = PickSpec::find(args.name).filter(|_| args.list.is_empty());
            match (args.name, args.list()) {
                ("cubic", []) => args.set(&mut rate, "rates", Some(RateSpec::Cubic))?,
                ("aimd", []) => args.set(&mut rate, "rates", Some(RateSpec::Aimd))?,
                ("bic", []) => args.set(&mut rate, "rates", Some(RateSpec::Bic))?,
                ("literal", []) => args.set(&mut rate, "rates", Some(RateSpec::Literal))?,
                ("c3", ["literal"]) => {
                    args.set(&mut pick, "picks", PickSpec::C3)?;
                    args.set(&mut rate, "rates", Some(RateSpec::Literal))?;
                }
                ("fast", [target]) => {
                    let target_ns = args.delay(target)?;
                    if target_ns == 0 {
                        return Err(args.wrong(
                            "a response time of zero is not allowed; use a target like fast:10ms"
                                .into(),
                        ));
                    }
                    args.set(&mut rate, "rates", Some(RateSpec::Fast(target_ns)))?;
                }
                (UNPACED, []) => args.set(&mut rate, "rates", None)?,
                ("psq", []) => args.set(&mut gate, "gates", Gate::Slots)?,
                ("bounded", [n]) => args.set(&mut gate, "gates", Gate::Bound(args.bound(n)?))?,
                _ => match named {
                    Some(named) => args.set(&mut pick, "picks", named)?,
                    None => args.set(&mut hedge, "hedges", HedgeSpec::parse(&args)?)?,
                },
            }
        }
        // With a named pick and no gate, rescue runs without slots.
        let hedge = match (hedge, gate, pick) {
            (Some(HedgeSpec::Rescue(version)), None, Some(_)) => {
                Slotless::of(version).map(HedgeSpec::Slotless).or(hedge)
            }
            _ => hedge,
        };
        let bare = hedge.map_or(Self::LEAST_OUTSTANDING, Self::hedged);
        let behind = gate.map_or(bare, |gate| Self { gate, ..bare }.least_outstanding());
        let pick = pick.unwrap_or(behind.pick);
        Ok(Self { pick, rate: rate.flatten(), ..behind })
    }

    fn least_outstanding(self) -> Self {
        Self { pick: PickSpec::LeastOutstanding, ..self }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outstanding => f.write_str("max_outstanding"),
            Self::Slots => f.write_str("psq"),
            Self::Bound(n) => write!(f, "bounded:{n}"),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gate, rate, pick, hedge } = self;
        let paced = |f: &mut fmt::Formatter<'_>| match rate {
            Some(RateSpec::Literal) if *self == Self::C3_LITERAL => f.write_str(":literal"),
            Some(rate) => write!(f, "+{rate}"),
            None => Ok(()),
        };
        let bare = match hedge {
            Some(hedge) => {
                write!(f, "{hedge}")?;
                Self::hedged(*hedge)
            }
            None if *gate == Gate::Outstanding => {
                f.write_str(pick.name())?;
                return paced(f);
            }
            None => {
                write!(f, "{gate}")?;
                Self { gate: *gate, ..Self::LEAST_OUTSTANDING }
            }
        };
        // Without its gate, `rescue` over a named pick would be the form without slots.
        let has_slots = matches!(hedge, Some(HedgeSpec::Rescue(_))) && *pick != bare.pick;
        let behind = if bare.gate == *gate && !has_slots {
            bare
        } else {
            write!(f, "+{gate}")?;
            bare.least_outstanding()
        };
        if behind.pick != *pick || matches!(hedge, Some(HedgeSpec::Slotless(_))) {
            write!(f, "+{}", pick.name())?;
        }
        paced(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hedge::Delayed;

    /// An example of a form, with all optional parts.
    fn example(form: &str) -> String {
        let whole = form.replace("[:cc]", ":cc").replace("PICK", "two-choices");
        whole.replace('N', "2").replace('D', "5ms").replace('Q', "0.125")
    }

    #[test]
    fn names_read_back_as_printed() {
        for form in Policy::forms() {
            let text = example(form);
            let policy = Policy::parse(&text, None).expect(&text);
            assert_eq!(policy.to_string(), text);
        }
        for text in ["laedge", "delayed:1.5us", "probabilistic:0ns:0.1"] {
            assert_eq!(Policy::parse(text, None).expect(text).to_string(), text);
        }
        assert_eq!(
            Policy::parse("delayed:5", Some(1_000_000)),
            Ok(Policy::from(Delayed { delay_ns: 5_000_000, cleanup: false }))
        );
    }

    #[test]
    fn any_hedge_takes_any_pick_and_gate() {
        for text in [
            "delayed:15ms+two-choices",
            "tied+peak-ewma",
            "probabilistic:5ms:0.1+least-outstanding",
            "laedge:cc+pc+peak-ewma",
            "laedge:cc+pc+bounded:2+random",
            "rescue+least-outstanding",
            "rescue:no-cancel+two-choices",
            "rescue+psq+two-choices",
            "rescue:preempt+psq+two-choices",
            "rescue+c3",
            "delayed:5ms:cc+psq",
            "psq+peak-ewma",
            "bounded:2+two-choices",
            "c3",
            "c3+cubic",
            "delayed:5ms+c3",
            "bounded:2+c3",
            "c3+aimd",
            "round-robin+cubic",
            "laedge+round-robin+fast:50ms",
            "psq+bic",
            "round-robin+literal",
            "delayed:5ms+c3+literal",
        ] {
            assert_eq!(Policy::parse(text, None).expect(text).to_string(), text);
        }
        for (long, short) in [
            ("delayed:15ms+random", "delayed:15ms"),
            ("laedge+psq+least-outstanding", "laedge"),
            ("psq+least-outstanding", "psq"),
            ("rescue+psq+least-outstanding", "rescue"),
            ("cubic+c3", "c3+cubic"),
            ("c3+unpaced", "c3"),
            ("c3+literal", "c3:literal"),
            ("delayed:5ms+c3:literal", "delayed:5ms+c3+literal"),
            ("unpaced+random", "random"),
            ("two-choices+delayed:1ms", "delayed:1ms+two-choices"),
            ("bounded:2+laedge:cc+pc", "laedge:cc+pc+bounded:2"),
        ] {
            assert_eq!(Policy::parse(long, None).expect(long).to_string(), short);
        }
        for (twice, kind) in [
            ("random+two-choices", "picks"),
            ("psq+bounded:2", "gates"),
            ("laedge+rescue", "hedges"),
            ("c3+cubic+bic", "rates"),
            ("c3:literal+cubic", "rates"),
        ] {
            let error = Policy::parse(twice, None).expect_err(twice).to_string();
            assert!(error.contains(&format!("two {kind}")), "{error}");
        }
    }

    #[test]
    fn live_forms_exclude_simulator_only_policies() {
        for form in Policy::forms() {
            let policy = Policy::parse(&example(form), None).expect(form);
            let live = Policy::live_forms().contains(&form);
            assert_eq!(policy.simulator_only().is_none(), live, "{form}");
        }
    }

    #[test]
    fn errors_for_wrong_names_contain_the_fix() {
        let names = ["", "lædge", "laedge:pc", "psq:1", "bounded", "bounded:0", "delayed:5"];
        let more = [
            "probabilistic",
            "probabilistic:5ms",
            "probabilistic:5:0.5",
            "app-timeout:5",
            "tied:1ms",
            "psq+",
            "+random",
            "laedge+pc",
            "c3+fast:0ms",
        ];
        for bad in names.into_iter().chain(more) {
            let error = Policy::parse(bad, None).expect_err(bad).to_string();
            assert!(error.contains("one of") || error.contains("use "), "{error}");
        }
        for percentile in ["p0", "p100", "pNaN", "p-1", "p"] {
            let error =
                Policy::parse(&format!("delayed:{percentile}"), None).expect_err(percentile);
            assert!(error.to_string().contains("is not a valid percentile"), "{error}");
        }
        for delay in ["P95", "", "5"] {
            let error = Policy::parse(&format!("delayed:{delay}"), None).expect_err(delay);
            let error = error.to_string();
            assert!(
                error.contains(&format!("`{delay}` ")) && error.ends_with("like p95"),
                "{error}"
            );
        }
        for share in ["1.1", "-0", "-1", "NaN", "inf", "half", ""] {
            let error =
                Policy::parse(&format!("probabilistic:5ms:{share}"), None).expect_err(share);
            assert!(error.to_string().contains("use a number from 0 to 1"), "{error}");
        }
    }
}
