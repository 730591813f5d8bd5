//! All families, fitted and ranked. Cost: that of all fits; the mixture of Erlangs dominates.

use curtail_dist::Spec;
use serde::Serialize;

use super::{Fit, FitError, Sample};
use super::{erlangs, exponential, gamma, hyper, hyper_balanced, lognormal, pareto, weibull};

/// A family of distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// [`exponential`].
    Exponential,
    /// [`lognormal`].
    LogNormal,
    /// [`gamma`].
    Gamma,
    /// [`weibull`].
    Weibull,
    /// [`pareto`].
    Pareto,
    /// [`hyper_balanced`].
    HyperBalanced,
    /// [`hyper`].
    Hyper,
    /// [`erlangs`].
    Erlangs,
}

impl Family {
    /// All families, the simplest first.
    pub const ALL: [Self; 8] = [
        Self::Exponential,
        Self::LogNormal,
        Self::Gamma,
        Self::Weibull,
        Self::Pareto,
        Self::HyperBalanced,
        Self::Hyper,
        Self::Erlangs,
    ];

    /// Fits this family.
    pub fn fit(self, sample: &Sample) -> Result<Fit, FitError> {
        match self {
            Self::Exponential => Ok(exponential(sample)),
            Self::LogNormal => lognormal(sample),
            Self::Gamma => gamma(sample),
            Self::Weibull => weibull(sample),
            Self::Pareto => pareto(sample),
            Self::HyperBalanced => hyper_balanced(sample),
            Self::Hyper => hyper(sample),
            Self::Erlangs => erlangs(sample),
        }
    }
}

/// What fits are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The Kolmogorov–Smirnov distance: looks at the body, whatever the number of parameters.
    Ks,
    /// Akaike's criterion: looks at every sample's likelihood, and charges for parameters.
    Aic,
}

/// All fits, the best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// The fits with their families, the best first; those that fit equally well, the simplest
    /// first.
    pub fits: Vec<(Family, Fit)>,
    /// The families that do not fit, and why.
    pub refused: Vec<(Family, FitError)>,
}

impl Ranking {
    /// The best fit.
    pub fn best(&self) -> Option<&Fit> {
        self.fits.first().map(|(_, fit)| fit)
    }

    /// The best fit that `curtail-dist` can write and that has a mean, so that it can be simulated.
    pub fn best_with_spec(&self) -> Option<&Fit> {
        self.fits.iter().map(|(_, fit)| fit).find(|fit| fit.spec.as_ref().is_some_and(has_mean))
    }
}

/// Whether a queue with such a service can have a steady state.
pub(super) fn has_mean(spec: &Spec) -> bool {
    spec.resolve(1.0).is_ok_and(|law| law.mean().is_finite())
}

/// Fits all families and ranks them.
///
/// ```
/// use curtail_queueing::fit::{By, Sample, best_fit};
///
/// let measured: Vec<f64> = (1..1000).map(|i| -(f64::from(i) / 1000.0).ln()).collect();
/// let ranking = best_fit(&Sample::new(&measured)?, By::Aic);
/// let best = ranking.best_with_spec().expect("some family fits");
/// assert!(best.spec.as_ref().is_some_and(|spec| spec.to_string().starts_with("exp:0.99")));
/// # Ok::<(), curtail_queueing::fit::FitError>(())
/// ```
pub fn best_fit(sample: &Sample, by: By) -> Ranking {
    let mut ranking = Ranking { fits: Vec::new(), refused: Vec::new() };
    for family in Family::ALL {
        match family.fit(sample) {
            // A fallback may have led to what is there already.
            Ok(fit) if ranking.fits.iter().any(|(_, other)| *other == fit) => {}
            Ok(fit) => ranking.fits.push((family, fit)),
            Err(error) => ranking.refused.push((family, error)),
        }
    }
    let key = |fit: &Fit| match by {
        By::Ks => fit.ks,
        By::Aic => fit.aic,
    };
    ranking.fits.sort_by(|(_, a), (_, b)| key(a).total_cmp(&key(b)));
    ranking
}
