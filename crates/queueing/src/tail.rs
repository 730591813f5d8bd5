//! What a model predicts, and how far it is to be trusted.

use std::fmt;

use serde::Serialize;

use crate::check;
use crate::check::ModelError;
use crate::law::Law;

/// How a prediction relates to the truth of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Basis {
    /// A theorem, computed to the precision of the machine.
    Exact,
    /// Close to the truth, but neither above nor below it for certain.
    Approximation {
        /// The name of the method.
        method: &'static str,
    },
    /// The truth is this or more.
    LowerBound,
    /// The truth is this or less.
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

/// A random time: its mean, and its percentiles where the model gives them.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail {
    mean: f64,
    mean_basis: Basis,
    law: Option<(Law, Basis)>,
    /// P(T > 0), where the law has been taken back and this still holds.
    above_zero: Option<f64>,
    model: &'static str,
}

impl Tail {
    /// `model` is named where percentiles are asked for in vain.
    pub(crate) fn new(
        model: &'static str,
        mean: f64,
        mean_basis: Basis,
        law: Option<(Law, Basis)>,
    ) -> Result<Self, ModelError> {
        Ok(Self { mean: check::finite(mean)?, mean_basis, law, above_zero: None, model })
    }

    /// Mean and law of the same basis.
    pub(crate) fn full(
        model: &'static str,
        mean: f64,
        law: Law,
        basis: Basis,
    ) -> Result<Self, ModelError> {
        Self::new(model, mean, basis, Some((law, basis)))
    }

    /// The mean, in the unit of the model's parameters; finite, 0 or more.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// How far the mean is to be trusted.
    pub fn mean_basis(&self) -> Basis {
        self.mean_basis
    }

    /// The whole law, if the model gives one.
    pub fn law(&self) -> Option<&Law> {
        self.law.as_ref().map(|(law, _)| law)
    }

    /// How far the law, and so every percentile, is to be trusted; `None` without a law.
    pub fn law_basis(&self) -> Option<Basis> {
        self.law.as_ref().map(|&(_, basis)| basis)
    }

    /// P(T > `t`), from 0 to 1; `None` if the model gives a mean only.
    pub fn above(&self, t: f64) -> Option<f64> {
        self.law().map(|law| law.above(t))
    }

    /// P(T > 0), for a wait the share of those who wait at all; also known to some models that give
    /// no percentiles.
    pub fn above_zero(&self) -> Option<f64> {
        self.above(0.0).or(self.above_zero)
    }

    /// Without the law, except for what it says of zero.
    pub(crate) fn without_law(self) -> Self {
        Self { above_zero: self.above_zero(), law: None, ..self }
    }

    /// The `q`-quantile, for q from 0 to below 1: `quantile(0.99)` is the 99th percentile.
    pub fn quantile(&self, q: f64) -> Result<f64, ModelError> {
        self.law().ok_or(ModelError::NoPercentiles(self.model))?.quantile(q)
    }
}

/// What a model of a queue predicts for its steady state.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The model's name, for instance `M/M/1`.
    pub model: &'static str,
    /// λ, per unit of time.
    pub arrival_rate: f64,
    /// ρ, the share of time that a server is busy; from 0 to below 1.
    pub utilization: f64,
    /// From arrival to the start of service.
    pub wait: Tail,
    /// From arrival to the end of service: the latency.
    pub sojourn: Tail,
}

impl Prediction {
    /// Of a model that knows means and laws exactly.
    pub(crate) fn exact(
        model: &'static str,
        (arrival_rate, utilization): (f64, f64),
        (mean_wait, wait): (f64, Law),
        (mean_sojourn, sojourn): (f64, Law),
    ) -> Result<Self, ModelError> {
        let wait = Tail::full(model, mean_wait, wait, Basis::Exact)?;
        let sojourn = Tail::full(model, mean_sojourn, sojourn, Basis::Exact)?;
        Ok(Self { model, arrival_rate, utilization, wait, sojourn })
    }

    /// The same, as an approximation of a queue that this model stands for.
    pub fn approximating(mut self, method: &'static str) -> Self {
        let basis = Basis::Approximation { method };
        for tail in [&mut self.wait, &mut self.sojourn] {
            tail.mean_basis = basis;
            tail.law = tail.law.take().map(|(law, _)| (law, basis));
        }
        self
    }

    /// The mean number of queries that wait, by Little's law; as good as the mean wait is.
    pub fn mean_waiting(&self) -> f64 {
        self.arrival_rate * self.wait.mean()
    }

    /// The mean number of queries that wait or are served, by Little's law; as good as the mean
    /// sojourn is.
    pub fn mean_in_system(&self) -> f64 {
        self.arrival_rate * self.sojourn.mean()
    }
}
