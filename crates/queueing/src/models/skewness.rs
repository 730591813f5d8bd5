//! Whether a wait may be taken for zero or exponential, judged by the third moment of the service.
//!
//! In M/G/1, E\[W²\] is 2E\[W\]² + λE\[S³\]/(3(1-ρ)). A wait that is zero with probability 1-ρ and
//! else exponential, with the same mean, has 2E\[W\]²/ρ. Their quotient is ρ + (1-ρ)·κ with κ =
//! 2E\[S\]E\[S³\]/(3E\[S²\]²): 1 for exponential service, and in the limit of high utilization.
//! No service has a κ below 2/3 (Cauchy and Schwarz), which is that of the constant. So percentiles
//! are kept up to 3/2: the spread of the wait is then at most as much above the exponential's as
//! that of a constant service can be below. Rare long services have far more: with one in a
//! thousand that is 100 times longer, κ is about 6. Where the third moment is infinite, the wait has
//! no variance, and no exponential resembles its tail.
//!
//! Source: Kleinrock, "Queueing Systems" I, §5.7, for the moments of the wait; the quotient is our
//! algebra. Other arrivals and more servers are judged alike, because for them nothing is exact.
//! Cost: O(1).

use super::Service;
use crate::tail::{Basis, Prediction};

/// The largest quotient of E\[W²\] at which percentiles are kept.
const MOST: f64 = 1.5;

impl Prediction {
    /// The same, but without approximate percentiles if the skewness of `service` contradicts them
    /// (the third central moment over the third power of the deviation; infinite where the third
    /// moment is). Means, and laws that are exact, stay as they are.
    pub fn given_skewness(self, service: Service, skewness: f64) -> Self {
        let exact = !matches!(self.wait.law_basis(), Some(Basis::Approximation(_)));
        let spread = self.utilization + (1.0 - self.utilization) * kappa(service.scv, skewness);
        // What is no number is no reason to trust.
        if exact || spread <= MOST {
            return self;
        }
        Self { wait: self.wait.without_law(), ..self }
    }
}

/// 2E\[S\]E\[S³\]/(3E\[S²\]²), in units of the mean.
fn kappa(scv: f64, skewness: f64) -> f64 {
    let second = 1.0 + scv;
    // A constant has no third central moment, whatever its skewness is said to be.
    let central = if scv == 0.0 { 0.0 } else { skewness * scv * scv.sqrt() };
    2.0 * (central + 3.0 * scv + 1.0) / (3.0 * second * second)
}
