//! Reading a [`Spec`]. Whatever the text is, the outcome is a value in range or an error.

use std::str::FromStr;

use crate::error::ParseError;
use crate::quantity::{self, Malformed, Time};
use crate::spec::{FORMS, Spec, Term};

impl FromStr for Spec {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let pieces = split_sum(text);
        if pieces.len() > Self::MAX_TERMS {
            return Err(ParseError::TooManyTerms(pieces.len()));
        }
        if pieces.iter().any(String::is_empty) {
            return Err(ParseError::Missing(text.to_owned()));
        }
        let terms = pieces.iter().map(|piece| term(piece)).collect::<Result<Vec<_>, _>>()?;
        let times: Vec<Time> = terms.iter().flat_map(Term::times).collect();
        same_kind(&times)?;
        Ok(Self { terms })
    }
}

/// Splits at `+`, except inside a path: there only before something that starts like a term.
fn split_sum(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for piece in text.split('+') {
        match pieces.last_mut() {
            Some(last) if name_of(last) == Some("file") && name_of(piece).is_none() => {
                last.push('+');
                last.push_str(piece);
            }
            _ => pieces.push(piece.to_owned()),
        }
    }
    pieces.iter().map(|piece| piece.trim().to_owned()).collect()
}

fn form_named(name: &str) -> Option<&'static str> {
    FORMS.into_iter().find(|form| form.split(':').next() == Some(name))
}

/// The name before the first colon, if it is that of a distribution.
fn name_of(piece: &str) -> Option<&str> {
    let (name, _) = piece.split_once(':')?;
    form_named(name.trim()).map(|_| name.trim())
}

/// Reads one term.
fn term(text: &str) -> Result<Term, ParseError> {
    let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let name = name.trim();
    let form = form_named(name).ok_or_else(|| ParseError::UnknownName(name.to_owned()))?;
    if name == "file" {
        let path = rest.unwrap_or_default().trim();
        let count = || ParseError::WrongCount { term: text.to_owned(), form };
        return if path.is_empty() { Err(count()) } else { Ok(Term::File { path: path.into() }) };
    }
    let values: Vec<&str> =
        rest.into_iter().flat_map(|rest| rest.split(':')).map(str::trim).collect();
    let args = Args { term: text, form, values: &values };
    Ok(match name {
        "exp" => args.exactly(1)?.exp()?,
        "det" => Term::Det { value: args.exactly(1)?.time(0, "V", Zero::Allowed)? },
        "lognormal" => {
            let (mean, cv) = args.exactly(2)?.mean_and_cv()?;
            Term::LogNormal { mean, cv }
        }
        "gamma" => {
            let (mean, cv) = args.exactly(2)?.mean_and_cv()?;
            Term::Gamma { mean, cv }
        }
        "erlang" => args.exactly(2)?.erlang()?,
        "h2" => args.exactly(2)?.hyper()?,
        "pareto" => args.pareto()?,
        "weibull" => Term::Weibull {
            shape: args.exactly(2)?.number(0, "SHAPE", SHAPE)?,
            scale: args.time(1, "SCALE", Zero::Refused)?,
        },
        "bimodal" => Term::Bimodal {
            probability: args.exactly(2)?.number(0, "PROB", PROBABILITY)?,
            value: args.time(1, "VALUE", Zero::Allowed)?,
        },
        "hiccup" => Term::Hiccup {
            probability: args.exactly(2)?.number(0, "PROB", PROBABILITY)?,
            mean: args.time(1, "MEAN", Zero::Refused)?,
        },
        // The name is in the table of forms, so this is the one that is left.
        _ => args.exactly(2)?.uniform()?,
    })
}

/// Fails if some times have units and some have none.
fn same_kind(times: &[Time]) -> Result<(), ParseError> {
    let with = times.iter().find(|time| time.unit.is_some());
    let without = times.iter().find(|time| time.unit.is_none());
    match (with, without) {
        (Some(with), Some(without)) => {
            Err(ParseError::MixedUnits { with: with.to_string(), without: without.to_string() })
        }
        _ => Ok(()),
    }
}

/// A range of plain numbers, and how to name it.
#[derive(Clone, Copy)]
struct Allowed {
    test: fn(f64) -> bool,
    words: &'static str,
}

const PROBABILITY: Allowed = Allowed { test: |p| (0.0..=1.0).contains(&p), words: "from 0 to 1" };
const SHAPE: Allowed = Allowed { test: |x| (1e-6..=1e6).contains(&x), words: "from 1e-6 to 1e6" };
const CV: Allowed = Allowed { test: |x| (0.0..=1e3).contains(&x), words: "from 0 to 1000" };
const CV_HYPER: Allowed = Allowed { test: |x| (1.0..=1e3).contains(&x), words: "from 1 to 1000" };
const STAGES: Allowed = Allowed {
    test: |k| (1.0..=1e6).contains(&k) && k.fract() == 0.0,
    words: "a whole number from 1 to 1e6",
};

