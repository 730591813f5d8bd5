//! Parses and prints the names of policies.
//!
//! A name is `HEDGE+GATE+RATE+PICK`, in any order. A part that is left out is taken from the bare
//! name: `delayed:15ms` is `delayed:15ms+random`, and `laedge+bounded:2` is LÆDGE over JBSQ(2).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::{Catalog, Policy};
use crate::balance::{C3, LEAST_OUTSTANDING};
use crate::config::{Gate, Topology};
use crate::descriptor::{Arguments, Descriptor, Part};
use crate::duration;
use crate::rate::LITERAL;

/// The part of a name that turns rate limits off. Bare names have no rate limits, either.
const UNPACED: &str = "unpaced";

/// The error for a policy that does not exist, or that does not exist in this form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// There is no policy with this name, or it does not take these arguments.
    Unknown {
        /// The policy as it was written.
        text: String,
        /// The forms of the policies that exist.
        forms: Vec<&'static str>,
    },
    /// An argument is wrong.
    Argument {
        /// The policy as it was written.
        text: String,
        /// The problem and the fix, separated by a semicolon.
        why: String,
    },
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        Self::parse(text, None)
    }
}

impl TryFrom<&str> for Policy {
    type Error = PolicyError;

    fn try_from(text: &str) -> Result<Self, PolicyError> {
        text.parse()
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { text, forms } => {
                let forms = forms.join(", ");
                write!(f, "unknown policy {text:?}; use one of {forms}, {}", Policy::PARTS)
            }
            Self::Argument { text, why } => write!(f, "policy {text:?}: {why}"),
        }
    }
}

impl core::error::Error for PolicyError {}

/// A part of a name and its arguments: `delayed:15ms:cc` has two arguments.
struct Args<'a> {
    catalog: &'a Catalog,
    /// The whole policy as it was written, for error messages.
    text: &'a str,
    unit_ns: Option<u64>,
    name: &'a str,
    list: Vec<&'a str>,
}

impl<'a> Args<'a> {
    fn new(catalog: &'a Catalog, text: &'a str, unit_ns: Option<u64>, part: &'a str) -> Self {
        let mut list = part.split(':');
        Self { catalog, text, unit_ns, name: list.next().unwrap_or(part), list: list.collect() }
    }

