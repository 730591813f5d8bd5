//! Models of single stations: one first-come, first-served queue in its steady state.
//!
//! | function | arrivals, service, servers | mean | percentiles |
//! |---|---|---|---|
//! | [`mm1`] | Poisson, exponential, 1 | exact | exact |
//! | [`mmk`] | Poisson, exponential, k | exact | exact |
//! | [`md1`] | Poisson, constant, 1 | exact | exact |
//! | [`mh21`] | Poisson, two-phase hyper-exponential, 1 | exact | exact |
//! | [`h2h21`] | both two-phase hyper-exponential, 1 | exact | exact |
//! | [`mg1`] | Poisson, any, 1 | exact | of the wait, approximate |
//! | [`gg1`] | any, any, 1 | approximate | of the wait, approximate |
//! | [`gg1_heavy_traffic`] | any, any, 1 | approximate | of the wait, approximate |
//! | [`gg1_upper_bound`] | any, any, 1 | upper bound | none |
//! | [`ggk`] | any, any, k | approximate | of the wait, approximate |
//!
//! "Any" means that the times are independent, and are described by their mean and variance. If the
//! skewness of the service is also known, [`Prediction::given_skewness`] removes percentiles that
//! it contradicts.

mod general;
mod h2h21;
mod hyper;
mod markov;

pub use general::{gg1, gg1_heavy_traffic, gg1_upper_bound, ggk, mg1, mg1_break_even};
pub use h2h21::{h2h21, mh21};
pub use hyper::Hyper;
pub use markov::{erlang_c, md1, mm1, mmk};

use crate::check::{self, ModelError};
use crate::law::Law;
use crate::tail::{Basis, Prediction, Tail};

/// A stream of arrivals, described by its first two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// The arrival rate λ, per unit of time; above 0.
    pub rate: f64,
    /// The squared coefficient of variation of the gaps, variance/mean²; 0 or more. It is 1 for
    /// Poisson arrivals and 0 for constant gaps.
    pub scv: f64,
}

/// A service time, described by its first two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// The mean, in units of time; above 0.
    pub mean: f64,
    /// The squared coefficient of variation, variance/mean²; 0 or more. It is 1 for exponential
    /// service.
    pub scv: f64,
}

impl Arrivals {
    fn check(self) -> Result<Self, ModelError> {
        check::positive("arrival rate", self.rate)?;
        check::scv("squared coefficient of variation of the gaps", self.scv)?;
        Ok(self)
    }
}

impl Service {
    fn check(self) -> Result<Self, ModelError> {
        if self.mean == f64::INFINITY {
            return Err(ModelError::InfiniteMoment("mean service time"));
        }
        check::positive("mean service time", self.mean)?;
        check::scv("squared coefficient of variation of the service time", self.scv)?;
        Ok(self)
    }
}

/// A mean wait.
#[derive(Clone, Copy)]
struct MeanWait {
    mean: f64,
    basis: Basis,
    /// The probability of a wait.
    waits: f64,
}

/// Creates a prediction from a mean wait. If the wait is positive, it is assumed to be exponential.
/// The sojourn has a mean but no percentiles.
fn from_mean_wait(
    model: &'static str,
    arrival_rate: f64,
    utilization: f64,
    service: f64,
    wait: MeanWait,
) -> Result<Prediction, ModelError> {
    let MeanWait { mean, basis, waits } = wait;
    // The wait is either zero or so short that its rate overflows.
    let rate = waits / mean;
    let law = if rate.is_finite() {
        Law::exponential(waits, rate)
    } else {
        Law::exponentials(Vec::new())
    };
    let law_basis = Basis::Approximation { method: "a wait that is zero or exponential" };
    let wait = Tail::new(model, mean, basis, Some((law, law_basis)))?;
    let sojourn = Tail::new(model, mean + service, basis, None)?;
    Ok(Prediction { model, arrival_rate, utilization, wait, sojourn })
}
