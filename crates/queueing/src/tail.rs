//! The predictions of a model, with their accuracy.

use std::fmt;

use serde::Serialize;

use crate::check::{self, ModelError};
use crate::law::Law;

/// The relation of a prediction to the true value in its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Basis {
    /// The result of a theorem, computed to machine precision.
    Exact,
    /// Close to the true value, but not guaranteed to be above or below it.
    Approximation {
        /// The name of the method.
        method: &'static str,
    },
    /// A lower bound: the true value is at least this.
    LowerBound,
    /// An upper bound: the true value is at most this.
    UpperBound,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::Approximation { method } => write!(f, "approximation ({method})"),
            Self::LowerBound => f.write_str("lower bound"),
            Self::UpperBound => f.write_str("upper bound"),
        }
    }
}

/// A random time, with its mean and, if the model provides them, its percentiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail {
    mean: f64,
    mean_basis: Basis,
    law: Option<(Law, Basis)>,
    /// The probability P(T > 0), if the law was removed but this probability is still valid.
    above_zero: Option<f64>,
    model: &'static str,
}

impl Tail {
    /// Creates a random time. Errors about missing percentiles name `model`.
    pub(crate) fn new(
        model: &'static str,
        mean: f64,
        mean_basis: Basis,
        law: Option<(Law, Basis)>,
    ) -> Result<Self, ModelError> {
        Ok(Self { mean: check::finite(mean)?, mean_basis, law, above_zero: None, model })
    }

    /// Creates a random time whose mean and law have the same basis.
    pub(crate) fn full(
        model: &'static str,
        mean: f64,
        law: Law,
        basis: Basis,
    ) -> Result<Self, ModelError> {
        Self::new(model, mean, basis, Some((law, basis)))
    }

    /// Returns the mean, in the unit of the model's parameters; finite, 0 or more.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the accuracy of the mean.
    pub fn mean_basis(&self) -> Basis {
        self.mean_basis
    }

    /// Returns the whole law, if the model provides one.
    pub fn law(&self) -> Option<&Law> {
        self.law.as_ref().map(|(law, _)| law)
    }

    /// Returns the accuracy of the law, and therefore of every percentile. The result is `None` if
    /// there is no law.
    pub fn law_basis(&self) -> Option<Basis> {
        self.law.as_ref().map(|&(_, basis)| basis)
    }

    /// Returns P(T > `t`), from 0 to 1. The result is `None` if the model provides only a mean.
    pub fn above(&self, t: f64) -> Option<f64> {
        self.law().map(|law| law.above(t))
    }

    /// Returns P(T > 0), which for a wait is the share of queries that wait at all. Some models
    /// that provide no percentiles provide this probability.
    pub fn above_zero(&self) -> Option<f64> {
        self.above(0.0).or(self.above_zero)
    }

    /// Removes the law, but keeps P(T > 0).
    pub(crate) fn without_law(self) -> Self {
        Self { above_zero: self.above_zero(), law: None, ..self }
    }

    /// Returns the `q`-quantile, for q from 0 to below 1: `quantile(0.99)` is the 99th percentile.
    pub fn quantile(&self, q: f64) -> Result<f64, ModelError> {
        self.law().ok_or(ModelError::NoPercentiles(self.model))?.quantile(q)
    }
}

/// A random time whose mean and law are known.
pub(crate) struct Time {
    pub(crate) mean: f64,
    pub(crate) law: Law,
}

/// The prediction of a queueing model for its steady state.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The model's name, for instance `M/M/1`.
    pub model: &'static str,
    /// The arrival rate λ, per unit of time.
    pub arrival_rate: f64,
    /// ρ, the share of time for which a server is busy, from 0 to below 1.
    pub utilization: f64,
    /// The time from arrival to the start of service.
    pub wait: Tail,
    /// The time from arrival to the end of service: the latency.
    pub sojourn: Tail,
}

impl Prediction {
    /// Creates the prediction of a model with exact means and laws.
    pub(crate) fn exact(
        model: &'static str,
        arrival_rate: f64,
        utilization: f64,
        wait: Time,
        sojourn: Time,
    ) -> Result<Self, ModelError> {
        let tail = |Time { mean, law }| Tail::full(model, mean, law, Basis::Exact);
        Ok(Self { model, arrival_rate, utilization, wait: tail(wait)?, sojourn: tail(sojourn)? })
    }

    /// Marks the prediction as an approximation that was computed with a different queue.
    pub fn approximating(mut self, method: &'static str) -> Self {
        let basis = Basis::Approximation { method };
        for tail in [&mut self.wait, &mut self.sojourn] {
            tail.mean_basis = basis;
            tail.law = tail.law.take().map(|(law, _)| (law, basis));
        }
        self
    }

    /// Returns the mean number of queries that wait, by Little's law. Its accuracy is that of the
    /// mean wait.
    pub fn mean_waiting(&self) -> f64 {
        self.arrival_rate * self.wait.mean()
    }

    /// Returns the mean number of queries that wait or are served, by Little's law. Its accuracy is
    /// that of the mean sojourn.
    pub fn mean_in_system(&self) -> f64 {
        self.arrival_rate * self.sojourn.mean()
    }
}