    fn unknown(&self) -> PolicyError {
        PolicyError::Unknown { text: self.text.to_string(), forms: self.catalog.forms() }
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
    fn fraction(&self, value: &str) -> Result<f64, PolicyError> {
        // Excludes −0, because it would be printed with its sign.
        let fits = |value: &f64| value.is_sign_positive() && *value <= 1.0;
        value.parse().ok().filter(fits).ok_or_else(|| {
            self.wrong(format!("{value:?} is not a fraction; use a number from 0 to 1"))
        })
    }

    /// Parses a percentile above 0 and below 100.
    fn percentile(&self, value: &str) -> Result<f64, PolicyError> {
        let fits = |value: &f64| *value > 0.0 && *value < 100.0;
        value.parse().ok().filter(fits).ok_or_else(|| {
            self.wrong(format!(
                "p{value} is not a valid percentile; use one above p0 and below p100, like p95"
            ))
        })
    }

    /// Parses a delay, in ns. A delay without a unit is a multiple of the caller's unit, if there
    /// is one. `or` follows the reason of an error.
    fn delay(&self, text: &str, or: &str) -> Result<u64, PolicyError> {
        if let Some(unit) = self.unit_ns
            && let Ok(multiple) = text.parse::<f64>()
        {
            let ns = multiple * unit as f64;
            if ns.is_finite() && (0.0..9e15).contains(&ns) {
                return Ok(ns as u64);
            }
        }
        duration::parse(text).map_err(|why| self.wrong(format!("{why}{or}")))
    }

    /// Finds the part with this name, and the form with these arguments.
    fn find<B>(
        &self,
        mut all: impl Iterator<Item = &'static Descriptor<B>>,
    ) -> Result<Part<B>, PolicyError> {
        let found = all.find(|of| of.name == self.name).ok_or_else(|| self.unknown())?;
        Ok(found.with(self.arguments(found)?))
    }

    fn arguments<B>(&self, of: &'static Descriptor<B>) -> Result<Arguments, PolicyError> {
        let percentiles = of.forms.iter().any(|form| form.contains("pN"));
        let fits = |piece: &str, given: &str| match piece {
            "pN" => given.starts_with('p'),
            // The simulator trains the delay `auto` of a probability.
            "D" => !(percentiles && given.starts_with('p') || given == "auto" && of.has("Q")),
            "Q" => true,
            word => word == given,
        };
        for (form, mut pieces) in of.pieces() {
            if pieces.next() != Some(self.name)
                || pieces.clone().count() != self.list.len()
                || !pieces.clone().zip(&self.list).all(|(piece, given)| fits(piece, given))
            {
                continue;
            }
            let mut arguments = Arguments::form(form);
            for (piece, given) in pieces.zip(&self.list) {
                let or = if percentiles { ", or a percentile, like p95" } else { "" };
                match piece {
                    "D" if arguments.delay_ns.is_some() => {
                        arguments.second_delay_ns = Some(self.delay(given, or)?);
                    }
                    "D" => arguments.delay_ns = Some(self.delay(given, or)?),
                    "pN" => arguments.percentile = Some(self.percentile(&given[1..])?),
                    "Q" => arguments.fraction = Some(self.fraction(given)?),
                    _ => {}
                }
            }
            return Ok(arguments);
        }
        Err(self.unknown())
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

impl Catalog {
    /// Parses a policy. A delay without a unit is a multiple of `unit_ns`, if that is given.
    ///
    /// # Errors
    /// The error names the problem and the policies that exist.
    pub fn parse(&self, text: &str, unit_ns: Option<u64>) -> Result<Policy, PolicyError> {
        let (mut gate, mut rate, mut pick, mut hedge) = (None, None, None, None);
        for part in parts(text) {
            let args = Args::new(self, text, unit_ns, part);
            match (args.name, &args.list[..]) {
                ("c3", ["literal"]) => {
                    args.set(&mut pick, "picks", C3.with(Arguments::NONE))?;
                    args.set(&mut rate, "rates", Some(LITERAL.with(Arguments::NONE)))?;
                }
                (UNPACED, []) => args.set(&mut rate, "rates", None)?,
                ("psq", []) => args.set(&mut gate, "gates", Gate::Slots)?,
                ("bounded", [n]) => args.set(&mut gate, "gates", Gate::Bound(args.bound(n)?))?,
                (name, _) if self.rates().any(|rate| rate.name == name) => {
                    let found = args.find(self.rates())?;
                    if found.arguments.delay_ns == Some(0) {
                        return Err(args.wrong(
                            "a response time of zero is not allowed; use a target like fast:10ms"
                                .into(),
                        ));
                    }
                    args.set(&mut rate, "rates", Some(found))?;
                }
                (name, _) if self.picks().any(|pick| pick.name == name) => {
                    args.set(&mut pick, "picks", args.find(self.picks())?)?;
                }
                _ => args.set(&mut hedge, "hedges", args.find(self.hedges())?)?,
            }
        }
        let bare = hedge.map_or(Policy::LEAST_OUTSTANDING, Policy::hedged);
        // With a named pick and no gate, some hedges run without slots.
        let slotless = pick.is_some() && bare.runs_without_slots();
        let gate = gate.or(slotless.then_some(Gate::Outstanding));
        let behind = gate.map_or(bare, |gate| Policy { gate, ..bare }.least_outstanding());
        let pick = pick.unwrap_or(behind.pick);
        Ok(Policy { pick, rate: rate.flatten(), ..behind })
    }
}

impl Policy {
    /// The alternative to a bare name, for help and error texts.
    pub const PARTS: &'static str =
        "or parts joined by +, as in delayed:15ms+two-choices and round-robin+cubic";

    /// The forms of all names, for help and error texts: picks, hedges, and combinations.
    #[must_use]
    pub fn forms() -> Vec<&'static str> {
        Catalog::new().forms()
    }

    /// The forms of the policies that run on real servers.
    #[must_use]
    pub fn live_forms() -> Vec<&'static str> {
        Catalog::new().live_forms()
    }

    /// Parses a policy of our parts. See [`Catalog::parse`].
    ///
    /// # Errors
    /// The error names the problem and the policies that exist.
    pub fn parse(text: &str, unit_ns: Option<u64>) -> Result<Self, PolicyError> {
        Catalog::new().parse(text, unit_ns)
    }

    /// Whether the hedge runs without slots if the name has a pick and no gate.
    fn runs_without_slots(&self) -> bool {
        self.hedge.is_some_and(|hedge| (hedge.of.builds.slotless)(&hedge.arguments))
    }

    fn least_outstanding(self) -> Self {
        Self { pick: LEAST_OUTSTANDING.with(Arguments::NONE), ..self }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gate, rate, pick, hedge } = self;
        let paced = |f: &mut fmt::Formatter<'_>| match rate {
            Some(_) if *self == Self::C3_LITERAL => f.write_str(":literal"),
            Some(rate) => write!(f, "+{rate}"),
            None => Ok(()),
        };
        let bare = match hedge {
            Some(hedge) => {
                write!(f, "{hedge}")?;
                Self::hedged(*hedge)
            }
            None if *gate == Gate::Outstanding => {
                write!(f, "{pick}")?;
                return paced(f);
            }
            None => {
                write!(f, "{gate}")?;
                Self { gate: *gate, ..Self::LEAST_OUTSTANDING }
            }
        };
        let slotless = *gate == Gate::Outstanding && self.runs_without_slots();
        // Without its gate, such a hedge over a named pick would be the form without slots.
        let may_be_slotless =
            hedge.is_some_and(|hedge| hedge.of.forms.iter().any(|form| form.ends_with("+PICK")));
        let has_slots = may_be_slotless && *pick != bare.pick;
        let behind = if slotless || (bare.gate == *gate && !has_slots) {
            bare
        } else {
            write!(f, "+{gate}")?;
            bare.least_outstanding()
        };
        if behind.pick != *pick || slotless {
            write!(f, "+{pick}")?;
        }
        paced(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let in_ms = Policy::parse("delayed:5", Some(1_000_000)).expect("a delay");
        assert_eq!((in_ms.delay_ns(), in_ms.to_string()), (Some(5_000_000), "delayed:5ms".into()));
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
