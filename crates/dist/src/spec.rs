//! A distribution as it was written.

use std::fmt;
use std::path::PathBuf;

use curtail_kernel::duration::Unit;

use crate::quantity::Time;

/// The forms of all distributions; the name is what stands before the first colon.
pub(crate) const FORMS: [&str; 12] = [
    "exp:MEAN",
    "det:V",
    "lognormal:MEAN:CV",
    "gamma:MEAN:CV",
    "erlang:K:MEAN",
    "h2:MEAN:CV",
    "pareto:ALPHA:MIN[:MAX]",
    "weibull:SHAPE:SCALE",
    "bimodal:PROB:VALUE",
    "hiccup:PROB:MEAN",
    "uniform:A:B",
    "file:PATH",
];

/// One term of a sum. Values are in range: [`parse`](crate::parse) makes sure of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Term {
    Exp { mean: Time },
    Det { value: Time },
    LogNormal { mean: Time, cv: f64 },
    Gamma { mean: Time, cv: f64 },
    Erlang { stages: u32, mean: Time },
    Hyper { mean: Time, cv: f64 },
    Pareto { alpha: f64, min: Time, max: Option<Time> },
    Weibull { shape: f64, scale: Time },
    Bimodal { probability: f64, value: Time },
    Hiccup { probability: f64, mean: Time },
    Uniform { low: Time, high: Time },
    File { path: PathBuf },
}

impl Term {
    /// The times in the term, in the order in which they are written.
    pub(crate) fn times(&self) -> impl Iterator<Item = Time> {
        let (first, second) = match *self {
            Self::Exp { mean }
            | Self::LogNormal { mean, .. }
            | Self::Gamma { mean, .. }
            | Self::Erlang { mean, .. }
            | Self::Hyper { mean, .. }
            | Self::Hiccup { mean, .. } => (Some(mean), None),
            Self::Det { value } | Self::Bimodal { value, .. } => (Some(value), None),
            Self::Weibull { scale, .. } => (Some(scale), None),
            Self::Pareto { min, max, .. } => (Some(min), max),
            Self::Uniform { low, high } => (Some(low), Some(high)),
            Self::File { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The term with `of` done to each of its times.
    fn map(self, of: impl Fn(Time) -> Time) -> Self {
        match self {
            Self::Exp { mean } => Self::Exp { mean: of(mean) },
            Self::Det { value } => Self::Det { value: of(value) },
            Self::LogNormal { mean, cv } => Self::LogNormal { mean: of(mean), cv },
            Self::Gamma { mean, cv } => Self::Gamma { mean: of(mean), cv },
            Self::Erlang { stages, mean } => Self::Erlang { stages, mean: of(mean) },
            Self::Hyper { mean, cv } => Self::Hyper { mean: of(mean), cv },
            Self::Pareto { alpha, min, max } => {
                Self::Pareto { alpha, min: of(min), max: max.map(of) }
            }
            Self::Weibull { shape, scale } => Self::Weibull { shape, scale: of(scale) },
            Self::Bimodal { probability, value } => Self::Bimodal { probability, value: of(value) },
            Self::Hiccup { probability, mean } => Self::Hiccup { probability, mean: of(mean) },
            Self::Uniform { low, high } => Self::Uniform { low: of(low), high: of(high) },
            Self::File { path } => Self::File { path },
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exp { mean } => write!(f, "exp:{mean}"),
            Self::Det { value } => write!(f, "det:{value}"),
            Self::LogNormal { mean, cv } => write!(f, "lognormal:{mean}:{cv}"),
            Self::Gamma { mean, cv } => write!(f, "gamma:{mean}:{cv}"),
            Self::Erlang { stages, mean } => write!(f, "erlang:{stages}:{mean}"),
            Self::Hyper { mean, cv } => write!(f, "h2:{mean}:{cv}"),
            Self::Pareto { alpha, min, max: None } => write!(f, "pareto:{alpha}:{min}"),
            Self::Pareto { alpha, min, max: Some(max) } => write!(f, "pareto:{alpha}:{min}:{max}"),
            Self::Weibull { shape, scale } => write!(f, "weibull:{shape}:{scale}"),
            Self::Bimodal { probability, value } => write!(f, "bimodal:{probability}:{value}"),
            Self::Hiccup { probability, mean } => write!(f, "hiccup:{probability}:{mean}"),
            Self::Uniform { low, high } => write!(f, "uniform:{low}:{high}"),
            Self::File { path } => write!(f, "file:{}", path.display()),
        }
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
        match *term {
            Term::Exp { .. } | Term::Erlang { stages: 1, .. } => Form::Exponential,
            Term::Gamma { cv: 1.0, .. } | Term::Hyper { cv: 1.0, .. } => Form::Exponential,
            Term::Weibull { shape: 1.0, .. } => Form::Exponential,
            Term::Det { .. } => Form::Constant,
            Term::LogNormal { cv: 0.0, .. } | Term::Gamma { cv: 0.0, .. } => Form::Constant,
            Term::Uniform { low, high } if low.nominal() == high.nominal() => Form::Constant,
            Term::Bimodal { probability: 0.0 | 1.0, .. } => Form::Constant,
            Term::Bimodal { value, .. } if value.number == 0.0 => Form::Constant,
            Term::Bimodal { probability, .. } => Form::Bimodal { probability },
            Term::Hyper { .. } => Form::Hyper,
            _ => Form::Other,
        }
    }

    /// The same with `unit` at every time that has none. What is in files stays as it is.
    pub fn in_unit(self, unit: Unit) -> Self {
        let with_unit = |time: Time| Time { unit: time.unit.or(Some(unit)), ..time };
        Self { terms: self.terms.into_iter().map(|term| term.map(with_unit)).collect() }
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
