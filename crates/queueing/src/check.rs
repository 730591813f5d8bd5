//! Checks of parameters that all models share.

use crate::error::ModelError;

/// The most servers, branches or shards of a model: sums over them stay fast.
pub(crate) const MAX_SERVERS: u32 = 1_000_000;

/// A rate or a time: above zero and finite.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, ModelError> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(ModelError::OutOfRange { name, value, allowed: "greater than 0 and finite" })
}

/// A squared coefficient of variation: zero or more. Infinite has an error of its own.
pub(crate) fn scv(name: &'static str, value: f64) -> Result<f64, ModelError> {
    if value == f64::INFINITY {
        return Err(ModelError::InfiniteMoment(name));
    }
    if value >= 0.0 {
        return Ok(value);
    }
    Err(ModelError::OutOfRange { name, value, allowed: "0 or more" })
}

/// A probability, from 0 to 1.
pub(crate) fn probability(name: &'static str, value: f64) -> Result<f64, ModelError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(ModelError::OutOfRange { name, value, allowed: "from 0 to 1" })
}

/// A number of servers, branches or shards: 1 to [`MAX_SERVERS`].
pub(crate) fn count(name: &'static str, value: u32) -> Result<u32, ModelError> {
    if (1..=MAX_SERVERS).contains(&value) {
        return Ok(value);
    }
    let value = f64::from(value);
    Err(ModelError::OutOfRange { name, value, allowed: "a whole number from 1 to 1,000,000" })
}

/// A product or a quotient that should be 1 may be less by so much.
const ROUNDING: f64 = 1e-12;

/// A utilization that a queue survives: below 1.
pub(crate) fn stable(utilization: f64) -> Result<f64, ModelError> {
    match utilization {
        ..1.0 if utilization < 1.0 - ROUNDING => Ok(utilization),
        ..1.0 => Err(ModelError::Overload(1.0)),
        _ => Err(ModelError::Overload(utilization)),
    }
}

/// A result: finite.
pub(crate) fn finite(value: f64) -> Result<f64, ModelError> {
    if value.is_finite() { Ok(value) } else { Err(ModelError::NotFinite(value)) }
}
