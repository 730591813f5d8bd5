//! Keys: numbers that replace `{key}` in a request, so that requests differ.

use std::str::FromStr;

use rand_distr::{Distribution as _, Uniform, Zipf};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::plan::error::PlanError;

/// Maximum number of requests after each `{key}` has been replaced with every key.
pub const RENDERED_MAX: usize = 1_000_000;
pub(crate) const PLACE: &str = "{key}";
/// The largest exponent. With a larger exponent, nearly all requests would have the first key.
const EXPONENT_MAX: f64 = 10.0;

/// How often each key is requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub enum KeyDistribution {
    /// All keys are requested equally often.
    #[default]
    Uniform,
    /// Keys are numbered from 0, and key *k* is requested in proportion to (*k* + 1)^-*s*, with *s*
    /// above 0 and at most 10.
    Zipf(f64),
}

impl FromStr for KeyDistribution {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<KeyDistribution, PlanError> {
        let exponent = match text.split_once(':') {
            None if text == "uniform" => return Ok(KeyDistribution::Uniform),
            Some(("zipf", exponent)) => exponent.parse().ok(),
            _ => None,
        };
        let known = exponent.filter(|exponent| *exponent > 0.0 && *exponent <= EXPONENT_MAX);
        known.map(KeyDistribution::Zipf).ok_or_else(|| {
            PlanError::Value(format!(
                "unknown key distribution `{text}`; use uniform, or zipf:S with S above 0 and at \
                 most 10, such as zipf:0.99"
            ))
        })
    }
}

/// The set of keys and their distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Keys {
    /// The number of keys, at least 1. The number of keys times the number of requests is at most
    /// 1,000,000.
    pub count: usize,
    /// How often each key is requested.
    pub distribution: KeyDistribution,
}

impl Keys {
    pub(crate) fn check(self, requests: usize) -> Result<(), PlanError> {
        let most = RENDERED_MAX / requests.max(1);
        if !(1..=most).contains(&self.count) {
            return Err(PlanError::Value(format!(
                "{} keys; use 1 to {most}, because every request is rendered with every key",
                self.count
            )));
        }
        match self.distribution {
            KeyDistribution::Zipf(exponent) if !(exponent > 0.0 && exponent <= EXPONENT_MAX) => {
                Err(PlanError::Value(format!(
                    "a Zipf exponent of {exponent:?}; use more than 0 and at most 10"
                )))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct KeyPicker {
    draw: Draw,
    rng: Pcg64Mcg,
}

#[derive(Debug, Clone)]
enum Draw {
    Uniform(Uniform<u64>),
    Zipf(Zipf<f64>),
    First,
}

impl KeyPicker {
    pub(crate) fn new(keys: Keys, rng: Pcg64Mcg) -> KeyPicker {
        let count = keys.count.max(1);
        // This fails only for values that `Keys::check` rejects.
        let draw = match keys.distribution {
            KeyDistribution::Uniform => Uniform::new(0, count as u64).ok().map(Draw::Uniform),
            KeyDistribution::Zipf(exponent) => {
                Zipf::new(count as f64, exponent).ok().map(Draw::Zipf)
            }
        };
        KeyPicker { draw: draw.unwrap_or(Draw::First), rng }
    }

    pub(crate) fn next(&mut self) -> usize {
        match &self.draw {
            Draw::Uniform(draw) => draw.sample(&mut self.rng) as usize,
            // Ranks are integers and start at 1.
            Draw::Zipf(draw) => (draw.sample(&mut self.rng) as usize).saturating_sub(1),
            Draw::First => 0,
        }
    }
}
