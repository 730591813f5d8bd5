//! Reads the times of an experiment.

use curtail_dist::{Distribution, Spec};

use super::NONE;
use crate::calendar::Disturbance;
use crate::error::Error;
use crate::experiment::UNIT_NS;

/// Checks that either all or none of the times of an experiment have units.
#[derive(Debug, Default)]
pub(super) struct Units {
    /// The first parameter that contains times, and whether these have units.
    pub(super) have: Option<(&'static str, bool)>,
}

impl Units {
    pub(super) fn see(&mut self, name: &'static str, has: Option<bool>) -> Result<(), Error> {
        let Some(has) = has else { return Ok(()) };
        match *self.have.get_or_insert((name, has)) {
            (_, before) if before == has => Ok(()),
            (with, true) => Err(Error::MixedUnits { with, without: name }),
            (without, false) => Err(Error::MixedUnits { with: name, without }),
        }
    }

    pub(super) fn distribution(
        &mut self,
        name: &'static str,
        text: &str,
    ) -> Result<Distribution, Error> {
        let spec: Spec = text.parse().map_err(|source| Error::Distribution { name, source })?;
        let made =
            spec.resolve(UNIT_NS as f64).map_err(|source| Error::Unusable { name, source })?;
        self.see(name, made.has_units())?;
        Ok(made)
    }

    /// Parses a single time, and returns it in ns.
    pub(super) fn time(&mut self, name: &'static str, text: &str) -> Result<u64, Error> {
        Ok(self.distribution(name, &format!("det:{text}"))?.mean() as u64)
    }

    pub(super) fn optional(
        &mut self,
        name: &'static str,
        text: Option<&str>,
    ) -> Result<Option<Distribution>, Error> {
        let Some(text) = text.filter(|text| *text != NONE) else { return Ok(None) };
        let made = self.distribution(name, text)?;
        check_finite(name, text, &made)?;
        Ok(Some(made))
    }

    pub(super) fn disturbance(
        &mut self,
        name: &'static str,
        every: &str,
        lasts: &str,
    ) -> Result<Disturbance, Error> {
        let made = Disturbance {
            every: self.distribution(name, every)?,
            lasts: self.distribution(name, lasts)?,
        };
        check_mean(name, every, &made.every)?;
        check_mean(name, lasts, &made.lasts)?;
        Ok(made)
    }
}

pub(super) fn check_mean(name: &'static str, text: &str, of: &Distribution) -> Result<(), Error> {
    if of.mean() > 0.0 { check_finite(name, text, of) } else { Err(no_mean(name, text, of)) }
}

fn check_finite(name: &'static str, text: &str, of: &Distribution) -> Result<(), Error> {
    if of.mean().is_finite() { Ok(()) } else { Err(no_mean(name, text, of)) }
}

fn no_mean(name: &'static str, text: &str, of: &Distribution) -> Error {
    Error::NoMean { name, text: text.to_owned(), mean: of.mean() / UNIT_NS as f64 }
}
