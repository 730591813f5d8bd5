//! Parses a [`Spec`]. Any text yields either a value in range or an error.

use std::path::PathBuf;
use std::str::FromStr;

use crate::error::ParseError;
use crate::quantity::{self, Malformed, Time};
use crate::spec::{FORMS, Family, Kind, Spec, Term};

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

/// Splits at `+`. Within a path, it splits only at a `+` that is followed by the name of a
/// distribution and a colon.
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

fn form_named(name: &str) -> Option<(Family, &'static str, &'static [Kind])> {
    FORMS.into_iter().find(|(_, form, _)| form.split(':').next() == Some(name))
}

/// Returns the name before the first colon, if it names a distribution.
fn name_of(piece: &str) -> Option<&str> {
    let (name, _) = piece.split_once(':')?;
    form_named(name.trim()).map(|_| name.trim())
}

fn term(text: &str) -> Result<Term, ParseError> {
    let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let name = name.trim();
    let (family, form, kinds) =
        form_named(name).ok_or_else(|| ParseError::UnknownName(name.to_owned()))?;
    let wrong_count = || ParseError::WrongCount { term: text.to_owned(), form };
    if family == Family::File {
        let path = PathBuf::from(rest.unwrap_or_default().trim());
        let is_empty = path.as_os_str().is_empty();
        let term = Term { family, values: Vec::new(), path };
        return if is_empty { Err(wrong_count()) } else { Ok(term) };
    }
    let texts: Vec<&str> =
        rest.into_iter().flat_map(|rest| rest.split(':')).map(str::trim).collect();
    // The last value of a Pareto distribution is optional.
    let fewest = kinds.len() - usize::from(form.contains('['));
    if !(fewest..=kinds.len()).contains(&texts.len()) {
        return Err(wrong_count());
    }
    let names = form.split(':').skip(1).map(|name| name.trim_matches(['[', ']']));
    let values = texts.iter().zip(names).zip(kinds);
    let values = values.map(|((text, name), kind)| value(text, name, *kind, form));
    let values = values.collect::<Result<Vec<_>, _>>()?;
    match (family, &values[..]) {
        (Family::Uniform, &[a, b]) => ordered(a, b, |a, b| a <= b, form, "A at most B")?,
        (Family::Pareto, &[_, min, max]) => {
            ordered(min, max, |min, max| min < max, form, "MIN below MAX")?;
        }
        _ => {}
    }
    Ok(Term { family, values, path: PathBuf::new() })
}

fn value(
    text: &str,
    parameter: &'static str,
    kind: Kind,
    form: &'static str,
) -> Result<Time, ParseError> {
    let text = text.to_owned();
    let value = match quantity::parse(&text) {
        Ok(value) => value,
        Err(Malformed::Number) => return Err(ParseError::NotANumber { text, parameter, form }),
        Err(Malformed::Unit) => return Err(ParseError::UnknownUnit { text }),
    };
    let (fits, allowed) = match kind {
        Kind::Time => (value.number > 0.0, "greater than 0 (for a constant 0 write det:0)"),
        Kind::TimeOrZero => (true, "0 or more"),
        Kind::Number(..) if value.unit.is_some() => {
            return Err(ParseError::NeedlessUnit { text, parameter, form });
        }
        Kind::Number(fits, allowed) => (fits(value.number), allowed),
    };
    // Minus zero would be harmless, but it is probably a mistake.
    if fits && value.number.is_sign_positive() {
        return Ok(value);
    }
    Err(ParseError::OutOfRange { text, parameter, form, allowed })
}

fn ordered(
    low: Time,
    high: Time,
    test: fn(f64, f64) -> bool,
    form: &'static str,
    rule: &'static str,
) -> Result<(), ParseError> {
    same_kind(&[low, high])?;
    if test(low.nominal(), high.nominal()) {
        return Ok(());
    }
    Err(ParseError::WrongOrder { low: low.to_string(), high: high.to_string(), form, rule })
}

/// Fails if some times have units and others have none.
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
