//! A distribution as it was written.

use std::fmt;
use std::path::PathBuf;

use curtail_kernel::duration::Unit;

use crate::quantity::Time;

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A time above zero.
    Time,
    TimeOrZero,
    /// A plain number in a range, and the range in words.
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

/// Each family in the order of [`Family`], how it is written, and its values; the name is what stands before the first colon.
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

/// One term of a sum. Values are in range: [`parse`](crate::parse) makes sure of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    pub(crate) family: Family,
    /// In the order in which they are written; plain numbers have no unit.
    pub(crate) values: Vec<Time>,
    /// Of a file.
    pub(crate) path: PathBuf,
}

impl Term {
    /// How its family is written, and what its values may be.
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

/// What the times of a [`Spec`] are measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// All times carry units.
    Absolute,
    /// No time carries a unit: they are multiples of the experiment's unit.
    Relative,
    /// All terms are files, which say so themselves when they are read.
    InFiles,
}

/// The distributions of which more is known than mean and variance, for models that need it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// Exponential, in whatever family it is written.
    Exponential,
    /// A constant, in whatever family it is written.
    Constant,
    /// Hyper-exponential of two phases with balanced means: `h2`, of a CV above 1.
    Hyper,
    /// Zero, or with this probability (above 0 and below 1) a constant.
    Bimodal {
        /// The probability.
        probability: f64,
    },
    /// Another one, or a sum.
    Other,
}

/// A distribution as it was written, such as `exp:1+bimodal:0.001:15`.
///
/// Parse it with [`str::parse`]; the error is a [`ParseError`](crate::ParseError). `Display` writes
/// it back so that it parses to an equal value. Two specifications are equal if they are written
/// with the same numbers and units: `1ms` and `1000us` differ.
///
/// A path in `file:PATH` may hold `:` and `+`, but not `+` followed by the name of a distribution
/// and a colon: there the next term begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// At least one; all times with units, or all without.
    pub(crate) terms: Vec<Term>,
}

impl Spec {
    /// The most terms that a sum may have.
    pub const MAX_TERMS: usize = 16;

    /// What the times are measured in.
    pub fn scale(&self) -> Scale {
        match self.terms.iter().flat_map(Term::times).next() {
            None => Scale::InFiles,
            Some(Time { unit: Some(_), .. }) => Scale::Absolute,
            Some(Time { unit: None, .. }) => Scale::Relative,
        }
    }

    /// What is known of it beside mean and variance.
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

    /// The same with `unit` at every time that has none. What is in files stays as it is.
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
