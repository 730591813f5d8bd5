//! A distribution, as specified in text.

use std::fmt;
use std::path::PathBuf;

use curtail_kernel::duration::Unit;

use crate::quantity::Time;

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A time above zero.
    Time,
    TimeOrZero,
    /// A plain number, with a function that checks its range, and a description of the range.
    Number(fn(f64) -> bool, &'static str),
}

const PROBABILITY: Kind = Kind::Number(|p| (0.0..=1.0).contains(&p), "from 0 to 1");
const SHAPE: Kind = Kind::Number(|x| (1e-6..=1e6).contains(&x), "from 1e-6 to 1e6");
const CV: Kind = Kind::Number(|x| (0.0..=1e3).contains(&x), "from 0 to 1000");
const CV_HYPER: Kind = Kind::Number(|x| (1.0..=1e3).contains(&x), "from 1 to 1000");
const STAGES: Kind =
    Kind::Number(|k| (1.0..=1e6).contains(&k) && k.fract() == 0.0, "a whole number from 1 to 1e6");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Exp,
    Det,
    LogNormal,
    Gamma,
    Erlang,
    Hyper,
    Pareto,
    Weibull,
    Bimodal,
    Hiccup,
    Uniform,
    File,
}

/// The families, in the order of [`Family`], with their forms and the kinds of their values. The
/// name is the part before the first colon.
pub(crate) const FORMS: [(Family, &str, &[Kind]); 12] = [
    (Family::Exp, "exp:MEAN", &[Kind::Time]),
    (Family::Det, "det:V", &[Kind::TimeOrZero]),
    (Family::LogNormal, "lognormal:MEAN:CV", &[Kind::Time, CV]),
    (Family::Gamma, "gamma:MEAN:CV", &[Kind::Time, CV]),
    (Family::Erlang, "erlang:K:MEAN", &[STAGES, Kind::Time]),
    (Family::Hyper, "h2:MEAN:CV", &[Kind::Time, CV_HYPER]),
    (Family::Pareto, "pareto:ALPHA:MIN[:MAX]", &[SHAPE, Kind::Time, Kind::Time]),
    (Family::Weibull, "weibull:SHAPE:SCALE", &[SHAPE, Kind::Time]),
    (Family::Bimodal, "bimodal:PROB:VALUE", &[PROBABILITY, Kind::TimeOrZero]),
    (Family::Hiccup, "hiccup:PROB:MEAN", &[PROBABILITY, Kind::Time]),
    (Family::Uniform, "uniform:A:B", &[Kind::TimeOrZero, Kind::TimeOrZero]),
    (Family::File, "file:PATH", &[]),
];

/// A term of a sum. [`parse`](crate::parse) ensures that values are in range.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    pub(crate) family: Family,
    /// Values in the order of the form. Values that are plain numbers have no unit.
    pub(crate) values: Vec<Time>,
    /// The path of a `file` term.
    pub(crate) path: PathBuf,
}

impl Term {
    /// The form of the term's family, and the kinds of its values.
    fn form(&self) -> (&'static str, &'static [Kind]) {
        let (_, form, kinds) = FORMS[self.family as usize];
        (form, kinds)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = (Time, bool)> {
        let kinds = self.form().1.iter().map(|kind| !matches!(kind, Kind::Number(..)));
        self.values.iter().copied().zip(kinds)
    }

    pub(crate) fn times(&self) -> impl Iterator<Item = Time> {
        self.values().filter(|(_, is_time)| *is_time).map(|(time, _)| time)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.form().0.split(':').next().unwrap_or_default())?;
        if self.family == Family::File {
            return write!(f, ":{}", self.path.display());
        }
        self.values.iter().try_for_each(|value| write!(f, ":{value}"))
    }
}

/// The unit of a [`Spec`]'s times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// All times have units.
    Absolute,
    /// No time has a unit: they are multiples of the experiment's unit.
    Relative,
    /// All terms are files, whose content shows whether times have units.
    InFiles,
}

/// Forms of distributions, for models that need more than mean and variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// An exponential distribution, whichever family it is written in.
    Exponential,
    /// A constant, whichever family it is written in.
    Constant,
    /// Hyper-exponential with two phases and balanced means: `h2` with a CV above 1.
    Hyper,
    /// A constant with this probability (above 0 and below 1), otherwise zero.
    Bimodal {
        /// The probability.
        probability: f64,
    },
    /// Any other distribution, or a sum.
    Other,
}

/// A distribution as specified in text, such as `exp:1+bimodal:0.001:15`.
///
/// Parse it with [`str::parse`]; the error is a [`ParseError`](crate::ParseError). `Display` writes
/// a text that parses to an equal value. Two specifications are equal if they have the same numbers
/// and units: `1ms` and `1000us` differ.
///
/// A path in `file:PATH` may contain `:` and `+`. A `+` followed by the name of a distribution and
/// a colon starts the next term.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// At least one term. Either all times have units or none do.
    pub(crate) terms: Vec<Term>,
}

impl Spec {
    /// The maximum number of terms in a sum.
    pub const MAX_TERMS: usize = 16;

    /// Returns the unit of the times.
    pub fn scale(&self) -> Scale {
        match self.terms.iter().flat_map(Term::times).next() {
            None => Scale::InFiles,
            Some(Time { unit: Some(_), .. }) => Scale::Absolute,
            Some(Time { unit: None, .. }) => Scale::Relative,
        }
    }

    /// Returns the form of the distribution, for models that need more than its mean and variance.
    pub fn form(&self) -> Form {
        let [term] = self.terms.as_slice() else { return Form::Other };
        let values: Vec<f64> = term.values.iter().map(|value| value.nominal()).collect();
        match (term.family, &values[..]) {
            (Family::Exp, _)
            | (Family::Erlang | Family::Weibull, [1.0, _])
            | (Family::Gamma | Family::Hyper, [_, 1.0]) => Form::Exponential,
            (Family::Det, _)
            | (Family::LogNormal | Family::Gamma, [_, 0.0])
            | (Family::Bimodal, [0.0 | 1.0, _] | [_, 0.0]) => Form::Constant,
            (Family::Uniform, [low, high]) if low == high => Form::Constant,
            (Family::Bimodal, &[probability, _]) => Form::Bimodal { probability },
            (Family::Hyper, _) => Form::Hyper,
            _ => Form::Other,
        }
    }

    /// Adds `unit` to every time that has none, except in files.
    pub fn in_unit(mut self, unit: Unit) -> Self {
        for term in &mut self.terms {
            let with_unit = |(time, is_time): (Time, bool)| {
                if is_time { Time { unit: time.unit.or(Some(unit)), ..time } } else { time }
            };
            term.values = term.values().map(with_unit).collect();
        }
        self
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            if i > 0 {
                f.write_str("+")?;
            }
            write!(f, "{term}")?;
        }
        Ok(())
    }
}