/// Whether a time may be zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    Allowed,
    Refused,
}

/// The values of one term, with what its errors have to name.
#[derive(Clone, Copy)]
struct Args<'a> {
    term: &'a str,
    form: &'static str,
    values: &'a [&'a str],
}

impl Args<'_> {
    fn exactly(self, count: usize) -> Result<Self, ParseError> {
        if self.values.len() == count {
            Ok(self)
        } else {
            Err(ParseError::WrongCount { term: self.term.to_owned(), form: self.form })
        }
    }

    fn exp(self) -> Result<Term, ParseError> {
        Ok(Term::Exp { mean: self.time(0, "MEAN", Zero::Refused)? })
    }

    fn mean_and_cv(self) -> Result<(Time, f64), ParseError> {
        Ok((self.time(0, "MEAN", Zero::Refused)?, self.number(1, "CV", CV)?))
    }

    fn erlang(self) -> Result<Term, ParseError> {
        // In range and whole, so the conversion is exact.
        let stages = self.number(0, "K", STAGES)? as u32;
        Ok(Term::Erlang { stages, mean: self.time(1, "MEAN", Zero::Refused)? })
    }

    fn hyper(self) -> Result<Term, ParseError> {
        let mean = self.time(0, "MEAN", Zero::Refused)?;
        Ok(Term::Hyper { mean, cv: self.number(1, "CV", CV_HYPER)? })
    }

    fn pareto(self) -> Result<Term, ParseError> {
        if self.values.len() != 3 {
            self.exactly(2)?;
        }
        let alpha = self.number(0, "ALPHA", SHAPE)?;
        let min = self.time(1, "MIN", Zero::Refused)?;
        let max = match self.values.get(2) {
            None => None,
            Some(_) => Some(self.time(2, "MAX", Zero::Refused)?),
        };
        if let Some(max) = max {
            self.ordered(min, max, |min, max| min < max, "MIN below MAX")?;
        }
        Ok(Term::Pareto { alpha, min, max })
    }

    fn uniform(self) -> Result<Term, ParseError> {
        let low = self.time(0, "A", Zero::Allowed)?;
        let high = self.time(1, "B", Zero::Allowed)?;
        self.ordered(low, high, |a, b| a <= b, "A at most B")?;
        Ok(Term::Uniform { low, high })
    }

    fn ordered(
        self,
        low: Time,
        high: Time,
        test: fn(f64, f64) -> bool,
        rule: &'static str,
    ) -> Result<(), ParseError> {
        same_kind(&[low, high])?;
        if test(low.nominal(), high.nominal()) {
            return Ok(());
        }
        let (low, high) = (low.to_string(), high.to_string());
        Err(ParseError::WrongOrder { low, high, form: self.form, rule })
    }

    fn time(self, index: usize, parameter: &'static str, zero: Zero) -> Result<Time, ParseError> {
        let time = self.quantity(index, parameter)?;
        // Minus zero would be harmless, but it is hardly what was meant.
        if time.number.is_sign_negative() || (time.number == 0.0 && zero == Zero::Refused) {
            let allowed = match zero {
                Zero::Allowed => "0 or more",
                Zero::Refused => "greater than 0 (for a constant 0 write det:0)",
            };
            return Err(self.out_of_range(index, parameter, allowed));
        }
        Ok(time)
    }

    fn number(
        self,
        index: usize,
        parameter: &'static str,
        allowed: Allowed,
    ) -> Result<f64, ParseError> {
        let quantity = self.quantity(index, parameter)?;
        if quantity.unit.is_some() {
            let text = self.text(index);
            return Err(ParseError::NeedlessUnit { text, parameter, form: self.form });
        }
        if quantity.number.is_sign_negative() || !(allowed.test)(quantity.number) {
            return Err(self.out_of_range(index, parameter, allowed.words));
        }
        Ok(quantity.number)
    }

    fn quantity(self, index: usize, parameter: &'static str) -> Result<Time, ParseError> {
        let text = self.text(index);
        quantity::parse(&text).map_err(|malformed| match malformed {
            Malformed::Number => ParseError::NotANumber { text, parameter, form: self.form },
            Malformed::Unit => ParseError::UnknownUnit { text },
        })
    }

    fn out_of_range(
        self,
        index: usize,
        parameter: &'static str,
        allowed: &'static str,
    ) -> ParseError {
        let text = self.text(index);
        ParseError::OutOfRange { text, parameter, form: self.form, allowed }
    }

    fn text(self, index: usize) -> String {
        self.values.get(index).copied().unwrap_or_default().to_owned()
    }
}
